"""sonde compare of a training on two ranks with the same on one process."""

import textwrap

import journal_reader
import pytest
from processes import CLI, python, run_in
from ranks import DISTRIBUTED, run_one, run_ranks

REPLICAS = (
    DISTRIBUTED
    + """
    from torch.nn.parallel import DistributedDataParallel
    net = DistributedDataParallel(net)
    data = torch.arange(8.0).reshape(4, 2) / 8
    for step in range(2):
        net(data.chunk(int(os.environ["WORLD_SIZE"]))[rank]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)


pytestmark = pytest.mark.cold

# Blocks of an attention go round: each rank has half of the sequence, and all weights.
RING = (
    DISTRIBUTED
    + """
    world, fault = int(os.environ["WORLD_SIZE"]), FAULT

    def passed(x):
        out = torch.empty(x.shape)
        there = [dist.P2POp(dist.isend, x.contiguous(), 1 - rank), dist.P2POp(dist.irecv, out, 1 - rank)]
        for work in dist.batch_isend_irecv(there):
            work.wait()
        return out * 1.01 if fault == "factor" else out  # factor

    class Pass(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return passed(x)

        @staticmethod
        def backward(ctx, gradient):
            return passed(gradient)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.out = (nn.Linear(4, 4) for _ in range(4))

        def forward(self, x, step):
            q, k, v = self.q(x), self.k(x), self.v(x)
            result = size = None
            for hop in range(world):
                scores = q @ k.transpose(-1, -2) / 2
                own = scores.logsumexp(-1, keepdim=True)
                part = torch.exp(scores - own) @ v
                if hop == 0:
                    result, size = part, own
                else:
                    both = torch.logaddexp(size, own)
                    result = result * torch.exp(size - both) + part * torch.exp(own - both)
                if hop + 1 < world:
                    k, v = Pass.apply(k), Pass.apply(v)
            if fault == "merge":
                result = result * 1.01  # merge
            if fault is True and (step, rank) == (1, 1):
                result = torch.log(-1 - result.abs())
            return x + self.out(result)

    net = nn.Sequential(Attention(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    data = torch.randn(2, 8, 4).chunk(world, 1)[rank]
    for step in range(3):
        net[1](net[0](data, step)).square().mean().backward()
        for parameter in net.parameters() if world > 1 else ():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)

# Two experts on each rank, under the same names; their results are added up.
EXPERTS = (
    DISTRIBUTED
    + """
    world, fault = int(os.environ["WORLD_SIZE"]), FAULT

    class Total(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x = x.clone()
            if world > 1:
                dist.all_reduce(x)
            return x

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    class Expert(nn.Module):
        def __init__(self, number):
            super().__init__()
            torch.manual_seed(number)
            self.number, self.up, self.down = number, nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x, step):
            x = self.up(x).tanh()
            if fault and (step, self.number) == (1, 3):
                x = torch.log(x.abs() - 2)
            return self.down(x)

    net = nn.ModuleList(Expert(number) for number in range(4) if number // 2 == rank or world == 1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    torch.manual_seed(2)
    data = torch.randn(6, 4)
    for step in range(3):
        Total.apply(sum(expert(data, step) for expert in net)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)


# The program, or a hook of DistributedDataParallel, exchanges the gradients.
EXCHANGED = (
    DISTRIBUTED
    + """
    world, fault = int(os.environ["WORLD_SIZE"]), FAULT
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8, eps=1.1e-5 if fault == "eps" else 1e-5), nn.Linear(8, 2))

    def hook(_state, bucket):
        part = bucket.buffer() / (world + (fault == "hook"))  # hook
        return dist.all_reduce(part, async_op=True).get_future().then(lambda done: done.value()[0])

    with_hook = WITH_HOOK and world > 1
    model = net
    if with_hook:
        model = nn.parallel.DistributedDataParallel(net)
        model.register_comm_hook(None, hook)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for step in range(3):
        data = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        model(data.chunk(world)[rank]).square().mean().backward()  # eps
        for parameter in net.parameters() if world > 1 and not with_hook else ():
            if fault == "local" and step % 2 == 0:
                continue
            dist.all_reduce(parameter.grad)
            parameter.grad /= world + (fault == "divisor")  # divisor
        optimizer.step()  # local
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)
# Of each fault: the op that is named, and what is said about it.
EXCHANGE_FAULTS = {
    "eps": ("layer_norm", "is called with eps=1.1e-05, golden 1e-05"),
    "hook": ("div", "has no counterpart in the golden dump"),
    "divisor": ("div_", "has no counterpart in the golden dump"),
    "local": ("lerp_", "has on each rank a part of a sum"),
}


@pytest.mark.parametrize("program", [RING, EXPERTS], ids=["ring attention", "experts"])
def test_ranks_that_send_to_each_other_or_have_their_own_experts_are_joined(tmp_path, sonde, program):
    golden = run_one(tmp_path, program.replace("FAULT", "False"))
    for fault in (False, True):
        directory = tmp_path / ("faulty" if fault else "healthy")
        directory.mkdir()
        ranks = run_ranks(directory, program.replace("FAULT", str(fault)), saved_data="full")
        assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
        found = sonde("compare", ranks.dump, golden)
        assert found.stdout, found.stderr
        first = found.stdout.splitlines()[0]
        if fault:
            assert found.status == 1 and first.startswith("first difference: rank 1, step 1, log "), found.stdout
        else:
            assert found.status == 0 and "2 ranks are joined" in found.stdout, found.stdout


@pytest.mark.parametrize("saved_data", ["full", "statistic"])
def test_a_factor_in_a_ring_is_not_blamed_on_the_parts_of_its_products(tmp_path, sonde, saved_data):
    """In a ring, a golden product has several counterparts, one for each part: they differ in a healthy run."""
    golden = run_one(tmp_path, RING.replace("FAULT", "False"), saved_data)
    lines = textwrap.dedent(RING).splitlines()
    for fault in ("factor", "merge"):
        directory = tmp_path / fault
        directory.mkdir()
        ranks = run_ranks(directory, RING.replace("FAULT", repr(fault)), saved_data=saved_data)
        assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
        found = sonde("compare", ranks.dump, golden)
        first = " ".join(found.stdout.splitlines()[:2])
        line = next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {fault}"))
        is_named = ", mul " in first and f"train.py:{line}: " in first
        assert found.status == 1 and "step 0, " in first, found.stdout
        assert is_named or (fault == "factor" and first.startswith("first difference (uncertain): ")), found.stdout


@pytest.mark.parametrize("saved_data", ["full", "statistic"])
def test_how_gradients_are_exchanged_and_a_number_of_a_call_are_compared(tmp_path, sonde, saved_data):
    source = textwrap.dedent(EXCHANGED)
    alone = EXCHANGED.replace("FAULT", '""').replace("WITH_HOOK", "False")
    golden = run_one(tmp_path, alone, saved_data)
    for fault, with_hook in [("", False), ("", True), *((fault, fault == "hook") for fault in EXCHANGE_FAULTS)]:
        directory = tmp_path / f"{fault}-{with_hook}"
        directory.mkdir()
        program = EXCHANGED.replace("FAULT", repr(fault)).replace("WITH_HOOK", str(with_hook))
        ranks = run_ranks(directory, program, saved_data=saved_data)
        assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
        found = sonde("compare", ranks.dump, golden)
        if not fault:
            assert found.status == 0 and "2 ranks are joined" in found.stdout, found.stdout
            continue
        line = next(n for n, text in enumerate(source.splitlines(), 1) if text.endswith(f"# {fault}"))
        op, words = EXCHANGE_FAULTS[fault]
        first = " ".join(found.stdout.splitlines()[:3])
        assert first.startswith("first difference: rank ") and "step 0, " in first, found.stdout
        if fault == "local" and saved_data == "statistic":  # statistics do not show parts of a mean
            assert f"train.py:{line}:" in first, found.stdout
            continue
        expected = f", {op} " in first and words in first
        assert expected and f"train.py:{line}:" in first, found.stdout


def test_a_killed_rank_is_named_by_a_comparison_that_joins_the_ranks(tmp_path, sonde):
    ranks = run_ranks(tmp_path, REPLICAS, saved_data="full")
    assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
    golden = run_one(tmp_path, REPLICAS.replace("DistributedDataParallel(net)", "net"))
    healthy = sonde("compare", ranks.dump, golden)
    assert healthy.status == 0 and "2 ranks are joined" in healthy.stdout, healthy.stdout + healthy.stderr

    journal = ranks.dump / "rank_1/.dump_metadata/sonde/journal"
    data = journal.read_bytes()
    end = next(at for at in reversed(range(len(data))) if journal_reader.entry_bytes(data, at) == len(data) - at)
    journal.chmod(0o600)
    journal.write_bytes(data[:end])
    for pair, of in ((ranks.dump, golden), ""), ((golden, ranks.dump), "golden: "):
        cut = sonde("compare", *pair)
        assert (cut.status, "no difference" in cut.stdout) == (3, False), cut.stdout
        assert f"{of}rank 1 was killed, or could not write its end, after step 1" in cut.stderr, cut.stderr


# The ranks are children that torch.multiprocessing starts; one process calls the function itself.
SPAWNED = """
    import os, torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch import nn

    def train(rank, world, meet):
        torch.manual_seed(0)
        net = model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
        if world > 1:
            dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=world)
            model = nn.parallel.DistributedDataParallel(net)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        for step in range(2):
            data = torch.randn(8, 8, generator=torch.Generator().manual_seed(step)).chunk(world)[rank]
            model(data).square().mean().backward()
            optimizer.step()
            if FAULT and step == 0:
                optimizer.state[net[0].weight]["exp_avg"].mul_(3)  # state
            optimizer.zero_grad()
        print("trained", flush=True)

    if __name__ == "__main__":
        world, meet = int(os.environ["RANKS"]), os.environ["MEET"]
        mp.spawn(train, (world, meet), world) if world > 1 else train(0, 1, "")
    """


def test_ranks_of_torch_multiprocessing_spawn_are_joined(tmp_path, sonde):
    def trained(name, ranks, fault):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "train.py").write_text(textwrap.dedent(SPAWNED).replace("FAULT", str(fault)))
        program = [*python(fresh=True), "train.py"]
        command = [CLI, "run", "--out", directory / "dump", "--saved-data", "full", "--", *program]
        run = run_in(directory, directory / "dump", *command, RANKS=ranks, MEET=f"file://{directory / 'meet'}")
        assert run.status == 0 and run.stdout.count("trained") == ranks, run.stderr
        return run.dump

    golden = trained("golden", 1, False)
    healthy = sonde("compare", trained("healthy", 2, False), golden)
    assert healthy.status == 0 and "2 ranks are joined" in healthy.stdout, healthy.stdout
    found = sonde("compare", trained("state", 2, True), golden)
    line = next(n for n, text in enumerate(textwrap.dedent(SPAWNED).splitlines(), 1) if text.endswith("# state"))
    first = " ".join(found.stdout.splitlines()[:2])
    assert found.status == 1 and first.startswith("first difference: rank 0, step 0, mul_ "), found.stdout
    assert f"train.py:{line}: " in first, found.stdout
