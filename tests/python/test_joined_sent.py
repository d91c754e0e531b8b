"""sonde compare of a pipeline that sends by hand with one process: what a stage receives differs, and the op of the
stage that sent it is named."""

import pytest
from ranks import DISTRIBUTED, beside_one

pytestmark = pytest.mark.cold

PIPELINE = (
    DISTRIBUTED
    + """
    world, fault = int(os.environ["WORLD_SIZE"]), "FAULT"

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

        def forward(self, x):
            return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

    def received(peer):
        out = torch.empty(4, 16)
        dist.recv(out, peer)
        return out

    first, last = nn.Sequential(nn.Linear(8, 16), Block(), Block()), nn.Sequential(Block(), Block(), nn.Linear(16, 4))
    net = nn.Sequential(first, last) if world == 1 else (first, last)[rank]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(16, 8, generator=generator).chunk(4)
        y = torch.randint(0, 4, (16,), generator=generator).chunk(4)
        bad = fault if step >= 1 else ""
        if world == 1:
            for part, goal in zip(x, y):
                (nn.functional.cross_entropy(net(part), goal) / 4).backward()
        elif rank == 0:
            outputs = []
            for part in x:
                outputs.append(first(part))
                sent = outputs[-1].detach()
                if bad == "scaled":
                    sent = sent * 1.05  # scaled
                if bad == "relu":
                    sent = torch.relu(sent)  # relu
                if bad == "rolled" and len(outputs) == 3:
                    sent = sent.roll(1, 0)  # rolled
                if bad == "rounded":
                    sent = sent.to(torch.bfloat16).float()  # rounded
                dist.send(sent, 1)
            for output in outputs:
                output.backward(received(1))
        else:
            gradients = []
            for goal in y:
                hidden = received(0).requires_grad_()
                (nn.functional.cross_entropy(last(hidden), goal) / 4).backward()
                gradients.append(hidden.grad)
                if bad == "doubled":
                    gradients[-1] = gradients[-1] * 2  # doubled
                if bad == "rounded_gradient":
                    gradients[-1] = gradients[-1].half().float()  # rounded_gradient
                if bad == "negated" and len(gradients) == 2:
                    gradients[-1] = gradients[-1].neg()  # negated
            for gradient in gradients:
                dist.send(gradient, 0)
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)
SENDERS = {"scaled": 0, "relu": 0, "rolled": 0, "rounded": 0, "doubled": 1, "negated": 1, "rounded_gradient": 1}


def test_the_op_of_the_rank_that_sent_it_is_named(tmp_path, sonde):
    for fault, line, found, dump in beside_one(tmp_path, sonde, PIPELINE, SENDERS, saved_data="tensor"):
        first = " ".join(found.stdout.splitlines()[:2])
        assert found.status == 1 and f": rank {SENDERS[fault]}, step 1, " in first, found.stdout
        assert f"train.py:{line}: has no counterpart" in first, found.stdout
        # Beside the healthy pipeline, although nothing on this rank reads what it sends.
        again = sonde("compare", dump, tmp_path / "healthy/dump").stdout
        assert again.startswith(f"first difference: rank {SENDERS[fault]}, step 1, "), again
        assert f"train.py:{line}: has no counterpart" in " ".join(again.splitlines()[:2]), again
        # A view moves elements alone.
        assert first.startswith("first difference: ") or fault == "rolled", found.stdout
