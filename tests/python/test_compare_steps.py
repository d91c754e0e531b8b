"""sonde compare of trainings of several steps: what stays behind a step, evaluations between, and data that differ."""

import json
import textwrap

import pytest
from ranks import DISTRIBUTED, run_ranks

# A fault at its line, and what runs beside the training.
PROGRAM = """
    import pickle, torch
    from torch import nn
    torch.manual_seed(0)
    fault, beside = {fault!r}, {beside!r}
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(4):
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step))
        loss = net(x).square().mean()
        if fault == "larger" and step == 2:
            loss = loss * 1.05  # larger
        if fault == "not a number" and step == 2:
            loss = loss * torch.log(loss - 10)  # not a number
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if fault == "weight" and step == 3:
            with torch.no_grad():
                net[2].weight.mul_(1.1)  # weight
        if fault == "state" and step == 3:
            optimizer.state[net[2].weight]["exp_avg_sq"].mul_(4)  # state
        if fault == "buffer" and step == 1:
            optimizer.state[net[0].bias]["exp_avg"].zero_()  # buffer
        if beside == "evaluation" and step % 2 == 1:
            with torch.no_grad():
                net.eval()(torch.ones(2, 6))
            net.train()
        if beside == "object":  # another one in each run, as a time is
            packed = torch.frombuffer(bytearray(pickle.dumps(id(net) * (step + 1))), dtype=torch.uint8)
            packed.clone().flip(0)
"""


@pytest.fixture
def compared(config, train, dump, sonde):
    def compare(fault, beside):
        for name, planted in (("golden", ""), ("target", fault)):
            run = train(PROGRAM.format(fault=planted, beside=beside), config(saved_data="full"))
            assert run.status == 0, run.stderr
            dump.rename(dump.with_name(name))
        return sonde("compare", dump.with_name("target"), dump.with_name("golden"))

    return compare


@pytest.mark.parametrize("beside", ["", "evaluation", "object"])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("larger", "step 2, mul "),
        ("not a number", "step 2, log "),
        ("weight", "step 3, mul_ "),
        ("state", "step 3, mul_ "),
        ("buffer", "step 1, zero_ "),
    ],
)
def test_the_first_line_is_the_first_in_time(compared, fault, said, beside):
    found = compared(fault, beside)
    assert found.status == 1, found.stdout + found.stderr
    assert found.stdout.startswith(f"first difference: {said}"), found.stdout
    at = next(i for i, line in enumerate(textwrap.dedent(PROGRAM).splitlines(), 1) if line.endswith(f"# {fault}"))
    assert f".py:{at}:" in found.stdout.splitlines()[0] + found.stdout.splitlines()[1], found.stdout


@pytest.mark.parametrize("beside", ["", "evaluation"])
def test_a_repetition_has_no_difference(compared, beside):
    found = compared("", beside)
    assert found.status == 0, found.stdout


# One rank has a batch more than the other, so the steps of an epoch have other numbers on the two.
JOINED = (
    DISTRIBUTED
    + """
    import time
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        with model.join():
            for batch in range(2 + rank):
                time.sleep(0.2)  # steps of one rank are further apart than the same step of the two
                h = model(torch.ones(4, 2) * batch)
                if FAULT and (rank, epoch, batch) == (1, 1, 0):
                    h = torch.log(h - 100)
                h.square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    print("trained", flush=True)
    """
)


@pytest.mark.cold
def test_calls_of_a_collective_meet_by_their_number_where_a_rank_has_more_steps(tmp_path, sonde):
    runs = []
    for fault in (False, True):
        directory = tmp_path / str(fault)
        directory.mkdir()
        runs.append(run_ranks(directory, JOINED.replace("FAULT", str(fault)), saved_data="full"))
        assert runs[-1].status == 0 and runs[-1].stdout.count("trained") == 2, runs[-1].stderr
    healthy, faulty = runs
    found = sonde("first-bad", faulty.dump)
    assert found.stdout.startswith("first bad: Default/log-op0"), found.stdout
    assert "rank 1, graph 0, step 3" in found.stdout, found.stdout
    compared = sonde("compare", faulty.dump, healthy.dump)
    assert compared.stdout.startswith("first difference: rank 1, step 3, log "), compared.stdout
    assert "Default/log-op0 --step 3 --rank 1\n" in compared.stdout, (
        "the next command is about this operator of this rank"
    )
    assert sonde("first-bad", healthy.dump).status == 0


COOLING = """
    import torch
    from torch import nn
    torch.manual_seed(0)

    class Cooling(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 2)
            self.register_buffer("heat", torch.tensor(8.0))

        def forward(self, x):
            y = self.linear(x) / self.heat.clone()
            {countdown}
            return y

    net = Cooling()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(4):
        optimizer.zero_grad()
        net(torch.ones(4, 6)).square().mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("in_golden", [False, True])
def test_what_one_side_alone_wrote_is_named_at_its_step_though_the_next_one_reads_it(
    config, train, dump, sonde, in_golden
):
    for name, countdown in (("counting", "self.heat -= 1"), ("still", "pass")):
        run = train(COOLING.format(countdown=countdown), config(saved_data="statistic"))
        assert run.status == 0, run.stderr
        dump.rename(dump.with_name(name))
    names = ("still", "counting") if in_golden else ("counting", "still")
    answer = sonde("compare", *(dump.with_name(name) for name in names))
    assert answer.status == 1
    lacks = "in the target" if in_golden else "in the golden dump"
    begin = f"first difference: step 0,{' golden op' if in_golden else ''} sub_ Default/network-Cooling/sub_-op0"
    assert answer.stdout.startswith(begin), answer.stdout
    assert f"has no counterpart {lacks}, and writes heat" in answer.stdout
    assert (
        f"unmatched {'0 of the target and 4' if in_golden else '4 of the target and 0'} of the golden" in answer.stdout
    )
    assert "compute the same in different ways" not in answer.stdout + answer.stderr


BYPASSED = (
    DISTRIBUTED
    + """
    from torch.nn.parallel import DistributedDataParallel
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        x = torch.randn(4, 2, generator=torch.Generator().manual_seed(rank + 2 * step))
        loss = {called}(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()
"""
)


def test_a_wrapper_that_is_bypassed_lacks_its_collective(tmp_path, sonde):
    dumps = []
    for name, called in (("golden", "model"), ("target", "model.module")):
        (tmp_path / name).mkdir()
        run = run_ranks(tmp_path / name, BYPASSED.format(called=called), saved_data="full", iteration="all")
        assert run.status == 0, run.stderr
        dumps.insert(0, run.dump)
    first = json.loads(sonde("compare", *dumps, "--json").stdout)["findings"][0]
    assert (first["kind"], first["op_type"], first["step"]) == ("missing", "allreduce_", 0), first
