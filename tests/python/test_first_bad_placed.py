"""`sonde first-bad` of an infinity that the program writes into a gradient, where no softmax removes it."""

import pytest
from ranks import run_one
from test_first_bad import look, record

PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        is_small = x.abs() < 0.5
        if step == 1:
            g = {placed}  # placed
        {after}
        return g


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return scores(x).softmax(-1) @ x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return scores(x).softmax(-1).transpose(-1, -2) @ g


def scores(x):
    later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    return (x @ x.T).masked_fill(later, float("-inf"))


first, last = nn.Linear(4, 6), nn.Linear(6, 3)
net = nn.ModuleList([first, last])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    last(Attention.apply(Own.apply(first(torch.randn(5, 4)).tanh()))).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
PLACED = {
    "where": "torch.where(is_small, g, float('inf'))",
    "where_tensor": "torch.where(is_small, torch.tensor(float('-inf')), g)",
    "masked_fill": "g.masked_fill(is_small, float('inf'))",
    "masked_fill_": "g.clone().masked_fill_(is_small, float('-inf'))",
    "full_like": "torch.full_like(g, float('inf'))",
    "index_fill": "g.index_fill(0, torch.tensor([1]), float('inf'))",
    "none": "g",
}


@pytest.mark.parametrize("saved_data", ["full", "statistic"])
@pytest.mark.parametrize("after", ["pass", "g = g * 2"])
@pytest.mark.parametrize("placed", PLACED)
def test_an_infinity_in_a_gradient_is_named_where_it_is_placed(tmp_path, placed, after, saved_data):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM.format(placed=PLACED[placed], after=after))
    answer = look("first-bad", record(tmp_path, "dump", program, saved_data=saved_data))
    if placed == "none":
        assert answer.first is None, answer.first
        return
    line = next(n for n, text in enumerate(program.read_text().splitlines(), 1) if text.endswith("# placed"))
    found = answer.first["step"], answer.first["op_type"], answer.first["code"]["source_line"]
    assert found == (1, placed.removesuffix("_tensor"), line), answer.first


# As a fused attention does it: its backward computes the masked softmax again, which removes the mask.
COMPUTED_AGAIN = """
    import torch
    from torch import nn

    later = torch.ones(6, 6).triu(1).bool()

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            ctx.save_for_backward(q, k, v)
            return (q @ k.mT).masked_fill(later, float("-inf")).softmax(-1) @ v

        @staticmethod
        def backward(ctx, gradient):
            q, k, v = ctx.saved_tensors
            weights = (q @ k.mT).masked_fill(later, float("-inf")).softmax(-1)
            of_weights = gradient @ v.mT
            of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
            return of_scores @ k, of_scores.mT @ q, weights.mT @ gradient

    net = nn.Linear(8, 24)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(2):
        loss = Attention.apply(*net(torch.randn(2, 6, 8)).chunk(3, -1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """


@pytest.mark.parametrize("saved_data", ["full", "statistic"])
def test_a_mask_of_a_backward_that_computes_a_softmax_again_is_healthy(tmp_path, sonde, saved_data):
    found = sonde("first-bad", run_one(tmp_path, COMPUTED_AGAIN, saved_data, "train.py"))
    assert found.status == 0 and found.stdout.startswith("nothing wrong"), found.stdout
