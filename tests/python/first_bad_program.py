"""Models with a fault each, and some without: one step of training for each, in this order."""

import ctypes
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

INF = float("inf")


class Masked(nn.Module):
    """A transformer with every kind of harmless infinity."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.query, self.key = nn.Linear(16, 16), nn.Linear(16, 16)
        self.register_buffer("causal", torch.triu(torch.full((6, 6), -INF), 1))
        self.out = nn.Linear(16, 20)

    def forward(self, tokens, fault=None):
        x = self.embed(tokens)
        x = self.layer(x, src_mask=nn.Transformer.generate_square_subsequent_mask(6))
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 4 + self.causal
        if fault == "log":
            scores = scores + torch.log(torch.relu(x).sum(-1) * 0).unsqueeze(-1)  # FAULT log
        x = torch.softmax(scores, -1) @ x
        keep = torch.log((tokens != 18).float())  # log of exact zeros
        x = x + torch.softmax(keep, -1).unsqueeze(-1)
        best = torch.full((2, 16), -INF)
        for t in range(6):
            best = torch.maximum(best, x[:, t])
        x = x + best.unsqueeze(1)
        x = x + 1 / (1 + torch.exp(1000 * torch.ones(6, 1)))
        return self.out(x).masked_fill(torch.arange(20) >= 18, -INF)


def language(fault=None):
    net = Masked()
    tokens = torch.randint(0, 17, (2, 6))
    tokens[0, 1] = 18 if fault == "forbidden" else 17
    return net, lambda: F.cross_entropy(net(tokens, fault).flatten(0, 1), tokens.flatten())


class Small(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.body = body

    def forward(self, x):
        return self.body(self.fc(x))


def small(body, x=None):
    net = Small(body)
    x = torch.ones(3, 4) if x is None else x
    return net, lambda: net(x).sum()


def nan_batch():
    data = np.ones((3, 4), np.float32)
    data[1, 2] = np.nan
    return small(torch.relu, torch.from_numpy(data))


def stomp(y, values):
    array = np.array(values, np.float32)
    ctypes.memmove(y.data_ptr() + 4, array.ctypes.data, array.nbytes)
    return y


def exchange_rows(y):
    array = y.detach().numpy()
    array[[0, 2]] = array[[2, 0]]
    return y


def numbered(y):
    return torch.sigmoid(y * torch.arange(1.0, 4).unsqueeze(1))


def unit(z):
    return z / z.abs()  # FAULT phase


CASES = {
    "healthy": language,
    "log": lambda: language("log"),
    "forbidden": lambda: language("forbidden"),
    "half": lambda: small(lambda y: ((y * 0 + 300).half() @ (y * 0 + 300).half().t()).float()),  # FAULT half
    "bfloat16": lambda: small(lambda y: torch.exp((y * 0 + 90).bfloat16()).float()),  # FAULT bfloat16
    "sqrt_trap": lambda: small(lambda y: torch.where(y > 1e9, torch.sqrt(y * 0), y)),  # FAULT sqrt_trap
    "exp_trap": lambda: small(lambda y: torch.where(y > 1e9, torch.exp(y * 0 + 1000), y)),  # FAULT exp_trap
    "divide": lambda: small(lambda y: y / (y - y)),  # FAULT divide
    "empty_row": lambda: small(
        lambda y: torch.softmax(y.masked_fill(torch.arange(3)[:, None] == 1, -INF), -1)  # FAULT empty_row
    ),
    "nan_batch": nan_batch,
    "stomped": lambda: small(lambda y: torch.relu(stomp(torch.sigmoid(y), [np.nan]))),  # FAULT stomped
    "stomped_finite": lambda: small(lambda y: torch.relu(stomp(torch.sigmoid(y), [7, 8]))),  # FAULT stomped_finite
    "masked_nan": lambda: small(lambda y: torch.nan_to_num(torch.log(y - 1e9).detach()) * 1e-9 + y),
    "rows_exchanged": lambda: small(lambda y: torch.relu(exchange_rows(numbered(y)))),  # FAULT rows_exchanged
    "cast": lambda: small(lambda y: (y * 0 + 70000).half().float()),  # FAULT cast
    "phase": lambda: small(lambda y: torch.fft.irfft(unit(torch.fft.rfft(y * 0)), n=4)),
}
SCALER, ADAM = len(CASES), len(CASES) + 1


def train():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for make in CASES.values():
        net, loss_of = make()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**125)
    scaler.scale((net(torch.ones(3, 4)) * 1e3).square().mean()).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    net = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, eps=0)
    (net(torch.ones(1, 2)) * 0).sum().backward()
    optimizer.step()  # FAULT adam


def train_rank():
    """Two ranks; the second takes the logarithm of a negative number in step 1."""
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        y = net(torch.ones(3, 4))
        if step == 1 and dist.get_rank() == 1:
            y = y * torch.log(y.detach() - 10)  # FAULT rank
        y.mean().backward()
        optimizer.step()
    # gloo's thread frees the last collective, for which it needs the interpreter's lock; whoever frees the group first
    # waits for that thread with the lock. So PyTorch hangs in one of twenty runs, with and without Sonde.
    time.sleep(0.1)
    dist.destroy_process_group()


if __name__ == "__main__":
    train_rank() if sys.argv[1:] == ["ranks"] else train()
