"""`"saved_data": "summary"`: a long run in a few megabytes, and the first NaN exactly."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import CLI

import sonde

TRAINING = """
import sys

import torch

torch.manual_seed(0)
bad, steps, ends = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.act, self.fc2 = torch.nn.Linear(8, 16), torch.nn.ReLU(inplace=True), torch.nn.Linear(16, 1)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


network = Net()
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for step in range(steps):
    batch = torch.randn(4, 8)
    if step == bad:
        batch[0, 0] = float("nan")
    optimizer.zero_grad()
    loss = network(batch).square().mean()
    loss.backward()
    if step == bad and ends:
        import os

        os._exit(9)
    optimizer.step()
    if step == bad:
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.nan_to_num_(0.1)
    if step % 1000 == 0:
        print("step", step, flush=True)
print([parameter.detach().double().sum().item().hex() for parameter in network.parameters()])
"""


def configuration(path, **own):
    common = {"dump_mode": 0, "path": str(path), "net_name": "Net", "iteration": "all", "input_output": 0,
              "kernels": [], "support_device": [0, 1]}  # fmt: skip
    return {"common_dump_settings": common, "sonde_settings": {"saved_data": "summary", "max_overhead": 0, **own}}


def start(tmp_path, *arguments, environment=(), **own):
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "dump.json").write_text(json.dumps(configuration(tmp_path / "run", **own)))
    return subprocess.Popen(
        [sys.executable, "train.py", *map(str, arguments)],
        cwd=tmp_path,
        env=os.environ | {"SONDE_CONFIG": str(tmp_path / "dump.json")} | dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def train(tmp_path, *arguments, **keywords):
    running = start(tmp_path, *arguments, **keywords)
    out, errors = running.communicate(timeout=240)
    return out, errors


def run(tmp_path, *command):
    return subprocess.run([*command], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=300)


def steps_of(path):
    return [step.step for step in sonde.open(path).steps]


def place(answer):
    finding = answer.findings[0]
    return finding.step, finding.tensor.op_name


def test_the_run_is_thinned_and_its_first_nan_has_its_step_and_its_layer(tmp_path):
    _, errors = train(tmp_path, 1234, 2500)
    assert "kept a summary of 9 tensors in 2500 steps" in errors
    found = sonde.first_bad(tmp_path / "run")
    assert place(found) == (1234, "Default/network-Net/fc1-Linear")
    steps = steps_of(tmp_path / "run")
    assert set(range(2400, 2500)) <= set(steps), "the newest steps are all there"
    assert {*range(1500, 2400, 10), *range(0, 2500, 100)} <= set(steps)
    assert len(steps) < 400
    size = sum(file.stat().st_size for file in (tmp_path / "run").rglob("*") if file.is_file())
    assert size < 1_000_000


def test_the_training_computes_the_same_bits(tmp_path):
    with_summary, _ = train(tmp_path, -1, 300)
    without, _ = train(tmp_path, -1, 300, environment={"SONDE_OFF": "1"})
    assert with_summary == without and "0x" in without


def test_a_program_that_ends_in_the_step_of_the_nan_leaves_it(tmp_path):
    train(tmp_path, 57, 100, "exit")
    assert place(sonde.first_bad(tmp_path / "run")) == (57, "Default/network-Net/fc1-Linear")


def test_a_killed_run_can_be_read_up_to_its_last_step(tmp_path):
    running = start(tmp_path, 700, 100_000_000)
    for _ in range(3):
        line = running.stdout.readline()
    running.send_signal(signal.SIGKILL)  # in step 2001: a step is written when the next one begins
    running.communicate()
    assert line == "step 2000\n"
    steps = steps_of(tmp_path / "run")
    last = steps[-1]
    assert last >= 1999 and set(range(last - 99, last + 1)) <= set(steps)
    assert place(sonde.first_bad(tmp_path / "run")) == (700, "Default/network-Net/fc1-Linear")


def test_a_row_that_was_being_written_is_left_out_and_the_others_stay(tmp_path):
    train(tmp_path, -1, 50)
    (rows,) = (tmp_path / "run").rglob("summary.rows")
    content = bytearray(rows.read_bytes())
    row = 24 + 9 * 48 + 8  # head, cells, check: the room for later series follows
    capacity = 9 + 9 // 4 + 16
    content[24 + 10 * (24 + capacity * 48 + 8) + row - 60] ^= 1  # in the cells of step 10
    rows.write_bytes(content)
    # The window of ten steps that begins with it has a copy of its own.
    assert steps_of(tmp_path / "run") == [step for step in range(50) if step != 10]


@pytest.mark.parametrize("damage", ["nothing", "text", "sizes", "version"])
def test_damaged_files_are_refused_with_the_reason(tmp_path, damage):
    train(tmp_path, -1, 5)
    (rows,) = (tmp_path / "run").rglob("summary.rows")
    content = bytearray(rows.read_bytes())
    if damage == "nothing":
        content = b""
    elif damage == "text":
        content[:8] = b"no dump!"
    elif damage == "sizes":
        content[16:20] = (1 << 30).to_bytes(4, "little")
    else:
        content[8] = 9
    rows.write_bytes(content)
    opened = sonde.open(tmp_path / "run")
    said = " ".join(problem.message for problem in opened.problems)
    reason = {
        "nothing": "it ends before its first row",
        "text": "it is not the file of a summary",
        "sizes": "its sizes are damaged",
        "version": "it has version 9 of the format, and this Sonde reads 1",
    }
    assert reason[damage] in said


def test_a_second_run_is_a_run_of_its_own(tmp_path):
    train(tmp_path, -1, 20)
    train(tmp_path, 3, 10)
    assert [file.parent.name for file in sorted((tmp_path / "run").rglob("summary.rows"))] == ["summary_0", "summary_1"]
    assert steps_of(tmp_path / "run") == [*range(20), *range(10)]
    assert place(sonde.first_bad(tmp_path / "run")) == (3, "Default/network-Net/fc1-Linear")


def test_with_limited_time_only_the_loss_is_read_in_most_steps(tmp_path):
    train(tmp_path, 1234, 1400, max_overhead=0.001)
    assert place(sonde.first_bad(tmp_path / "run"))[0] == 1234
    train(tmp_path, -1, 1400, max_overhead=0.001)
    # Nothing is known of the layers in those steps, and the answer says so.
    alone = sonde.first_bad(tmp_path / "run/rank_0/summary_1")
    assert not alone.findings and not alone.complete
    assert "by max_overhead" in " ".join(alone.notes)


def test_without_a_word_a_summary_takes_half_a_percent(tmp_path):
    settings = configuration(tmp_path / "run")
    del settings["sonde_settings"]["max_overhead"]
    (tmp_path / "data_dump.json").write_text(json.dumps(settings))
    said = run(tmp_path, CLI, "check", tmp_path / "data_dump.json").stdout
    assert "max_overhead: 0.5 % of the time of a step; in steps beyond that the loss alone is read" in said
    (tmp_path / "data_dump.json").write_text(json.dumps(configuration(tmp_path / "run")))
    assert "max_overhead" not in run(tmp_path, CLI, "check", tmp_path / "data_dump.json").stdout


def test_the_end_says_how_many_steps_were_left_to_the_loss(tmp_path):
    _, errors = train(tmp_path, -1, 400, max_overhead=0.001)
    left = re.search(r"max_overhead 0.001 left (\d+) steps to the loss alone", errors)
    assert left and 0 < int(left[1]) < 400, errors
    _, errors = train(tmp_path, -1, 40)
    assert "max_overhead" not in errors


RETURNING = """
import sys

