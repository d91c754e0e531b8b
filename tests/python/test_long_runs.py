"""Long runs: memory, journal and graph files stay bounded; at a small scale. The full one: benchmarks/long_run.py."""

import json
import pathlib

import pytest

MEASURE = """
    import gc
    import time
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)


    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4 // 1024  # MiB


"""
TRAINING = (
    MEASURE
    + """
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for step in range({steps}):
        optimizer.zero_grad()
        network(torch.randn(2, 4)).square().mean().backward()
        optimizer.step()
        time.sleep(0.002)  # records that wait for the writer take memory too; so they need not wait
        if step == {steps} // 2:
            before = resident()
    print("grew", resident() - before)
"""
)


def grown(done):
    assert "grew " in done.stdout, done.stderr
    return int(done.stdout.split("grew ")[1].split()[0])


def notes_of(sonde, dump):
    answer = json.loads(sonde("ls", dump, "--json").stdout)
    return [note for rank in answer["ranks"] for run in rank["runs"] for note in run["notes"]]


def journal_of(dump):
    return pathlib.Path(dump) / "rank_0/.dump_metadata/sonde/journal"


def test_the_memory_of_a_run_is_flat_and_its_journal_small(train, config, dump):
    done = train(TRAINING.replace("{steps}", "2000"), config(saved_data="statistic"))
    assert grown(done) <= 5, done.stdout
    line = next(line for line in done.sonde_lines if "tensors of" in line)
    tensors = int(line.split(" tensors of")[0].split()[-1])
    assert tensors > 100_000, line
    # Of the op and of its tensors; statistics alone are about 30.
    assert journal_of(dump).stat().st_size / tensors < 60


def test_steps_that_all_differ_have_a_bounded_number_of_graphs(train, config, dump, sonde):
    source = """
        import torch
        torch.set_num_threads(1)

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(2))
                self.step = 0

            def forward(self, x):
                x = x * self.weight
                for bit in range(9):
                    x = x.tanh() if self.step >> bit & 1 else x.sin()
                return x.sum()

        network = Net()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
        for step in range(300):
            network.step = step
            optimizer.zero_grad()
            network(torch.randn(2)).backward()
            optimizer.step()
    """
    train(source, config(saved_data="statistic"))
    graphs = list((pathlib.Path(dump) / "rank_0/graphs").rglob("*.ir"))
    assert len(graphs) == 256
    said = [note for note in notes_of(sonde, dump) if note.startswith("graphs")]
    assert len(said) == 1 and "256 steps of graph 0 differed" in said[0], said
    verified = sonde("verify", dump)
    assert verified.status == 0, verified.stdout
    again = pathlib.Path(dump).parent / "again"
    assert sonde("ls", dump, "--ops", "--step", "299").stdout.count("sin") > 0, "the journal has every step"
    assert not again.exists()


@pytest.mark.parametrize("ring", [0, 2])
def test_a_step_that_never_ends_is_bounded(train, config, dump, sonde, ring):
    source = (
        MEASURE
        + """
    network = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    network(torch.ones(2)).sum().backward()
    optimizer.step()
    x = network(torch.ones(2)).detach()


    def run(count):
        global x
        for i in range(count):
            x = x + 1
            if i % 1_000 == 0:
                time.sleep(0.01)  # as above


    run(290_000)
    before = resident()
    run(100_000)
    print("grew", resident() - before)
"""
    )
    own = {"ring": ring, "ring_bytes": 16 << 20} if ring else None
    done = train(source, config(saved_data="statistic", sonde_settings=own))
    assert grown(done) <= 5, done.stdout
    notes = notes_of(sonde, dump)
    assert any("262144 operators have names of their own" in note for note in notes), notes
    if not ring:
        assert any("more than 131072 ops" in note for note in notes), notes
