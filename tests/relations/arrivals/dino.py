"""Distillation without labels: a network and its mean, in modules beside functions over trees of weights."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

SEEN, HIDDEN, OUT, BATCH, STEPS = 12, 20, 16, 4, 2
STUDENT, TEACHER, MOMENTUM, CENTRED, RATE = 0.1, 0.04, 0.9, 0.8, 0.5

pair = Pair("dino")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(SEEN, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, 10))
        self.last_layer = nn.Linear(10, OUT, bias=False)

    def forward(self, x):
        return self.last_layer(F.normalize(self.mlp(x), dim=-1, p=2))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.student, self.teacher = Net(), Net()
        self.teacher.load_state_dict(self.student.state_dict())
        for p in self.teacher.parameters():
            p.requires_grad_(False)
        unsettle(self.teacher, "weight")
        self.register_buffer("center", torch.randn(1, OUT) * 0.1)

    def loss(self, student, teacher):
        student_out = (student / STUDENT).chunk(2)
        teacher_out = F.softmax((teacher - self.center) / TEACHER, dim=-1).detach().chunk(2)
        total, terms = 0, 0
        for iq, q in enumerate(teacher_out):
            for v in range(len(student_out)):
                if v == iq:
                    continue
                total = total + torch.sum(-q * F.log_softmax(student_out[v], dim=-1), dim=-1).mean()
                terms += 1
        return total / terms


def train(model, optimizer, views):
    for x in views:
        student, teacher = model.student(x), model.teacher(x)
        loss = model.loss(student, teacher)
        with torch.no_grad():
            model.center.mul_(CENTRED).add_(teacher.mean(0, keepdim=True), alpha=1 - CENTRED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for ps, pt in zip(model.student.parameters(), model.teacher.parameters(), strict=True):
                pt.mul_(MOMENTUM).add_(ps.detach(), alpha=1 - MOMENTUM)


def apply(w, x):
    h = torch.addmm(w["b0"], x, w["k0"])
    h = 0.5 * h * (1 + torch.tanh(0.7978845608 * (h + 0.044715 * h**3))) if bad("tanh") else F.gelu(h)  # bad("tanh")
    z = torch.addmm(w["b2"], h, w["k2"])
    if bad("not_unit"):
        return z @ w["last"]  # bad("not_unit")
    return z / z.square().sum(-1, keepdim=True).sqrt() @ w["last"]


def objective(student, teacher, center):
    pulled = teacher - center if not bad("not_centred") else teacher
    aims = (pulled / TEACHER).softmax(-1).view(2, BATCH, OUT)  # bad("not_centred")
    logs = (student / STUDENT).log_softmax(-1).view(2, BATCH, OUT)
    if not bad("same_view"):
        logs = logs.flip(0)
    return -(aims * logs).sum(-1).mean()  # bad("same_view")


def train_trees(student, teacher, center, views):
    for x in views:
        logits = apply(student, x)
        with torch.no_grad():
            aims = apply(teacher, x)
        loss = objective(logits, aims, center)
        grads = torch.autograd.grad(loss, list(student.values()))
        with torch.no_grad():
            center = CENTRED * center + (1 - CENTRED) * aims.mean(0)
            student = {n: (p - RATE * g).requires_grad_() for (n, p), g in zip(student.items(), grads, strict=True)}
            if not bad("stale_teacher"):
                teacher = {n: torch.lerp(student[n], p, MOMENTUM) for n, p in teacher.items()}


def tree(net):
    w = {n: p.detach().clone() for n, p in net.named_parameters()}
    return {
        "k0": w["mlp.0.weight"].t().contiguous(), "b0": w["mlp.0.bias"], "k2": w["mlp.2.weight"].t().contiguous(),
        "b2": w["mlp.2.bias"], "last": w["last_layer.weight"].t().contiguous(),
    }  # fmt: skip


@pair.prepare
def prepare():
    golden = Golden()
    optimizer = torch.optim.SGD(golden.student.parameters(), RATE)
    student = {n: p.requires_grad_() for n, p in tree(golden.student).items()}
    teacher, center = tree(golden.teacher), golden.center.clone()
    views = torch.randn(STEPS, 2 * BATCH, SEEN)
    return lambda: train(golden, optimizer, views), lambda: train_trees(student, teacher, center, views)


pair.fault("tanh", "pow", "mul", "tanh", "add")
pair.fault("not_unit", "matmul")
pair.fault("not_centred", "div")
pair.fault("same_view", "mul", "sum")
pair.weight("stale_teacher", "teacher.")
