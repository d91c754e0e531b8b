"""Messages between atoms: sums over edges and a cell of torch.nn beside a dense table of neighbours, in training."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

KINDS, BONDS, WIDTH, ATOMS, ROUNDS = 6, 4, 10, 9, 2
EDGES = ((0, 1), (1, 2), (2, 0), (3, 1), (4, 3), (5, 4), (6, 2), (7, 6), (8, 7), (5, 8), (0, 5), (2, 8))

pair = Pair("messages")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.atoms, self.bonds = nn.Embedding(KINDS, WIDTH), nn.Embedding(BONDS, WIDTH)
        self.message, self.cell = nn.Linear(2 * WIDTH, WIDTH), nn.GRUCell(WIDTH, WIDTH)
        self.gate, self.value = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, atoms, bonds, ends, wanted):
        start = h = self.atoms(atoms)
        for _ in range(ROUNDS):
            m = F.relu(self.message(torch.cat((h[ends[0]], self.bonds(bonds)), -1)))
            h = self.cell(torch.zeros_like(h).index_add(0, ends[1], m), h)
        read = torch.sigmoid(self.gate(torch.cat((h, start), -1))) * torch.tanh(self.value(h))
        loss = F.smooth_l1_loss(self.head(read.sum(0)), wanted)
        loss.backward()
        return loss


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        if bad("gates_exchanged"):
            reset, update, new = own["cell_weight_hh"].chunk(3)
            own["cell_weight_hh"] = torch.cat((update, reset, new))
        self.w = nn.ParameterDict(own)

    def linear(self, x, name):
        return x @ self.w[f"{name}_weight"].t() + self.w[f"{name}_bias"]

    def cell(self, x, h):
        inside = (x @ self.w["cell_weight_ih"].t() + self.w["cell_bias_ih"]).chunk(3, -1)
        before = (h @ self.w["cell_weight_hh"].t() + self.w["cell_bias_hh"]).chunk(3, -1)
        reset, update = (inside[0] + before[0]).sigmoid(), (inside[1] + before[1]).sigmoid()
        if bad("reset_before"):
            new = torch.tanh(inside[2] + before[2]) * reset  # bad("reset_before")
        else:
            new = torch.tanh(inside[2] + reset * before[2])
        if bad("update_turned"):
            return update * new + (1 - update) * h  # bad("update_turned")
        return h + (1 - update) * (new - h)

    def forward(self, atoms, kinds, table, wanted):
        start = h = F.embedding(atoms, self.w["atoms_weight"])
        bond = F.embedding(kinds, self.w["bonds_weight"])
        for _ in range(ROUNDS):
            wide = torch.cat((h[None].expand(ATOMS, ATOMS, WIDTH), bond), -1)
            m = self.linear(wide, "message").clamp(min=0)
            near = table.t() if bad("backwards") else table  # bad("backwards")
            got = torch.einsum("ij,ijc->ic", near, m)  # bad("backwards")
            if bad("mean"):
                got = got / table.sum(1, keepdim=True).clamp(min=1)  # bad("mean")
            h = self.cell(got, h)
        gate = self.linear(torch.cat((h, h if bad("no_start") else start), -1), "gate")  # bad("no_start")
        read = (gate.sigmoid() * self.linear(h, "value").tanh()).sum(0)
        away = (self.linear(read, "head") - wanted).abs()
        loss = away**2 / 2 if bad("squares") else torch.where(away < 1, away**2 / 2, away - 0.5)  # bad("squares")
        loss = loss.mean()  # bad("squares")
        loss.backward()
        return loss


@pair.prepare
def prepare():
    golden = Golden()
    target = Own(golden)
    atoms, bonds = torch.randint(0, KINDS, (ATOMS,)), torch.randint(0, BONDS, (len(EDGES),))
    ends, wanted = torch.tensor(EDGES).t(), torch.tensor([4.0])
    table, kinds = torch.zeros(ATOMS, ATOMS), torch.zeros(ATOMS, ATOMS, dtype=torch.long)
    table[ends[1], ends[0]], kinds[ends[1], ends[0]] = 1.0, bonds
    return lambda: golden(atoms, bonds, ends, wanted), lambda: target(atoms, kinds, table, wanted)


pair.weight("gates_exchanged", "cell_weight_hh")
pair.fault("reset_before", "tanh", "mul", "add")
pair.fault("update_turned", "mul", "add")
pair.fault("backwards", "einsum", "t")
pair.fault("mean", "div")
pair.fault("no_start", "cat")
pair.fault("squares", "mean", "div", "pow")
