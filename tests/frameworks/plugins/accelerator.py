import json
import logging

import torch
from accelerate import Accelerator
from common import arguments, digest, network, rows

from sonde.plugins.accelerate import SondeTracker

logging.basicConfig(level=logging.INFO)
out, bad = arguments()
accelerator = Accelerator(cpu=True, log_with=[SondeTracker(out, first_step=1)] if out else None)
accelerator.init_trackers("project")
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = torch.utils.data.DataLoader(rows(5, bad), batch_size=2)
model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
for step, batch in enumerate(batches, 1):
    loss = model(batch)["loss"]
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.log({"loss": loss.item()}, step=step)
accelerator.end_training()
print(json.dumps({"bits": [digest(model), torch.get_rng_state().sum().item()]}))
