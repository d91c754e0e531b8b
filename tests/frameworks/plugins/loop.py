import contextlib
import os

import torch
from common import network, rows, run

from sonde.plugins.loop import record, schedule


def train(out, bad):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses, lines = [], []
    with contextlib.ExitStack() as stack:
        recording = None
        if out:
            chosen = schedule(wait=1, active=3, repeat=1)
            made = record(out, schedule=chosen, first_step=10, on_report=lambda found: lines.append(found.line))
            recording = stack.enter_context(made)
        for batch in rows(5, bad).split(2):
            loss = model(batch)["loss"]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(repr(loss.item()))
            if recording:
                recording.step({"loss": loss.item()})
    return model, losses, [*lines, *(sorted(os.listdir(f"{out}/rank_0/Net/0")) if out else [])]


run(train)
