import json

import torch
from common import arguments, digest, network, rows

from sonde.plugins.loop import record, schedule

out, bad = arguments()
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with record(out, schedule=schedule(wait=1, active=3), first_step=10) as recording:
    for batch in rows(5, bad).split(2):
        loss = model(batch)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        recording.step({"loss": loss.item()})
report = recording.report
line = report.line if report else None
print(json.dumps({"bits": [digest(model), torch.get_rng_state().sum().item()], "line": line}))
