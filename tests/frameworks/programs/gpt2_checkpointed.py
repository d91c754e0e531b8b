"""GPT-2 under the Trainer: gradient checkpointing, autocast to bfloat16."""

import tempfile

from common import arguments, text, trainer_callback
from transformers import GPT2Config, GPT2LMHeadModel, Trainer

model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=2, n_head=2))
with tempfile.TemporaryDirectory() as directory:
    Trainer(
        model=model,
        args=arguments(directory, gradient_checkpointing=True, bf16=True),
        train_dataset=text(),
        callbacks=[trainer_callback()],
    ).train()
