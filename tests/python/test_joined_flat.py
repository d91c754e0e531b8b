"""sonde compare of a program with its own optimizer, which shares out one flat buffer of all gradients among two ranks,
with the same on one process. The buffer has a number of elements that two ranks cannot share without padding."""

import textwrap

import pytest
from ranks import DISTRIBUTED, run_one, run_ranks

pytestmark = pytest.mark.cold

FLAT = (
    DISTRIBUTED
    + """
    world, fault, dtype = int(os.environ["WORLD_SIZE"]), "FAULT", torch.DTYPE

    class Flat(BASE):
        def __init__(self, parameters):
            self.parameters = list(parameters)
            if BASE is not object:
                super().__init__(self.parameters, {})
            flat = self.padded([parameter.detach().flatten() for parameter in self.parameters])
            self.part = slice(rank * len(flat) // world, (rank + 1) * len(flat) // world)
            self.master = flat[self.part].float()
            self.squares = torch.zeros_like(self.master)

        def padded(self, parts):
            flat = torch.cat(parts)
            return torch.cat([flat, flat.new_zeros(-len(flat) % world)])

        def mean_over_ranks(self, flat):
            if world == 1:
                return flat
            part = torch.empty(len(flat) // world, dtype=flat.dtype)
            dist.reduce_scatter_tensor(part, flat)
            return part / (world + (fault == "divisor"))  # divisor

        @torch.no_grad()
        def step(self):
            gradient = self.mean_over_ranks(self.padded([one.grad.flatten() for one in self.parameters])).float()
            self.squares.mul_(0.9).addcmul_(gradient, gradient, value=0.1)
            if fault == "state":
                self.squares.mul_(1.5)  # state
            size = self.squares.sqrt().add_(1e-6)
            self.master.addcdiv_(gradient, size, value=-0.0101 if fault == "rate" else -0.01)  # rate
            whole = self.master
            if world > 1:
                whole = torch.empty(world * len(self.master))
                dist.all_gather_into_tensor(whole, self.master)
            sizes = [parameter.numel() for parameter in self.parameters]
            sizes.append(len(whole) - sum(sizes))
            for parameter, part in zip(self.parameters, whole.split(sizes)):
                parameter.copy_(part.view_as(parameter))
                parameter.grad = None

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))
    net = net.to(dtype)
    optimizer = Flat(net.parameters())
    for step in range(2):
        data = torch.randn(16, 6, generator=torch.Generator().manual_seed(step)).to(dtype)
        net(data.chunk(world)[rank]).float().square().mean().backward()
        optimizer.step()
    print("trained", flush=True)
    """
)
LINES = textwrap.dedent(FLAT).splitlines()
OPS = {"divisor": "div", "state": "mul_", "rate": "addcdiv_"}
KINDS = [
    ("full", "float32", "object"),
    ("full", "float32", "torch.optim.Optimizer"),
    ("full", "bfloat16", "object"),
    ("statistic", "float32", "object"),
    ("statistic", "bfloat16", "object"),
]


def program(fault, dtype, base):
    return FLAT.replace("FAULT", fault).replace("DTYPE", dtype).replace("BASE", base)


@pytest.mark.parametrize(("saved_data", "dtype", "base"), KINDS)
def test_what_a_flat_optimizer_does_wrong_is_named(tmp_path, sonde, saved_data, dtype, base):
    golden = run_one(tmp_path, program("", dtype, base), saved_data)
    for fault in ("", *OPS):
        directory = tmp_path / (fault or "healthy")
        directory.mkdir()
        ranks = run_ranks(directory, program(fault, dtype, base), saved_data=saved_data)
        assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
        found = sonde("compare", ranks.dump, golden)
        if not fault:
            assert found.status == 0 and found.stdout.startswith("no difference"), found.stdout
            continue
        line = next(number for number, text in enumerate(LINES, 1) if text.endswith(f"# {fault}"))
        first = " ".join(found.stdout.splitlines()[:2])
        assert found.status == 1 and f"step 0, {OPS[fault]} " in first, (fault, found.stdout)
        assert first.startswith("first difference: ") and f".py:{line}: " in first, (fault, found.stdout)
