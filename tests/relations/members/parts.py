"""Three micro-batches of a regression beside one batch."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

pair = Pair("parts")


@pair.prepare
def prepare():
    golden, target = (nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 4)) for _ in range(2))
    target.load_state_dict(golden.state_dict())
    x, y = torch.randn(12, 9), torch.randn(12, 4)
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.01) for model in (golden, target)]

    def run_golden():
        F.mse_loss(golden(x), y).backward()
        optimizers[0].step()

    def run_target():
        for part in range(3):
            rows = slice(4 * part, 4 * part + 4)
            loss = F.mse_loss(target(x[rows]), y[rows])
            (loss / (2 if bad("divisor") else 3)).backward()
        if bad("clipped"):
            for weight in target.parameters():
                weight.grad.mul_(0.7)  # bad("clipped")
        optimizers[1].step()

    return run_golden, run_target


pair.fault("divisor", "div", "ones_like")
pair.fault("clipped", "mul_")
