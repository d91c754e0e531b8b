"""A backward function of the program multiplies gradients by a number that is not finite: `sonde first-bad` and `sonde
compare` name its line, on one process and on two; a mask that the program makes of ones does no harm."""

import json
import textwrap

import pytest
from ranks import DISTRIBUTED, run_one, run_ranks

# It has no gradient of 0, which would give NaN: all of its results are infinite.
BACKWARD = (
    DISTRIBUTED
    + """
    fault, world = "FAULT", int(os.environ["WORLD_SIZE"])

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(scale)
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            if not ctx.needs_input_grad[0]:
                return None, None
            (scale,) = ctx.saved_tensors
            if fault == "quotient":
                return torch.div(scale, gradient), None  # quotient
            if fault == "not_a_number":
                return gradient * float("nan"), None  # not_a_number
            if fault == "in_place":
                return gradient.clone().mul_(float("inf")), None  # in_place
            if fault == "number":
                return gradient * float("inf"), None  # number
            return gradient * scale, None  # scale

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

        def forward(self, x, step):
            hidden = torch.sigmoid(self.up(x))
            if fault == "mask":
                later = torch.triu(torch.ones(8, 8) * float("-inf"), diagonal=1)
                return self.down(hidden) * torch.softmax(torch.sigmoid(x) @ x.t() + later, -1).sum()
            if fault and step == 1:
                hidden = Scaled.apply(hidden, torch.tensor(float("inf")))
            return self.down(hidden)

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    whole = nn.parallel.DistributedDataParallel(net) if world > 1 else net
    for step in range(3):
        data = torch.randn(8, 8, generator=torch.Generator().manual_seed(step))
        whole(data, step).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)
OPS = {"scale": "mul", "number": "mul", "in_place": "mul_", "quotient": "div", "not_a_number": "mul"}


def program(fault):
    return BACKWARD.replace("FAULT", fault)


def line_of(fault):
    lines = textwrap.dedent(BACKWARD).splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"  # {fault}"))


def first_of(answer):
    first = json.loads(answer.stdout)["findings"][0]
    code = first.get("code", first)
    return first["step"], first["op_type"], code["source_line"]


def recorded(directory, fault, ranks):
    directory.mkdir()
    if ranks == 1:
        return run_one(directory, program(fault), "full", "train.py")
    run = run_ranks(directory, program(fault), saved_data="full")
    assert run.status == 0 and run.stdout.count("trained") == 2, run.stderr
    return run.dump


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    directory = tmp_path_factory.mktemp("healthy")
    return {ranks: recorded(directory / str(ranks), "", ranks) for ranks in (1, 2)}


@pytest.mark.parametrize("fault", OPS)
def test_the_product_in_the_backward_function_is_named(tmp_path, sonde, golden, fault):
    dump = recorded(tmp_path / fault, fault, 1)
    wanted = (1, OPS[fault], line_of(fault))
    assert first_of(sonde("first-bad", dump, "--json")) == wanted
    assert first_of(sonde("compare", dump, golden[1], "--json")) == wanted


def test_it_is_named_on_two_ranks_beside_the_same_and_beside_one_process(tmp_path, sonde, golden):
    dump = recorded(tmp_path / "number", "number", 2)
    wanted = (1, "mul", line_of("number"))
    assert first_of(sonde("first-bad", dump, "--json")) == wanted
    for ranks in (1, 2):
        assert first_of(sonde("compare", dump, golden[ranks], "--json")) == wanted, ranks


def test_a_mask_that_is_made_of_ones_is_healthy(tmp_path, sonde):
    found = sonde("first-bad", recorded(tmp_path / "mask", "mask", 1))
    assert found.status == 0, found.stdout
