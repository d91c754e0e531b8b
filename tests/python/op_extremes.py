"""Each operator whose result first-bad recomputes, with a result that is not a number: one step of training for
each."""

import sys

import torch
from torch import nn

LARGE = 3e38
CALLS = {
    "log": lambda x: torch.log(x * 0),
    "log2": lambda x: torch.log2(x - 9),
    "log10": lambda x: torch.log10(x * 0),
    "log1p": lambda x: torch.log1p(x * 0 - 1),
    "div": lambda x: x / (x * 0),
    "addcdiv": lambda x: torch.addcdiv(x, x, x * 0, value=0.5),
    "mul": lambda x: (x * LARGE) * (x * 0 + 1e5),
    "add": lambda x: torch.add(x * 0 + LARGE, x * 0 + LARGE, alpha=3),
    "sub": lambda x: torch.sub(x * 0 - LARGE, x * 0 + LARGE, alpha=2),
    "rsub": lambda x: torch.rsub(x * 0 - LARGE, LARGE),
    "exp": lambda x: torch.exp(x * 0 + 100),
    "exp2": lambda x: torch.exp2(x * 0 + 200),
    "expm1": lambda x: torch.expm1(x * 0 + 100),
    "sinh": lambda x: torch.sinh(x * 0 + 100),
    "cosh": lambda x: torch.cosh(x * 0 - 100),
    "pow": lambda x: (x * 0) ** -2.0,
    "square": lambda x: torch.square(x * 0 + 1e30),
    "sqrt": lambda x: torch.sqrt(x - 9),
    "rsqrt": lambda x: torch.rsqrt(x * 0),
    "reciprocal": lambda x: torch.reciprocal(x * 0),
    "to": lambda x: (x * 0 + 1e5).to(torch.float16).float(),
    "copy": lambda x: torch.zeros(2, 4, dtype=torch.float16).copy_(x.detach() * 0 + 1e5).float() + x,
    "acos": lambda x: torch.acos(x * 0 + 1.5),
    "asin": lambda x: torch.asin(x * 0 - 1.5),
    "atanh": lambda x: torch.atanh(x * 0 + 1),
    "acosh": lambda x: torch.acosh(x * 0),
    "logit": lambda x: torch.logit(x * 0 + 1),
    "erfinv": lambda x: torch.erfinv(x * 0 + 1),
    "lgamma": lambda x: torch.lgamma(x * 0),
    "digamma": lambda x: torch.digamma(x * 0 - 2),
    "polygamma": lambda x: torch.polygamma(1, x * 0),
    "specialndtri": lambda x: torch.special.ndtri(x * 0 + 1),
    "specialentr": lambda x: torch.special.entr(x * 0 - 1),
    "specialxlog1py": lambda x: torch.special.xlog1py(x * 0 + 1, x * 0 - 1),
    "xlogy": lambda x: torch.xlogy(x * 0 + 1, x * 0),
    "fmod": lambda x: torch.fmod(x, x.detach() * 0),
    "remainder": lambda x: torch.remainder(x, x.detach() * 0),
    "dropout": lambda x: torch.dropout((x * 0 + 60000).half(), 0.5, True).float(),
}


class Body(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.call = call

    def forward(self, x):
        return self.call(self.fc(x))


def train():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for call in CALLS.values():
        net = Body(call)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        optimizer.zero_grad()
        net(torch.ones(2, 4)).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    sys.exit(train())
