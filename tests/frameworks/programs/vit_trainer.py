"""ViT classifies pictures under the Trainer, with label smoothing and Adafactor."""

import tempfile

import torch
from common import Examples, arguments, trainer_callback
from transformers import Trainer, ViTConfig, ViTForImageClassification

model = ViTForImageClassification(
    ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=8
    )
)
pictures = Examples(8, lambda g: {"pixel_values": torch.randn(3, 16, 16, generator=g), "labels": torch.tensor(1)})
with tempfile.TemporaryDirectory() as directory:
    Trainer(
        model=model,
        args=arguments(directory, label_smoothing_factor=0.1, optim="adafactor"),
        train_dataset=pictures,
        callbacks=[trainer_callback()],
    ).train()
