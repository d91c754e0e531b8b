"""sonde compare of an optimizer of the program's own, which shares the parameters out among two ranks, with one of
PyTorch on one process: the two compute an update in other orders, and leave the same."""

import pytest
from ranks import DISTRIBUTED, beside_one

pytestmark = pytest.mark.cold

OWN = (
    DISTRIBUTED
    + """
    world, fault = int(os.environ["WORLD_SIZE"]), "FAULT"

    class Zero(torch.optim.Optimizer):
        def __init__(self, parameters, lr=0.01):
            super().__init__(list(parameters), {"lr": lr})
            self.count = 0

        @torch.no_grad()
        def step(self):
            self.count += 1
            for number, parameter in enumerate(self.param_groups[0]["params"]):
                dist.all_reduce(parameter.grad)
                parameter.grad.div_(world + (fault == "divisor"))  # divisor
                if number % world == rank:
                    state = self.state[parameter]
                    if not state:
                        state["m"], state["v"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                    g = parameter.grad
                    if fault == "scaled":
                        g = g * 1.5  # scaled
                    state["m"].mul_(0.9).add_(g, alpha=0.1)
                    state["v"].mul_(0.999).addcmul_(g, g, value=0.001)
                    rate = 0.1 if fault == "moment" else 0.9
                    m = state["m"] / (1 - rate**self.count)  # moment
                    v = state["v"] / (1 - 0.999**self.count)
                    parameter.addcdiv_(m, v.sqrt().add_(1e-8), value=-0.01)
                dist.broadcast(parameter, number % world)

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.Tanh(), nn.Linear(24, 24), nn.GELU(), nn.Linear(24, 4))
    optimizer = Zero(net.parameters()) if world > 1 else torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        data, goal = torch.randn(16, 12, generator=generator), torch.randint(0, 4, (16,), generator=generator)
        nn.functional.cross_entropy(net(data.chunk(world)[rank]), goal.chunk(world)[rank]).backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)
OPS = {"scaled": "mul", "moment": "div"}


@pytest.mark.parametrize("saved_data", ["tensor", "statistic"])
def test_an_update_in_another_order_is_no_difference_and_what_changes_it_is_named(tmp_path, sonde, saved_data):
    for fault, line, found, _ in beside_one(tmp_path, sonde, OWN, ("divisor", *OPS), saved_data=saved_data):
        first = " ".join(found.stdout.splitlines()[:2])
        if (
            fault == "divisor"
        ):  # the division has no counterpart of its own: what reads the gradient is named with doubt
            assert found.status == 1 and first.startswith("first difference (uncertain): rank 0, step 0, "), (
                found.stdout
            )
            continue
        assert found.status == 1 and f"rank 0, step 0, {OPS[fault]} " in first, (fault, found.stdout)
        assert first.startswith("first difference: ") and f".py:{line}: " in first, (fault, found.stdout)
