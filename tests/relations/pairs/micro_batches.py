"""Gradients of two micro-batches that are added up, beside one batch."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

pair = Pair("micro_batches")


def made():
    return nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.LayerNorm(24), nn.Linear(24, 24), nn.GELU(), nn.Linear(24, 5))


@pair.prepare
def prepare():
    golden, target = made(), made()
    target.load_state_dict(golden.state_dict())
    if bad("not_synced"):
        with torch.no_grad():
            target[3].bias.add_(0.05)
    x, y = torch.randn(8, 12), torch.randint(0, 5, (8,))
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (golden, target)]

    def run_golden():
        F.cross_entropy(golden(x), y).backward()
        optimizers[0].step()

    def run_target():
        for i in range(2):
            part = slice(4 * i, 4 * i + 4)
            labels = y[0:4] if bad("first_labels") else y[part]
            given = x[part] + 0.01 if bad("shifted") and i == 1 else x[part]
            loss = F.cross_entropy(target(given), labels)
            (loss if bad("sum_for_mean") else loss / 2).backward()
        optimizers[1].step()

    return run_golden, run_target


pair.fault("first_labels", "cross_entropy_loss", "slice")
pair.fault("shifted", "add")
pair.fault("sum_for_mean", "cross_entropy_loss", "ones_like", "nll_loss_backward", "backward")
pair.weight("not_synced", "3.bias")
