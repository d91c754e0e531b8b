"""Every mode of recording on the test device: the values of the CPU's recording, the bits of a run without Sonde.

One training has what trainings use: convolution and norm, writes in place, checkpointing, a second stream, pinned
batches of a DataLoader, a step that overflows, an operator that throws. A process records it in one mode after another.
"""

import json
import sys

import dumps
import numpy as np
import pytest
from device_programs import on_device
from processes import run_in

# Operators that a run on the CPU does not have.
OF_DEVICES = ("_to_copy", "_to-", "pin_memory", "record_stream")

TRAINING = """
import contextlib, pathlib
import sonde
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

device = DEVICE
side = torch.Stream(device) if device != "cpu" else None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(144, 6)
        self.fc = nn.Linear(6, 3)
        self.scale = 1.0

    def forward(self, x):
        y = self.norm(self.conv(x)).relu_().flatten(1)
        y = checkpoint(self.hidden, y, use_reentrant=False, preserve_rng_state=False)
        y.mul_(self.scale)
        with beside() as main:
            z = y * 1
        if main is not None:
            z.record_stream(main)
        unseen(y)
        return self.fc(z)


def unseen(y):
    torch.autograd._enable_record_function(False)
    y.data[0, 0] = 50
    torch.autograd._enable_record_function(True)


@contextlib.contextmanager
def beside():
    if side is None:
        yield None
        return
    main = torch.accelerator.current_stream()
    side.wait_stream(main)
    with on(side):
        yield main
    main.wait_stream(side)


def train():
    torch.manual_seed(0)
    net = Net().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=True)
    loader = DataLoader(TensorDataset(torch.randn(6, 1, 8, 8)), batch_size=2, pin_memory=device != "cpu")
    losses = []
    for step, (batch,) in enumerate(loader):
        net.scale = 1e38 if step == 2 else 1.0
        optimizer.zero_grad()
        loss = net(batch.to(device, non_blocking=True)).square().mean()
        loss.backward()
        if step < 2:
            optimizer.step()
        losses.append(loss.detach())
    try:
        net.fc(torch.ones(2, 5, device=device))
    except RuntimeError as error:
        assert "shapes cannot be multiplied" in str(error)
    return torch.cat([value.flatten().cpu() for value in [*losses, *net.state_dict().values()]]).tolist()


MODES = json.loads(pathlib.Path("modes.json").read_text())
show("bare", train(), "")
for name, settings in MODES.items():
    sonde.start(settings)
    result = train()
    show(name, result, sonde.stop())
"""


def dump_json(sonde_settings=None, e2e=None, **common):
    """The content of a data_dump.json; {} becomes its directory."""
    settings = {"dump_mode": 0, "path": "{}", "net_name": "Net", "iteration": "all", "saved_data": "tensor",
                "input_output": 0, "kernels": [], "support_device": [0], **common}  # fmt: skip
    both = {"common_dump_settings": settings, "e2e_dump_settings": {"enable": True, "trans_flag": True, **(e2e or {})}}
    return both if sonde_settings is None else {**both, "sonde_settings": sonde_settings}


def watcher(watched):
    entry = {"watcher_nodes": [watched]}
    return {"dump": {"dump_list": [entry], "dump_path": "{}", "dump_mode": "output", "dump_scene": "watcher"}}


MODES = {
    "overflow": dump_json(op_debug_mode=3),
    "overflow, statistics": dump_json(op_debug_mode=3, saved_data="statistic"),
    "exception": dump_json(op_debug_mode=4),
    "sample": dump_json(e2e={"sample_mode": 1, "sample_num": 5}),
    "memory order": dump_json(e2e={"trans_flag": False}),
    "selection": dump_json(dump_mode=1, kernels=["relu_", "name-regex(.*norm.*)"], saved_data="full"),
    "outputs": dump_json(input_output=2, iteration="1", saved_data="full"),
    "hashes": dump_json(saved_data="statistic", statistic_category=["md5", "max"]),
    "graph": dump_json({"saved_data": "graph"}),
    "ring": dump_json({"ring": 2}),
    "overhead": dump_json({"max_overhead": 1.0}, saved_data="statistic"),
    "watcher": watcher("Default/network-Net/mul_-op0"),
}


