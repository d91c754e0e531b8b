"""sonde compare of an optimizer that shares the parameters out among two ranks with the same on one process, by
statistics of bfloat16: gradients may be some per cent apart by rounding."""

import textwrap

import pytest
from ranks import DISTRIBUTED, run_one, run_ranks

pytestmark = pytest.mark.cold

SHARED_OUT = (
    DISTRIBUTED
    + """
    NUMBERS = {"divisor": 1, "near": 0.08}
    world, fault, layers = int(os.environ["WORLD_SIZE"]), "FAULT", LAYERS

    class Shared(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(list(parameters), {})

        @torch.no_grad()
        def step(self):
            for number, parameter in enumerate(self.param_groups[0]["params"]):
                if world > 1:
                    dist.all_reduce(parameter.grad)
                    parameter.grad.div_(world + NUMBERS.get(fault, 0))  # divisor
                if number % world == rank:
                    self.update(parameter, number)
                if world > 1:
                    dist.broadcast(parameter, number % world)

        def update(self, parameter, number):
            state = self.state[parameter]
            if not state:
                state["exp_avg_sq"] = torch.zeros_like(parameter)
            state["exp_avg_sq"].mul_(0.9).addcmul_(parameter.grad, parameter.grad, value=0.1)
            if fault == "state" and number == 3:
                state["exp_avg_sq"].mul_(1.5)  # state
            size = (state["exp_avg_sq"] / 0.5).sqrt_().add_(1e-6)
            parameter.addcdiv_(parameter.grad, size, value=-0.01)

    torch.manual_seed(0)
    blocks = (nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(layers))
    net = nn.Sequential(*blocks, nn.Linear(32, 4)).to(torch.bfloat16)
    optimizer = Shared(net.parameters())
    for step in range(3):
        data = torch.randn(64, 32, generator=torch.Generator().manual_seed(step)).to(torch.bfloat16)
        net(data.chunk(world)[rank]).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)
LINES = textwrap.dedent(SHARED_OUT).splitlines()


def program(fault, layers):
    return SHARED_OUT.replace("FAULT", fault).replace("LAYERS", str(layers))


def on_two_ranks(directory, fault, layers):
    directory.mkdir()
    ranks = run_ranks(directory, program(fault, layers), saved_data="statistic")
    assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
    return ranks.dump


def on_one_process(directory, layers):
    directory.mkdir()
    return run_one(directory, program("", layers), "statistic", "train.py")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return on_one_process(tmp_path_factory.mktemp("whole") / "of_4", 4)


def test_a_rank_that_lacks_a_parameter_does_not_lend_its_lines_to_the_golden_ones(tmp_path, whole, sonde):
    """Where rank 0 updates nothing, its division of the gradient is not the golden division of the state."""
    ranks = on_two_ranks(tmp_path / "ranks", "", 4)
    for pair in ((ranks, whole), (whole, ranks)):
        found = sonde("compare", *pair)
        assert found.status == 0 and found.stdout.startswith("no difference"), found.stdout


@pytest.mark.parametrize(("fault", "step"), [("divisor", 0), ("near", 2)])
def test_a_number_that_all_elements_of_two_gradients_have_in_common_is_named(tmp_path, sonde, fault, step):
    """Where it is near the right one, what is squared shows it first."""
    found = sonde("compare", on_two_ranks(tmp_path / "ranks", fault, 0), on_one_process(tmp_path / "whole", 0))
    line = next(number for number, text in enumerate(LINES, 1) if text.endswith("# divisor"))
    first = " ".join(found.stdout.splitlines()[:2])
    assert found.status == 1 and first.startswith(f"first difference: rank 0, step {step}, div_ "), found.stdout
    assert f"train.py:{line}: has no counterpart" in first, found.stdout


@pytest.mark.parametrize(("fault", "op"), [("divisor", "div_"), ("state", "mul_")])
def test_a_number_that_gradients_have_in_common_and_a_changed_state_are_named(tmp_path, whole, sonde, fault, op):
    ranks = on_two_ranks(tmp_path / "ranks", fault, 4)
    line = next(number for number, text in enumerate(LINES, 1) if text.endswith(f"# {fault}"))
    for pair, named in (((ranks, whole), f"step 0, {op} "), ((whole, ranks), f"step 0, golden op {op} ")):
        found = sonde("compare", *pair)
        first = found.stdout.splitlines()[0]
        assert found.status == 1 and first.startswith("first difference: ") and named in first, found.stdout
        assert f"train.py:{line}: has no counterpart" in " ".join(found.stdout.splitlines()[:3]), found.stdout
