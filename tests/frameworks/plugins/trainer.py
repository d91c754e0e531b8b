import tempfile

from common import network, rows, run
from transformers import Trainer, TrainingArguments

from sonde.plugins.huggingface import SondeCallback


def train(out, bad):
    model, alerts = network(), []
    with tempfile.TemporaryDirectory() as directory:
        settings = TrainingArguments(
            output_dir=directory,
            max_steps=5,
            per_device_train_batch_size=2,
            train_sampling_strategy="sequential",
            logging_steps=1,
            logging_nan_inf_filter=False,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            dataloader_pin_memory=False,
            remove_unused_columns=False,
            seed=0,
        )
        data = [{"x": row} for row in rows(5, bad)]
        callbacks = [SondeCallback(out, on_alert=lambda finding: alerts.append(finding["first"]))] if out else []
        trainer = Trainer(model=model, args=settings, train_dataset=data, callbacks=callbacks)
        trainer.train()
    history = trainer.state.log_history
    losses = [repr(entry["loss"]) for entry in history if "loss" in entry]
    found = [entry["sonde_first_bad"] for entry in history if "sonde_first_bad" in entry]
    return model, losses, [*found, *(f"alert: {first['op_type']} in step {first['step']}" for first in alerts)]


run(train)
