"""An autoencoder under lightning.Trainer: accumulation, validation, sanity check first."""

import logging
import warnings

import lightning
import torch
from common import Examples, results
from torch import nn

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class AutoEncoder(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 4), nn.GELU())
        self.decoder = nn.Linear(4, 8)

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def training_step(self, batch, index):
        if index % 2 == 0:
            results["numbers"].append(self.global_step)
        loss = nn.functional.mse_loss(self(batch), batch)
        results["losses"].append(repr(loss.item()))
        return loss

    def validation_step(self, batch, index):
        self.log("val", nn.functional.mse_loss(self(batch), batch))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


rows = Examples(12, lambda g: torch.randn(8, generator=g))
loader = torch.utils.data.DataLoader(rows, batch_size=2)
trainer = lightning.Trainer(
    max_epochs=1,
    accelerator="cpu",
    accumulate_grad_batches=2,
    val_check_interval=3,  # in mid-accumulation
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(AutoEncoder(), loader, loader)