import torch

import sonde
from sonde import _core, summaries

reads = []
dense = _core.summary_dense
_core.summary_dense = lambda *given: (reads.append(given), dense(*given))


class Inner(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Outer(torch.nn.Module):
    def __init__(self, change):
        super().__init__()
        self.inner, self.change = Inner(), change

    def forward(self, x):
        return self.change(self.inner(x))


def in_place(x):
    return x.mul_(10)


weight = torch.ones(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.0)
for change in (lambda x: x, lambda x: (x,), in_place, lambda x: x + 1):
    output = Outer(change)(weight * 3)
    print(len(reads))
    (output[0] if isinstance(output, tuple) else output).sum().backward()
    optimizer.step()
    reads.clear()
"""


def test_a_tensor_that_a_module_returns_from_another_is_read_once(tmp_path):
    """As it is, or in a tuple; not if it was changed in place since, nor another one with as many elements."""
    (tmp_path / "returning.py").write_text(RETURNING)
    (tmp_path / "dump.json").write_text(json.dumps(configuration(tmp_path / "run")))
    done = subprocess.run(
        [sys.executable, "returning.py"],
        cwd=tmp_path,
        env=os.environ | {"SONDE_CONFIG": str(tmp_path / "dump.json")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout.split() == ["1", "1", "2", "2"], done.stderr
    tensors = sonde.open(tmp_path / "run").tensors
    maxima = {(tensor.op.step, tensor.op.op_name.split("/")[-1]): tensor.statistics.max for tensor in tensors}
    for step, outer in enumerate([6, 6, 60, 7]):
        found = {name: value for (at, name), value in maxima.items() if at == step}
        inner = [value for name, value in found.items() if "Inner" in name]
        outers = [value for name, value in found.items() if "Outer" in name]
        assert (inner, outers) == ([6], [outer]), found


def test_evaluation_is_not_kept_and_reused_names_go_on(tmp_path):
    import torch

    settings = configuration(tmp_path / "run")
    sonde.start(settings)
    network = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(3):
        torch.nn.MSELoss()(network(torch.ones(2, 4)), torch.zeros(2, 4)).backward()
        optimizer.step()
        with torch.no_grad():
            network(torch.full((2, 4), float("nan")))
    summary = sonde.stop()
    assert "in 3 steps" in summary
    assert not sonde.first_bad(tmp_path / "run").findings
    names = {op.op_name for op in sonde.open(tmp_path / "run").ops}
    assert names == {"Default/network-Linear", "Default/network1-MSELoss", "loss", "weight.grad", "bias.grad"}


def test_a_million_steps_are_a_trend_in_a_second(tmp_path):
    """Made by the engine's own functions, without a training."""
    made = tmp_path / "made.py"
    made.write_text(f"""
import ctypes, json, pathlib
from sonde import _core
pathlib.Path("dump.json").write_text(json.dumps({configuration(tmp_path / "run")!r}))
print(_core.start("dump.json"))
_core.summary_place(0, 0)
values = (ctypes.c_float * 4)(1, 2, 3, 4)
address = ctypes.addressof(values)
for step in range(1_000_000):
    wanted = _core.summary_step(step, 0)
    if step == 0:
        numbers = [_core.summary_series(0, f"Default/network-Net/l{{i}}-Linear", "Linear", 11, [4]) for i in range(4)]
    values[0] = step
    if step == 654_321:
        values[1] = float("inf")
    for number in numbers:
        _core.summary_dense(number, address, 11, 4)
    values[1] = 2
print(_core.stop())
""")
    done = run(tmp_path, sys.executable, made)
    assert "in 1000000 steps" in done.stdout, done.stderr
    begin = time.perf_counter()
    command = os.environ.get("SONDE_CLI", "sonde")
    trend = run(tmp_path, command, "show", "run", "Default/network-Net/l2-Linear:output.0", "--trend", "max")
    seconds = time.perf_counter() - begin
    words = [line.split()[:2] for line in trend.stdout.splitlines()]
    lines = dict(pair for pair in words if len(pair) == 2 and pair[0].isdigit())
    assert lines["0"] == "4"
    assert "999999" in lines and "900000" in lines and lines["900000"] == "900000"
    assert 400 < len(lines) < 1000
    assert seconds < 1, f"{seconds:.2f} s"
    assert place(sonde.first_bad(tmp_path / "run")) == (654_321, "Default/network-Net/l0-Linear")


def test_combinations_that_mean_nothing_are_refused(tmp_path):
    with pytest.raises(sonde.Error, match="cannot be combined with saved_data summary"):
        sonde.start(configuration(tmp_path / "run", ring=3))
    with pytest.raises(sonde.Error, match=r"sonde_settings\.stop_after"):
        sonde.start(configuration(tmp_path / "run", stop_after=True))


def test_the_next_configuration_records_the_operators_of_the_modules_around_the_finding(tmp_path):
    train(tmp_path, 12, 20)
    found = run(tmp_path, CLI, "first-bad", tmp_path / "run", "--next-config", tmp_path / "next.json")
    assert found.returncode == 1, found.stderr
    next_run = json.loads((tmp_path / "next.json").read_text())
    (kernels,) = next_run["common_dump_settings"]["kernels"]
    assert next_run["common_dump_settings"]["iteration"] == "11|12"
    expression = kernels.removeprefix("name-regex(").removesuffix(")")
    assert re.fullmatch(expression, "Default/network-Net/fc1-Linear/linear-op0")
    assert not re.fullmatch(expression, "Default/network-Other/linear-op0")
    assert run(tmp_path, CLI, "check", tmp_path / "next.json").returncode == 0


def test_the_check_of_a_configuration_says_what_a_summary_has_and_where(tmp_path):
    config = tmp_path / "data_dump.json"
    config.write_text(json.dumps(configuration(tmp_path / "run")))
    said = run(tmp_path, CLI, "check", config).stdout
    assert "operators: none" in said and f"written to: {tmp_path / 'run/rank_N/summary_RUN'}" in said, said
