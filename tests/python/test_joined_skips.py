"""sonde compare of tensor parallelism with one process, where a skip connection is left out: what reads the sum is
called in another way without it (a norm is several ops). The sum is named, although another op without a counterpart is
nearer."""

import pytest
from ranks import DISTRIBUTED, beside_one

pytestmark = pytest.mark.cold

TP = (
    DISTRIBUTED
    + """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    world, fault, now = int(os.environ["WORLD_SIZE"]), "FAULT", 0

    def bad(name, number):
        return fault == name and now == 1 and number == 1

    class Rotary(nn.Module):
        def forward(self, x):
            pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            angle = torch.outer(torch.arange(x.shape[2]).float(), 1.0 / (10.0 ** torch.arange(x.shape[-1] // 2)))
            turned = pairs * torch.polar(torch.ones_like(angle), angle)
            return torch.view_as_real(turned).flatten(-2).type_as(x)

    class Block(nn.Module):
        def __init__(self, number):
            super().__init__()
            self.number, self.heads = number, 4
            self.norm1, self.norm2, self.turn = nn.RMSNorm(32), nn.RMSNorm(32), Rotary()
            self.q, self.k, self.v, self.o = (nn.Linear(32, 32, bias=False) for _ in range(4))
            self.gate, self.up = nn.Linear(32, 64, bias=False), nn.Linear(32, 64, bias=False)
            self.down = nn.Linear(64, 32, bias=False)

        def split(self, x):
            return x.view(*x.shape[:2], -1, 8).transpose(1, 2)

        def attend(self, x):
            q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
            y = nn.functional.scaled_dot_product_attention(self.turn(q), self.turn(k), v, is_causal=True)
            return self.o(y.transpose(1, 2).reshape(*x.shape[:2], -1))

        def forward(self, x):
            y = self.attend(self.norm1(x))
            if not bad("skip_one", self.number):
                y = x + y  # skip_one
            z = self.norm2(y)
            z = self.down(nn.functional.silu(self.gate(z)) * self.up(z))
            return z if bad("skip_two", self.number) else y + z  # skip_two

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.layers = nn.Embedding(40, 32), nn.ModuleList(Block(i) for i in range(3))
            self.norm, self.head = nn.RMSNorm(32), nn.Linear(32, 40, bias=False)

        def forward(self, ids):
            x = self.words(ids)
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x))

    net = Net()
    if world > 1:
        mesh = init_device_mesh("cpu", (world,))
        for layer in net.layers:
            plan = {name: ColwiseParallel() for name in ("q", "k", "v", "gate", "up")}
            parallelize_module(layer, mesh, {**plan, "o": RowwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.002)
    for step in range(3):
        now = step
        ids = torch.randint(0, 40, (4, 9), generator=torch.Generator().manual_seed(step))
        loss = nn.functional.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)


def test_the_sum_that_is_left_out_is_named(tmp_path, sonde):
    for fault, line, found, _ in beside_one(tmp_path, sonde, TP, ("skip_one", "skip_two"), saved_data="tensor"):
        first = " ".join(found.stdout.splitlines()[:2])
        assert found.status == 1 and "step 1, golden op add " in first, (fault, found.stdout)
        assert f"train.py:{line}: has no counterpart in the target" in first, (fault, found.stdout)
