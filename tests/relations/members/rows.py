"""A network that reads one sentence after the other, with a weight by head, beside one that reads all at once."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

HEADS, WIDTH, INNER, ROWS, TOKENS = 4, 6, 40, 5, 7
HIDDEN = HEADS * WIDTH

pair = Pair("rows")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.up = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, INNER)
        self.down = nn.Linear(INNER, HIDDEN)

    def forward(self, x):
        x = x + self.mix(self.norm(x))
        return x + self.down(F.silu(self.up(x)))


class Own(nn.Module):
    def __init__(self, golden, number):
        super().__init__()
        w = golden.mix.weight.detach()
        if bad("width_first") and number == 1:
            w = w.view(HIDDEN, WIDTH, HEADS).permute(2, 1, 0)
        else:
            w = w.view(HIDDEN, HEADS, WIDTH).permute(1, 2, 0)
        self.mix, self.bias = nn.Parameter(w.clone()), nn.Parameter(golden.mix.bias.detach().clone())
        self.norm, self.up, self.down = golden.norm, golden.up, golden.down

    def forward(self, x):
        y = torch.einsum("thd,hdo->to", self.norm(x).view(-1, HEADS, WIDTH), self.mix) + self.bias
        x = x + (y * 0.9 if bad("smaller") else y)
        y = self.up(x)
        return x + self.down(F.gelu(y) if bad("activation") else F.silu(y))


@pair.prepare
def prepare():
    golden = nn.Sequential(Golden(), Golden(), nn.Linear(HIDDEN, 9))
    target = nn.Sequential(*(Own(layer, number) for number, layer in enumerate(golden[:2])), nn.Linear(HIDDEN, 9))
    target[2].load_state_dict(golden[2].state_dict())
    if bad("other_head"):
        with torch.no_grad():
            target[2].weight.mul_(0.9).add_(0.02)
    x = torch.randn(ROWS, TOKENS, HIDDEN)

    def run_golden():
        with torch.no_grad():
            return golden(x)

    def run_target():
        with torch.no_grad():
            return torch.stack([target(x[row]) for row in range(ROWS)])

    return run_golden, run_target


pair.fault("smaller", "mul")
pair.fault("activation", "gelu")
pair.weight("width_first", "1.mix")
pair.weight("other_head", "2.weight")
