"""True values that are finite and too large for the type."""

import torch
from cases import Family
from torch import nn
from torch.nn import functional as F
from training import Small, batch, train

family = Family("overflow")
OVERFLOW = ("overflow",)


@family.fault("matmul", "mm", verdicts=OVERFLOW, short=True)
def half_scores():
    def body(y):
        q = (y * 0 + 300).half()
        return (q @ q.t()).float()  # FAULT

    train(Small(body))


@family.fault("linear", "addmm", verdicts=OVERFLOW)
def half_linear():
    weight = torch.full((4, 4), 200.0, dtype=torch.float16)
    train(Small(lambda y: F.linear((y * 0 + 400).half(), weight).float()))  # FAULT


@family.fault("to", "_to_copy", "half", verdicts=OVERFLOW)
def cast_to_half():
    train(Small(lambda y: (y * 0 + 70000).half().float()))  # FAULT


@family.fault("pow", "mul", "square", verdicts=OVERFLOW)
def half_square():
    train(Small(lambda y: ((y * 0 + 400).half() ** 2).float()))  # FAULT


@family.fault("sum", verdicts=OVERFLOW)
def half_sum():
    train(Small(lambda y: (y.repeat(1, 500) * 0 + 100).half().sum(-1).float()))  # FAULT


@family.fault("cumsum")
def half_cumsum():
    train(Small(lambda y: torch.cumsum((y.repeat(1, 500) * 0 + 100).half(), -1).float()))  # FAULT


@family.fault("dropout", verdicts=OVERFLOW)
def half_dropout():
    train(Small(lambda y: F.dropout((y * 0 + 60000).half(), 0.5, training=True).float()))  # FAULT


@family.fault("_to_copy", "to", verdicts=OVERFLOW)
def integers_to_half():
    def body(y):
        position = torch.arange(69998, 70002)
        return y * position.half().float()  # FAULT

    train(Small(body))


@family.fault("exp", verdicts=OVERFLOW)
def bfloat16_exp():
    train(Small(lambda y: torch.exp((y * 0 + 90).bfloat16()).float()))  # FAULT


@family.fault("exp", verdicts=OVERFLOW)
def float_exp():
    train(Small(lambda y: torch.exp(y * 0 + 100)))  # FAULT


@family.fault("exp", verdicts=OVERFLOW)
def double_exp():
    train(Small(lambda y: torch.exp((y * 0 + 800).double())))  # FAULT


@family.fault("square", "pow", "mul", verdicts=OVERFLOW)
def float_square():
    train(Small(lambda y: (y * 0 + 1e20).square()))  # FAULT


@family.fault("pow", verdicts=OVERFLOW)
def float_pow():
    train(Small(lambda y: torch.pow(y * 0 + 1e10, 5)))  # FAULT


@family.fault("mul", verdicts=OVERFLOW, short=True)
def python_number_beyond_float():
    train(Small(lambda y: y * 1e39))  # FAULT


@family.fault("prod")
def product_of_many():
    train(Small(lambda y: (y.repeat(1, 50) * 0 + 10).prod(-1)))  # FAULT


@family.fault("conv2d", "convolution", verdicts=OVERFLOW)
def half_convolution():
    class Conv(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 3, 3).half()
            nn.init.constant_(self.conv.weight, 100)

        def forward(self, x):
            return self.conv(x).float()  # FAULT

    train(Conv(), torch.full((1, 2, 5, 5), 200.0, dtype=torch.float16))


@family.fault("bmm", "baddbmm", "matmul", verdicts=OVERFLOW)
def half_attention_scores():
    def body(y):
        q = (y * 0 + 500).half().view(2, 3, 4)
        scores = torch.bmm(q, q.transpose(1, 2))  # FAULT
        return (torch.softmax(scores, -1) @ q).float()

    train(Small(body))


@family.fault("linear", "addmm", verdicts=OVERFLOW)
def under_autocast():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    nn.init.constant_(net[1].weight, 3e4)

    def loss_of(out):
        return out.float().mean()

    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x = torch.full((3, 4), 100.0)
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_of(net(x))  # FAULT
        loss.backward()
        optimizer.step()


@family.fault("mul")
def loss_scaled_without_a_scaler():
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        loss = net(batch()).square().mean() + 10
        (loss * 2.0**127).backward()  # FAULT
        optimizer.step()


@family.fault("pow", "mul", "square", "mean")
def half_rms_norm():
    """x ** 2 overflows, rsqrt of infinity is 0, and the output is only zeros: finite, and useless."""

    class RMS(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            y = (self.fc(x) * 0 + 400).half()
            scale = torch.rsqrt((y**2).mean(-1, keepdim=True) + 1e-5)  # FAULT
            return (y * scale).float() * self.weight

    train(RMS())


@family.fault("addmm", "linear", "pow", "mse_loss", "sub", "mul", "mean")
def diverges_by_its_rate():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e15)
    train(net, loss_of=lambda out: (out**2).mean(), optimizer=optimizer, steps=4)  # FAULT


@family.fault("sinh", "cosh")
def sinh_of_a_hundred():
    train(Small(lambda y: torch.sinh(y * 0 + 100)))  # FAULT


@family.fault("mul_")
def in_place_without_gradients():
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.register_buffer("scale", torch.full((4,), 1e30))

        def forward(self, x):
            with torch.no_grad():
                self.scale.mul_(1e10)  # FAULT
            return self.fc(x) / self.scale + self.scale

    train(Running())


@family.fault("add", "sub")
def sum_of_two_large():
    train(Small(lambda y: ((y * 0 + 40000).half() + (y * 0 + 40000).half()).float()))  # FAULT


@family.fault("mean", "sum")
def half_mean():
    def body(y):
        large = (y.repeat(1, 400) * 0 + 60000).half()
        return large.sum(-1).float() / 1600  # FAULT

    train(Small(body))


@family.fault("div")
def eps_lost_in_half():
    def body(y):
        z = (y * 0).half()
        return (z / (z.abs().amax() + 1e-8)).float()  # FAULT

    train(Small(body))


@family.fault("div")
def quantised_by_a_scale_of_zero():
    def body(y):
        scale = (y.detach() * 0).abs().amax() / 127
        return torch.round(y / scale) * scale  # FAULT

    train(Small(body))


@family.fault("log")
def eps_of_a_logarithm_lost_in_half():
    train(Small(lambda y: torch.log(torch.relu(y - 50).half() + 1e-8).float()))  # FAULT
