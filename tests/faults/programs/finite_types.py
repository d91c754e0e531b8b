"""Models in bfloat16: an operator that computes in another type, or with a number that was rounded. In each element the
difference is one that bfloat16's rounding makes anyway."""

import torch
import torch.nn.functional as F
from cases import Family
from finite_training import network_of, slow, training
from torch import nn

family = Family("lost precision")
healthy = Family("rounding")


def in_bfloat16(forward):
    network = network_of(forward, fc=nn.Linear(32, 32), out=nn.Linear(32, 4)).bfloat16()
    network.weight = nn.Parameter(torch.randn(32).bfloat16())
    data = lambda: (torch.randn(64, 32).bfloat16(),)  # noqa: E731
    training(network, data, lambda y: y.float().square().mean(), slow(network))


@family.differs("mul", "to", "_to_copy", "type_as", cause="type", short=True)
def norm_weight_after_the_cast(wrong):
    """Llama's norm multiplies by its weight after the cast to bfloat16; a port does so before it."""

    def forward(s, x):
        h = s.fc(x)
        n = h.float()
        n = n * torch.rsqrt(n.square().mean(-1, keepdim=True) + 1e-6)
        n = (s.weight * n).to(h.dtype) if wrong else s.weight * n.to(h.dtype)  # FAULT
        return s.out(n)

    in_bfloat16(forward)


@family.differs("square", "mean", "to", "_to_copy", cause="type")
def norm_without_its_cast(wrong):
    def forward(s, x):
        h = s.fc(x)
        n = h if wrong else h.float()
        variance = n.square().mean(-1, keepdim=True)  # FAULT
        return s.out((n * torch.rsqrt(variance + 1e-6)).to(h.dtype) * s.weight)

    in_bfloat16(forward)


@family.differs("add", "mul", "to", "_to_copy", cause="type")
def residual_in_bfloat16(wrong):
    """The residual stream of one of the two is float32: a sum of three is rounded once or twice."""

    def forward(s, x):
        h = s.fc(x)
        h = h if wrong else h.float()
        y = h + x  # FAULT
        return s.out((y + s.weight).to(x.dtype))

    in_bfloat16(forward)


@family.differs("mul", cause=("number", "called with"))
def factor_rounded_to_bfloat16(wrong):
    def forward(s, x):
        h = s.fc(x)
        factor = torch.tensor(0.1, dtype=h.dtype) if wrong else 0.1
        return s.out(h * factor)  # FAULT

    in_bfloat16(forward)


@family.differs("div", cause=("number", "called with"))
def divisor_rounded_to_bfloat16(wrong):
    def forward(s, x):
        h = s.fc(x)
        divisor = 32**0.5 if wrong else torch.full((), 32**0.5, dtype=h.dtype)
        return s.out(h / divisor)  # FAULT

    in_bfloat16(forward)


@healthy.rounding()
def functions_in_float32_of_a_bfloat16_model(other):
    """One operator between two casts rounds once, as it does in bfloat16."""

    def forward(s, x):
        h = s.fc(x)
        if other:
            h = torch.sigmoid(h.float()).to(x.dtype) * F.silu(h.float()).to(x.dtype)
            h = torch.softmax(h.float(), -1).to(x.dtype)
            return s.out((h.float() + x.float()).to(x.dtype))
        return s.out(torch.softmax(torch.sigmoid(h) * F.silu(h), -1) + x)

    in_bfloat16(forward)


@healthy.rounding()
def exact_factors_in_bfloat16(other):
    """0.5 and 3 are numbers of bfloat16."""

    def forward(s, x):
        h = s.fc(x)
        half, three = (torch.tensor(0.5, dtype=x.dtype), torch.tensor(3.0)) if other else (0.5, 3.0)
        return s.out(h * half / three)

    in_bfloat16(forward)
