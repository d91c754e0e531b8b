"""A GAN under lightning.Trainer with manual optimization: two optimizers, two steps for each batch."""

import logging
import warnings

import lightning
import torch
from common import Examples, results
from torch import nn

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Gan(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))

    def training_step(self, batch, index):
        for_generator, for_critic = self.optimizers()
        results["numbers"].append(self.global_step)
        fake = self.generator(torch.randn(len(batch), 2))
        loss = nn.functional.softplus(-self.critic(fake)).mean()
        for_generator.zero_grad()
        self.manual_backward(loss)
        for_generator.step()
        results["numbers"].append(self.global_step)
        loss = (
            nn.functional.softplus(-self.critic(batch)).mean()
            + nn.functional.softplus(self.critic(fake.detach())).mean()
        )
        for_critic.zero_grad()
        self.manual_backward(loss)
        for_critic.step()
        results["losses"].append(repr(loss.item()))

    def configure_optimizers(self):
        return torch.optim.Adam(self.generator.parameters()), torch.optim.Adam(self.critic.parameters())


rows = Examples(6, lambda g: torch.randn(4, generator=g))
trainer = lightning.Trainer(
    max_epochs=1,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Gan(), torch.utils.data.DataLoader(rows, batch_size=2))
