"""Trainings that msprobe's PrecisionDebugger dumps, in .venv-probe. To import it takes seconds: they are forks of one.

    probe_training.py OUT RUN…    RUN is LEVEL-TASK[-healthy], as mix-statistics, and leaves its dump in OUT/RUN

Three steps of a small network with a mask of healthy infinities. In step 1 a logarithm of negative numbers, unless
healthy.
"""

import json
import os
import pathlib
import sys
import types

import torch
from torch import nn


class Unused(types.ModuleType):
    """A module that is imported and never used: every name in it is an empty class."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


# The debugger's package imports these large packages for drawings and monitors that are not used here.
for name in ("matplotlib", "matplotlib.pyplot", "matplotlib.patches", "torch.utils.tensorboard"):
    sys.modules[name] = Unused(name)
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, sys.modules[name])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 3)

    def forward(self, x, margin):
        x = self.fc(x)
        last = torch.tensor([False, False, True])
        certainty = torch.softmax(x.masked_fill(last, float("-inf")), -1) + 0.01
        return x + torch.log(certainty - margin)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.head = Head()

    def forward(self, x, margin):
        return self.head(self.block(x).flatten(1), margin)


def train(directory, level, task, is_healthy):
    from msprobe.pytorch import PrecisionDebugger

    settings = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    config = directory.with_suffix(".json")
    config.write_text(
        json.dumps({
            "task": task, "dump_path": str(directory), "rank": [], "step": [], "level": level, "risk_level": "ALL",
            "async_dump": False, task: settings,
        })
    )  # fmt: skip
    torch.manual_seed(0)
    network = Small()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    debugger = PrecisionDebugger(config_path=str(config))
    for step in range(3):
        debugger.start(model=network)
        is_bad = step == 1 and not is_healthy
        loss = network(torch.randn(2, 2, 6, 6), 0.9 if is_bad else 0.0).square().mean()
        optimizer.zero_grad()
        loss.backward()
        debugger.stop()
        debugger.step()
        if not is_bad:
            optimizer.step()


def main():
    out = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    import msprobe.pytorch  # noqa: F401

    for run in sys.argv[2:]:
        level, task, *rest = run.split("-")
        child = os.fork()
        if child == 0:
            train(out / run, level, task, bool(rest))
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            sys.exit(f"{run} ended with {status}")


if __name__ == "__main__":
    main()
