"""Programs for the test device (tests/device/testdev), and the beginning that all of them have."""

import importlib.util
import pathlib
import textwrap

DEVICE = pathlib.Path(__file__).resolve().parents[1] / "device"
TORCH = pathlib.Path(importlib.util.find_spec("torch").origin).parent
# PyTorch 2.12 and later; docs/devices.md says what happens without.
SAYS_CAPTURES = "isStreamCapturing" in (TORCH / "include/c10/core/impl/DeviceGuardImplInterface.h").read_text()


def without_captures(lines):
    """The lines of Sonde without the one about captures, which appears once where PyTorch cannot show them."""
    others = [line for line in lines if "whether a graph of a device is being captured" not in line]
    assert len(lines) - len(others) == (0 if SAYS_CAPTURES else 1)
    return others


_BEGIN = f"""
import contextlib, ctypes, json, os, sys
sys.path.insert(0, {str(DEVICE)!r})
import torch
import testdev
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)


def show(*values):
    print(json.dumps(values))


@contextlib.contextmanager
def switched_to(stream):
    before = torch.accelerator.current_stream()
    torch.accelerator.set_stream(stream)
    yield
    torch.accelerator.set_stream(before)


def on(stream):
    # PyTorch 2.6 has no `with stream:`
    return stream if hasattr(stream, "__enter__") else switched_to(stream)

"""


def on_device(source, schedule="last"):
    """`source` after the beginning. The schedule says how late the device's streams run."""
    return f"{_BEGIN}testdev.schedule({schedule!r})\n{textwrap.dedent(source)}"


# Two networks, their data and their optimizers, as functions of the device.
NETWORKS = """
def convolution(device):
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(36, 5)).to(device)
    batch = torch.randn(4, 1, 8, 8).to(device), torch.randint(5, (4,)).to(device)
    return net, batch


class Transformer(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=dropout, batch_first=True)
        self.head = nn.Linear(16, 20)

    def forward(self, x):
        return self.head(self.block(self.embedding(x))).flatten(0, 1)


def transformer(device, dropout=0.0):
    net = Transformer(dropout).to(device)
    return net, (torch.randint(20, (2, 6)).to(device), torch.randint(20, (12,)).to(device))


def step(net, batch, optimizer):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(batch[0]), batch[1])
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    return loss.detach()
"""