@pytest.fixture(scope="module")
def runs(once_per_run):
    """runs[device][mode]: (results, closing line, directory)."""
    found = {}
    for device in "cpu", "testdev":

        def make(directory, device=device):
            modes = {}
            for number, (name, settings) in enumerate(MODES.items()):
                (directory / str(number)).mkdir()
                modes[name] = json.loads(json.dumps(settings).replace("{}", str(directory / str(number))))
            (directory / "modes.json").write_text(json.dumps(modes))
            (directory / "train.py").write_text(on_device(TRAINING.replace("DEVICE", repr(device)), "main_last"))
            run = run_in(directory, None, sys.executable, "train.py")
            assert run.status == 0, run.stderr
            (directory / "out").write_text(run.stdout)

        place = once_per_run(f"device-modes-{device}", make)
        lines = [json.loads(line) for line in (place / "out").read_text().splitlines()]
        found[device] = {
            name: (results, closing, place / str(number - 1)) for number, (name, results, closing) in enumerate(lines)
        }
    return found


def test_no_mode_changes_a_bit(runs):
    expected = runs["cpu"]["bare"][0]
    assert len(expected) > 900
    different = [
        (device, mode) for device in runs for mode in runs[device] if not same(runs[device][mode][0], expected)
    ]
    assert different == []


def same(a, b):
    return np.array_equal(np.array(a, dtype=np.float64), np.array(b, dtype=np.float64), equal_nan=True)


def files_of(dump):
    """{(graph, step, operator, side, slot): (shape, type, bytes)} of every file."""
    found = {}
    for graph in (0, 1):
        for step in dumps.steps(dump, graph):
            for key, array in dumps.tensors(dump, step, graph).items():
                found[(graph, step, *key)] = array.shape, str(array.dtype), array.tobytes()
    return of_both(found)


def rows_of(dump):
    """{(graph, step, operator, side, slot): row} of every table of statistics."""
    found = {}
    for graph in (0, 1):
        for step in dumps.steps(dump, graph):
            if (dumps.step_directory(dump, step, graph) / "statistic.csv").exists():
                for row in dumps.statistics(dump, step, graph):
                    found[graph, step, row["Op Name"], row["IO"], row["Slot"]] = row
    return of_both(found)


def of_both(found):
    return {key: value for key, value in found.items() if not any(word in key[2] for word in OF_DEVICES)}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("watcher", "graph", "overhead")])
def test_a_mode_has_the_values_of_the_cpus(mode, runs):
    (_, _, cpu), (_, closing, device) = runs["cpu"][mode], runs["testdev"][mode]
    expected, found = files_of(cpu), files_of(device)
    expected_rows, found_rows = rows_of(cpu), rows_of(device)
    assert len(expected) + len(expected_rows) > (1 if mode == "exception" else 20)
    assert "skipped" not in closing
    assert (sorted(found), sorted(found_rows)) == (sorted(expected), sorted(expected_rows))
    assert [key for key in expected if expected[key] != found[key]] == []
    for key, row in expected_rows.items():
        for column in ("Shape", "Max Value", "Min Value", "MD5 Value", "NaN Count"):
            assert found_rows[key].get(column) == row.get(column), (key, column)


def test_the_graph_is_that_of_the_cpu(runs):
    expected, found = (dumps.execution_order(runs[device]["graph"][2]) for device in runs)
    assert len(expected) > 50
    assert [name for name in found if not any(word in name for word in OF_DEVICES)] == expected


def test_what_max_overhead_recorded_has_the_values_of_the_cpus(runs):
    expected, found = (rows_of(runs[device]["overhead"][2]) for device in runs)
    both = [key for key in expected if key in found and expected[key]["Max Value"] and found[key]["Max Value"]]
    assert len(both) > 50  # the first step is recorded in any case
    assert [key for key in both if expected[key]["Max Value"] != found[key]["Max Value"]] == []


def test_the_watcher_finds_an_unseen_write(runs):
    for device in runs:
        _, closing, dump = runs[device]["watcher"]
        changes = [line for line in closing.splitlines() if " changed in step " in line]
        assert len(changes) == 3, closing
        assert all("output 0 of Default/network-Net/mul_-op0" in line and "linear-op0" in line for line in changes)
        assert len(list(dump.rglob("mul_.*linear-op0_To_*mul_-op0.*"))) == 3
