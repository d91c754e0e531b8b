"""`sonde run --prove` and autocast on the test device: the bits of a run without Sonde, the values of the CPU's."""

import json
import sys

import dumps
import pytest
from conftest import CLI
from device_programs import on_device
from processes import run_in

# Autocast with both types, and scaled gradients. The forward of step 2 overflows.
TRAINING = """
device = DEVICE
recording = "SONDE_CONFIG" in os.environ
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 4)).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=True)
scaler = torch.amp.GradScaler(device, init_scale=2.0**10)
for step in range(4):
    optimizer.zero_grad()
    with torch.autocast(device, torch.float16 if step % 2 == 0 else torch.bfloat16):
        y = net(torch.randn(4, 6).to(device) * (1e30 if step == 2 else 1))
        loss = y.float().square().mean()
    scaler.scale(loss).backward()
    {}
    scaler.step(optimizer)
    scaler.update()
    show(str(y.dtype), loss.item(), scaler.get_scale())
"""


def training(device, inside="pass"):
    return on_device(TRAINING.replace("DEVICE", repr(device)).replace("{}", inside), "main_last")


@pytest.fixture(scope="module")
def prove(tmp_path_factory):
    """prove(source, *options): the process, whose dump contains tensors of everything."""

    def run(source, *options):
        directory = tmp_path_factory.mktemp("prove", numbered=True)
        (directory / "train.py").write_text(source)
        command = [CLI, "run", "--prove", *options, "--out", directory / "dump", "--saved-data", "full", "--"]
        return run_in(directory, directory / "dump", *command, sys.executable, "train.py", timeout=280)

    return run


@pytest.fixture(scope="module")
def proved(prove):
    return prove(training("testdev"), "--json")


def test_a_training_under_autocast_is_proved_identical_on_the_device(proved):
    assert proved.status == 0, proved.stdout + proved.stderr
    verdict = json.loads(proved.stdout)
    assert verdict["verdict"] == "identical"
    assert {"output", "loss", "gradient", "parameter", "optimizer state"} <= set(verdict["compared"]["kinds"])
    assert (verdict["compared"]["steps"], verdict["compared"]["skipped"]) == (3, {})  # of step 2 the scaler takes none
    (line,) = verdict["recorded"]
    assert line.startswith("sonde: recorded ")
    assert "skipped" not in line


def test_a_difference_in_one_bit_on_the_device_is_found_and_named(prove):
    run = prove(training("testdev", "if recording and step == 1: net[2].bias.grad.view(torch.int32)[3] ^= 1"), "--json")
    assert run.status == 1, run.stdout + run.stderr
    first = json.loads(run.stdout)["compared"]["first_difference"]
    found = first["place"], first["kind"], first["name"]
    assert found == ("step 1, after SGD.step", "gradient", "Sequential.2.bias")


def test_what_was_recorded_under_autocast_has_the_values_of_the_cpus(proved, train, config, dump):
    on_cpu = train(training("cpu"), config(saved_data="full"))
    shown = [json.loads(line) for line in on_cpu.stdout.splitlines()]
    assert [one[0] for one in shown] == ["torch.float16", "torch.bfloat16"] * 2
    assert shown[2][1:] == [pytest.approx(float("nan"), nan_ok=True), 512.0]
    expected, found = all_tensors(dump), all_tensors(proved.dump)
    assert len(expected) > 600
    assert {array.dtype.name for array in found.values()} >= {"float16", "float32"}
    assert set(found) == set(expected)
    assert [key for key in expected if expected[key].tobytes() != found[key].tobytes()] == []


def all_tensors(dump):
    return {(step, *key): array for step in dumps.steps(dump) for key, array in dumps.tensors(dump, step).items()}
