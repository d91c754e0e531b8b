"""Values that go through a coarser type."""

import torch
from cases import Family
from finite_training import network_of, rows, slow, training, two_layers
from torch import nn

family = Family("lost precision")


@family.differs("to", "_to_copy", short=True)
def round_trip_half(wrong):
    def forward(s, x):
        h = s.fc(x).tanh()
        if wrong:
            h = h.half().float()  # FAULT
        return s.out(h)

    training(network_of(forward, fc=nn.Linear(16, 16), out=nn.Linear(16, 4)), rows(8, 16))


@family.differs("to", "_to_copy")
def round_trip_bfloat16(wrong):
    def forward(s, x):
        h = s.fc(x).tanh()
        if wrong:
            h = h.bfloat16().float()  # FAULT
        return s.out(h)

    training(network_of(forward, fc=nn.Linear(16, 16), out=nn.Linear(16, 4)), rows(8, 16))


@family.differs("arange", "mul", "to", "_to_copy", "div")
def arange_half(wrong):
    def forward(s, x):
        t = torch.arange(40, dtype=torch.float16 if wrong else torch.float32) / 7  # FAULT
        return s.out(s.fc(x) * t.float().cos().unsqueeze(1))

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 40, 8))


@family.differs("cumsum", "to", "_to_copy", short=True)
def cumsum_half(wrong):
    def forward(s, x):
        h = s.fc(x)
        h = h.half().cumsum(1).float() if wrong else h.cumsum(1)  # FAULT
        return s.out(h)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 40, 8))


@family.differs("linear", "matmul", "mm", "to", "_to_copy")
def matmul_bfloat16(wrong):
    def forward(s, x):
        h = s.fc(x).tanh()
        w = s.mid.weight
        y = (h.bfloat16() @ w.bfloat16()).float() if wrong else h @ w  # FAULT
        return s.out(y)

    training(network_of(forward, fc=nn.Linear(16, 16), mid=nn.Linear(16, 16), out=nn.Linear(16, 4)), rows(8, 16))


@family.differs("sum", "mean", "to", "_to_copy")
def sum_in_half(wrong):
    def forward(s, x):
        h = s.fc(x)
        m = h.sum(1, dtype=torch.float16).float() if wrong else h.sum(1)  # FAULT
        return s.out(m)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 40, 8))


@family.differs("round", "mul", "div")
def quantised(wrong):
    def forward(s, x):
        h = s.fc(x).tanh()
        if wrong:
            h = (h * 127).round() / 127  # FAULT
        return s.out(h)

    training(network_of(forward, fc=nn.Linear(16, 16), out=nn.Linear(16, 4)), rows(8, 16))


@family.differs("linear")
def weights_rounded(wrong):
    def forward(s, x):
        return s.out(s.fc(x).tanh())  # FAULT

    network = network_of(forward, fc=nn.Linear(16, 16), out=nn.Linear(16, 4))
    if wrong:
        with torch.no_grad():
            network.out.weight.copy_(network.out.weight.bfloat16().float())
    training(network, rows(8, 16))


@family.differs("to", "_to_copy", "softmax")
def softmax_in_half(wrong):
    def forward(s, x):
        h = s.fc(x)
        p = h.half().softmax(-1).float() if wrong else h.softmax(-1)  # FAULT
        return s.out(p)

    training(network_of(forward, fc=nn.Linear(16, 16), out=nn.Linear(16, 4)), rows(8, 16))


@family.differs("to", "_to_copy", "linear")
def layer_in_half(wrong):
    def forward(s, x):
        h = s.fc(x).tanh()
        if wrong:
            with torch.autocast("cpu", torch.bfloat16):
                h = s.mid(h)  # FAULT
            h = h.float()  # FAULT
        else:
            h = s.mid(h)  # FAULT
        return s.last(s.out(h.tanh()))

    parts = {n: nn.Linear(16, 16) for n in ("fc", "mid", "out", "last")}
    training(network_of(forward, **parts), rows(8, 16))


@family.differs("to", "_to_copy", "mul", "cos", "arange")
def angles_in_bfloat16(wrong):
    def forward(s, x):
        t = torch.outer(torch.arange(64.0), torch.tensor([1.0, 0.3, 0.1, 0.03]))
        if wrong:
            t = t.bfloat16().float()  # FAULT
        return s.out(s.fc(x) * torch.cat([t.cos(), t.sin()], -1))

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 64, 8))


@family.differs("to", "_to_copy", "mean", "sum")
def loss_in_half(wrong):
    def loss(y):
        return (y.half() if wrong else y).square().mean().float()  # FAULT

    training(two_layers(), rows(6, 8), loss)


@family.differs("to", "_to_copy", "copy_", "add_")
def gradient_in_half(wrong):
    network = two_layers()

    def between(s):
        if wrong:
            s.fc.weight.grad = s.fc.weight.grad.half().float()  # FAULT

    training(network, rows(6, 8), None, slow(network), between)


@family.differs("div", "floor_divide", "mul")
def reciprocal_rounded(wrong):
    def forward(s, x):
        h = s.fc(x)
        return s.out(h * 0.3333 if wrong else h * (1 / 3))  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))
