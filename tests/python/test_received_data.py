"""sonde compare of two stages of a pipeline: what the first stage does to its result is not blamed on the rank that
receives it."""

import textwrap

from ranks import DISTRIBUTED, run_ranks

STAGES = (
    DISTRIBUTED
    + """
    fault = "FAULT"

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))

        def forward(self, x):
            x = x + self.layers(x)  # the other rank reads what it received earlier in its step
            if fault and self.step == 1 and rank == 0:
                x = x * 1.05  # scaled
            return x

    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    net = Stage()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    schedule = Schedule1F1B(PipelineStage(net, rank, 2, torch.device("cpu")), 4, nn.functional.mse_loss)
    for step in range(3):
        net.step = step
        x, goal = torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=goal, losses=[])
        optimizer.step()
    print("trained", flush=True)
    """
)


def dump_of(directory, fault):
    directory.mkdir()
    run = run_ranks(directory, STAGES.replace("FAULT", fault), saved_data="full")
    assert run.status == 0 and run.stdout.count("trained") == 2, run.stderr
    return run.dump


def test_the_op_of_the_rank_that_sent_them_is_named(tmp_path, sonde):
    golden = dump_of(tmp_path / "healthy", "")
    found = sonde("compare", dump_of(tmp_path / "scaled", "scaled"), golden)
    lines = textwrap.dedent(STAGES).splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("# scaled"))
    first = " ".join(found.stdout.splitlines()[:2])
    assert found.status == 1 and first.startswith("first difference: rank 0, step 1, mul "), found.stdout
    assert f"train.py:{line}: has no counterpart" in first, found.stdout
