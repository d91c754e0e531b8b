"""A variational autoencoder under lightning.Trainer. Its pixels are not scaled, and its loss becomes NaN in step 1.

    sonde run --out /data/vae -- python train.py
    sonde first-bad /data/vae

With --scaled it trains as it should. Nothing is downloaded.
"""

import argparse

import lightning
import torch
from torch import nn


class Autoencoder(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 64))

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(z), mean, log_variance

    def loss(self, x):
        y, mean, log_variance = self(x)
        distance = -0.5 * (1 + log_variance - mean.square() - torch.exp(log_variance)).sum(-1).mean()
        return nn.functional.mse_loss(y, x) + distance

    def training_step(self, batch, index):
        loss = self.loss(batch)
        print(f"step {self.global_step}: loss {loss.item():.4g}")
        return loss

    def validation_step(self, batch, index):
        self.log("validation", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


parser = argparse.ArgumentParser()
parser.add_argument("--scaled", action="store_true", help="pixels from 0 to 1")
options = parser.parse_args()

lightning.seed_everything(0, verbose=False)
pixels = torch.randint(0, 256, (16, 64)).float()
if options.scaled:
    pixels /= 255
batches = torch.utils.data.DataLoader(pixels, batch_size=4)
trainer = lightning.Trainer(
    max_epochs=1,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Autoencoder(), batches, batches)
