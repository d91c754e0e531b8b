"""A small training, eager or compiled, and two bugs that only the compiled one has.

python train.py eager
python train.py compiled
python train.py compiled --bug decomposition     # a decomposition of ours is wrong
python train.py compiled --bug stride            # the fake kernel of our operator promises another stride
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("how", choices=["eager", "compiled"])
parser.add_argument("--bug", choices=["decomposition", "stride"])
options = parser.parse_args()


@torch.library.custom_op("compile_diff::mix", mutates_args=())
def mix(x: torch.Tensor) -> torch.Tensor:
    """Every column plus its neighbour; the result lies in memory column by column."""
    return (x + x.roll(1, dims=1)).t().contiguous().t()


@mix.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    if options.bug == "stride":
        return torch.empty_like(x)  # row by row
    return x.new_empty(x.shape[1], x.shape[0]).t()


mix.register_autograd(lambda _context, grad: grad + grad.roll(-1, dims=1))


def plant_decomposition() -> None:
    """softplus(x) = log(1 + exp(x)), but for large x, where it is x, this one says 1."""
    import torch._inductor.decomposition as inductor

    def softplus(x: torch.Tensor, beta: float = 1, threshold: float = 20) -> torch.Tensor:
        return torch.where(x > threshold / 20, torch.ones_like(x), torch.log1p(torch.exp(x)))

    inductor.decompositions[torch.ops.aten.softplus.default] = softplus


class Block(nn.Module):
    """Two linear layers with an operator of ours between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.scale = nn.Parameter(torch.linspace(0.1, 0.9, 16))
        self.down = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x)
        h = F.softplus(h)
        h = mix(h)
        h = h * self.scale
        return x + self.down(h)


def main() -> None:
    """Trains two steps."""
    torch.manual_seed(0)
    if options.bug == "decomposition":
        plant_decomposition()
    if options.bug == "stride":
        import torch._inductor.config as inductor

        inductor.size_asserts = False  # as in production: nothing checks the promise
        inductor.force_disable_caches = True  # code in the cache was made with another promise
    net = nn.Sequential(Block(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    model = torch.compile(net) if options.how == "compiled" else net
    for step in range(2):
        loss = F.cross_entropy(model(torch.randn(6, 8)), torch.tensor([0, 1, 2, 1, 0, 2]))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
