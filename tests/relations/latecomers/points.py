"""Sets of points: convolutions of one element beside linears, a learned turn, and the greatest over all points."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

POINTS, WIDTH, WIDE, CLASSES, BATCH = 14, 12, 20, 5, 3

pair = Pair("points")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn1, self.turn2 = nn.Conv1d(3, WIDTH, 1), nn.Linear(WIDTH, 9)
        self.one, self.norm = nn.Conv1d(3, WIDTH, 1), nn.BatchNorm1d(WIDTH)
        self.two, self.three = nn.Conv1d(WIDTH, WIDE, 1), nn.Conv1d(WIDTH + WIDE, WIDTH, 1)
        self.head = nn.Conv1d(WIDTH, CLASSES, 1)

    def forward(self, x):
        turn = self.turn2(F.relu(self.turn1(x)).amax(-1)).view(-1, 3, 3) + torch.eye(3)
        x = torch.bmm(x.transpose(1, 2), turn).transpose(1, 2)
        local = F.relu(self.norm(self.one(x)))
        whole = self.two(local).max(-1, keepdim=True).values.expand(-1, -1, POINTS)
        y = F.relu(self.three(torch.cat((local, whole), 1)))
        return F.log_softmax(self.head(y), 1)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.state_dict().items() if w.is_floating_point()}
        for name in ("turn1", "one", "two", "three", "head"):
            own[f"{name}_weight"] = own[f"{name}_weight"].squeeze(-1)
        if bad("stale_spread"):
            own["norm_running_var"] = torch.ones(WIDTH)
        self.w = nn.ParameterDict({n: nn.Parameter(w, requires_grad=False) for n, w in own.items()})

    def linear(self, x, name):
        return F.linear(x, self.w[f"{name}_weight"], self.w[f"{name}_bias"])  # bad("no_eye")

    def forward(self, x):
        start = x = x.mT.contiguous()
        turn = self.linear(self.linear(x, "turn1").relu().max(1).values, "turn2").unflatten(-1, (3, 3))
        if bad("turned_back"):
            turn = turn.mT  # bad("turned_back")
        x = torch.einsum("bpi,bij->bpj", x, turn)
        x = x if bad("no_eye") else x + start
        x = self.linear(x, "one")  # bad("no_eye")
        scale = self.w["norm_weight"] / (self.w["norm_running_var"] + 1e-5).sqrt()
        local = ((x - self.w["norm_running_mean"]) * scale + self.w["norm_bias"]).relu()
        whole = self.linear(local, "two")
        most = whole.mean if bad("mean_of_points") else whole.amax
        whole = most(1, keepdim=True)  # bad("mean_of_points")
        y = torch.cat((local, whole.expand(-1, POINTS, -1)), -1)
        y = self.linear(y, "three").relu()
        y = self.linear(y, "head")
        return y.log_softmax(1 if bad("over_points") else 2).mT  # bad("over_points")


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm")
    golden.norm.running_mean.normal_()
    golden.norm.running_var.uniform_(0.5, 2)
    golden.eval()
    target, x = Own(golden), torch.randn(BATCH, 3, POINTS)
    return lambda: golden(x), lambda: target(x)


pair.weight("stale_spread", "norm_running_var")
pair.fault("turned_back", "transpose", "einsum", "mT", "mt", "numpy_t", "matrix_h", "t")
pair.fault("no_eye", "linear")
pair.fault("mean_of_points", "mean")
pair.fault("over_points", "log_softmax")
