"""Mamba, a state space model, under the Trainer: the slow path in PyTorch's own operators."""

import tempfile

from common import arguments, text, trainer_callback
from transformers import MambaConfig, MambaForCausalLM, Trainer

model = MambaForCausalLM(
    MambaConfig(vocab_size=32, hidden_size=16, state_size=4, num_hidden_layers=2, time_step_rank=4)
)
with tempfile.TemporaryDirectory() as directory:
    Trainer(
        model=model, args=arguments(directory), train_dataset=text(labels="same"), callbacks=[trainer_callback()]
    ).train()
