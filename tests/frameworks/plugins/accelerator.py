import logging

import torch
from accelerate import Accelerator
from common import network, rows, run

from sonde.plugins.accelerate import SondeTracker

logging.basicConfig(level=logging.INFO)


def train(out, bad):
    accelerator = Accelerator(cpu=True, log_with=[SondeTracker(out, first_step=1)] if out else None)
    accelerator.init_trackers("project")
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = torch.utils.data.DataLoader(rows(5, bad), batch_size=2)
    prepared, optimizer, batches = accelerator.prepare(model, optimizer, batches)
    losses = []
    for step, batch in enumerate(batches, 1):
        loss = prepared(batch)["loss"]
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(repr(loss.item()))
        accelerator.log({"loss": loss.item()}, step=step)
    accelerator.end_training()
    return model, losses, []


run(train)
