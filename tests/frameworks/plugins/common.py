"""A network whose rows can contain a number that makes its logarithm NaN, and the runs of a program."""

import hashlib
import json
import sys

import torch
from torch import nn

torch.set_num_threads(1)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.last = nn.Linear(8, 1)

    def forward(self, x=None, labels=None):
        shift = torch.log(x.amin(dim=1, keepdim=True))  # the planted line
        loss = (self.last(torch.relu(self.first(x))) + shift).square().mean()
        return {"loss": loss}


def rows(steps, bad_step=None, batch=2):
    """Rows of positive numbers; one in the batch of `bad_step` is negative."""
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(steps * batch, 4, generator=generator) + 0.5
    if bad_step is not None:
        values[bad_step * batch, 0] = -1.0
    return values


def network():
    torch.manual_seed(0)
    return Small()


def digest(model):
    digests = hashlib.sha256()
    for parameter in model.parameters():
        digests.update(parameter.detach().numpy().tobytes())
    return digests.hexdigest()


def runs():
    return (None, BAD_STEP), (f"{sys.argv[1]}/bad", BAD_STEP), (None, None), (f"{sys.argv[1]}/good", None)


def run(train):
    """train(directory of the dump or None, step with the bad row or None) gives a model and other facts: bare and
    recorded with the bad row, then both without it. The log of each run ends in a line."""
    facts = []
    for out, bad in runs():
        model, *others = train(out, bad)
        facts.append([digest(model), torch.get_rng_state().sum().item(), *others])
        for stream in (sys.stdout, sys.stderr):
            print(END_OF_RUN, file=stream, flush=True)
    print(json.dumps(facts))


BAD_STEP = 2  # counted from 0
END_OF_RUN = "--- end of run"
