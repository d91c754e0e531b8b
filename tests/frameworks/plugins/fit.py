import lightning
import torch
from common import network, rows, run

from sonde.plugins.lightning import SondeCallback


class Module(lightning.LightningModule):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def training_step(self, batch, index):
        return self.model(batch)["loss"]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def train(out, bad):
    model = network()
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        log_every_n_steps=1,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[SondeCallback(out)] if out else [],
    )
    trainer.fit(Module(model), torch.utils.data.DataLoader(rows(5, bad), batch_size=2))
    return model, trainer.global_step, []


run(train)
