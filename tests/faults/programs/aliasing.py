"""One memory under two names."""

import ctypes

import numpy as np
import torch
from cases import STATISTICS, TENSORS, Family
from torch import nn
from training import Small, batch, train

family = Family("aliasing")
INF = float("inf")


@family.fault("masked_fill_")
def shared_buffer_masked_in_place():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            h = self.first(x)
            scores = h.detach()
            scores.masked_fill_(torch.arange(4) == 3, -INF)  # FAULT
            attention = torch.softmax(scores, -1)
            return self.second(h) * attention

    train(Shared())


@family.fault("relu", "mul", "sigmoid", verdicts=("memory_overwritten", "bad_input"), evidence=(TENSORS, STATISTICS))
def written_through_numpy():
    def body(y):
        z = torch.sigmoid(y)
        z.detach().numpy()[2, 1] = np.nan
        return torch.relu(z)  # FAULT

    train(Small(body))


@family.fault("relu", "mul", "sigmoid", verdicts=("memory_overwritten", "bad_input"), evidence=(TENSORS, STATISTICS))
def written_through_a_pointer():
    def body(y):
        z = torch.sigmoid(y)
        bad = np.array([np.nan], np.float32)
        ctypes.memmove(z.data_ptr() + 4, bad.ctypes.data, 4)
        return torch.relu(z)  # FAULT

    train(Small(body))


@family.fault("log_", "linear", "addmm")
def view_logged_in_place():
    class Viewed(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.register_buffer("table", torch.arange(16.0).view(4, 4))

        def forward(self, x):
            row = self.table[0]
            row.log_()  # FAULT
            return self.fc(x) @ self.table

    train(Viewed())


@family.fault("div_")
def expanded_and_divided_in_place():
    class Buffer(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            y = self.fc(x)
            with torch.no_grad():
                half = self.total[:2]
                half.div_(half.sum())  # FAULT
            return y * self.total

    train(Buffer())


@family.fault("masked_fill_", "index_put_", "fill_", "_index_put_impl_")
def mask_left_in_the_residual():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

        def forward(self, x):
            h = self.first(x)
            flat = h.detach().view(-1)
            flat[3::4] = -INF  # FAULT
            return self.norm(h) + torch.softmax(h, -1)

    train(Residual(), batch())
