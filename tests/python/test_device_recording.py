"""Recording on the test device: the values of the CPU's recording, the bits of a run without Sonde, no waits.

Each schedule is the worst for another mistake. `main_last`: our stream overtakes the program's wherever no event orders
them. `others_last`: our stream comes after everything that the program does meanwhile. `last`: nothing has run when the
host forgets to wait.
"""

import dumps
import numpy as np
import pytest
from device_programs import NETWORKS, on_device, without_captures

SCHEDULES = ["main_last", "others_last", "last", "shuffled"]
CATEGORIES = [
    "max",
    "min",
    "avg",
    "count",
    "negative zero count",
    "positive zero count",
    "zero count",
    "negative inf count",
    "positive inf count",
    "nan count",
    "l2norm",
]

# Three steps on DEVICE, without operators that PyTorch has for devices alone. The rest of a step is scaled in place and
# freed, so that memory is written again and reused while copies of it may be under way.
TRAINING = (
    NETWORKS
    + """
net, batch = convolution(DEVICE)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=True)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(batch[0]).mul_(0.5).relu_(), batch[1])
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
state = [*losses, *net.state_dict().values()]
show(torch.cat([value.flatten().cpu() for value in state]).tolist())
"""
)


def training(device, schedule):
    return on_device(TRAINING.replace("DEVICE", repr(device)), schedule)


def all_tensors(dump):
    return {(step, *key): array for step in dumps.steps(dump) for key, array in dumps.tensors(dump, step).items()}


@pytest.fixture(scope="module")
def on_cpu(compare):
    """The training on the CPU, recorded as tensors and statistics."""
    return compare(training("cpu", "eager"), saved_data="full", statistic_category=CATEGORIES)


@pytest.fixture(scope="module", params=SCHEDULES)
def recorded(request, compare):
    return compare(training("testdev", request.param), saved_data="full", statistic_category=CATEGORIES)


def test_every_tensor_has_the_bits_of_the_cpus(on_cpu, recorded):
    expected, found = all_tensors(on_cpu.dump), all_tensors(recorded.dump)
    assert len(expected) > 150
    assert set(found) == set(expected)
    different = [key for key in expected if expected[key].tobytes() != found[key].tobytes()]
    assert different == []


def test_the_results_are_those_without_sonde_and_nothing_is_skipped(on_cpu, recorded):
    assert recorded.bare.status == recorded.recorded.status == 0, recorded.recorded.stderr
    assert recorded.recorded.stdout == recorded.bare.stdout == on_cpu.bare.stdout
    assert recorded.bare.stderr == ""
    (line,) = without_captures(recorded.recorded.sonde_lines)
    assert line.startswith("sonde: recorded ")
    assert "skipped" not in line


def rows(dump):
    """The rows of all statistics by operator and slot. The time of a row is not compared."""
    found = {}
    for step in dumps.steps(dump):
        for row in dumps.statistics(dump, step):
            found[step, row["Op Name"], row["IO"], row["Slot"]] = row
    return found


EXACT = [
    "Max Value",
    "Min Value",
    "Count",
    "Negative Inf Count",
    "Positive Inf Count",
    "Negative Zero Count",
    "Positive Zero Count",
    "Zero Count",
    "NaN Count",
]


@pytest.mark.parametrize("mode", ["device", "host"])
def test_statistics_are_those_of_the_cpu_wherever_they_are_computed(mode, on_cpu, train, config, dump):
    where = {"enable": True, "trans_flag": True, "stat_calc_mode": mode}
    settings = config(where, saved_data="statistic", statistic_category=CATEGORIES)
    run = train(training("testdev", "main_last"), settings)
    assert run.stdout == on_cpu.bare.stdout
    expected, rows_found = rows(on_cpu.dump), rows(dump)
    assert len(expected) > 150
    assert set(rows_found) == set(expected)
    for key, row in expected.items():
        other = rows_found[key]
        for column in row:
            if column in EXACT:
                assert float(other[column]) == float(row[column]), (key, column)
            elif column in ("Avg Value", "L2Norm Value"):
                assert float(other[column]) == pytest.approx(float(row[column]), rel=1e-5, abs=1e-7), (key, column)


# Below and above what waits to be reduced with others, in pieces, and more than can wait at once.
SIZES = """
for size in [1, 4095, 4096, 4097, 131_072, 131_073, 600_000] * 2 + [5] * 200:
    x = torch.randn(size)
    x[::7] = 0.0
    x[size // 2] = torch.nan
    x[-1] = torch.inf
    y = x.to(DEVICE) * 2
    (y[::2] * 2, (y > 0) * 2, torch.complex(y, -y)[1:] * 2)
"""


def test_statistics_of_tensors_of_every_size_are_the_cpus(train, config, tmp_path):
    found = []
    for device in "cpu", "testdev":
        where = {"enable": True, "trans_flag": True, "stat_calc_mode": "device"}
        more = {"dump_mode": 1, "kernels": ["mul", "gt"], "input_output": 2, "statistic_category": CATEGORIES}
        settings = config(where, saved_data="statistic", path=str(tmp_path / device), **more)
        assert train(on_device(SIZES.replace("DEVICE", repr(device))), settings).status == 0
        found.append(rows(tmp_path / device))
    expected, on_the_device = found
    assert len(expected) > 800
    assert set(expected) == set(on_the_device)
    for key, row in expected.items():
        other = on_the_device[key]
        assert [other[column] for column in EXACT] == [row[column] for column in EXACT], key
        for column in "Avg Value", "L2Norm Value":
            assert float(other[column] or 0) == pytest.approx(float(row[column] or 0), rel=1e-5, abs=1e-7, nan_ok=True)


ZEROS = """
for values in [0.0, -0.0], [-0.0, 0.0], [-0.0], [0.0, -1.0], [-0.0, -1.0], [-0.0, 1.0], [0.0, 1.0], [torch.nan, -0.0]:
    for dtype in torch.float32, torch.bfloat16, torch.float64:
        (torch.tensor(values, dtype=dtype).to(DEVICE) * 1).sum()
"""


def test_the_sign_of_a_zero_is_the_cpus(train, config, dump, tmp_path):
    found = []
    for device in "cpu", "testdev":
        where = {"enable": True, "trans_flag": True, "stat_calc_mode": "device"}
        settings = config(where, saved_data="statistic", path=str(tmp_path / device))
        assert train(on_device(ZEROS.replace("DEVICE", repr(device))), settings).status == 0
        table = rows(tmp_path / device)
        found.append(
            {
                key: (row["Max Value"], row["Min Value"])
                for key, row in table.items()
                if "mul" in key[1] or "sum" in key[1]
            }
        )
    assert len(found[0]) > 60
    assert {"-0", "0"} <= {value for pair in found[0].values() for value in pair}
    assert found[0] == found[1]


# --- costs ------------------------------------------------------------------------------------------------------------


def test_no_operator_waits_for_the_device(train, config):
    source = (
        NETWORKS
        + """
net, batch = transformer("testdev", dropout=0.1)
optimizer = torch.optim.AdamW(net.parameters())
step(net, batch, optimizer)
torch.testdev.synchronize()
testdev.reset_counters()
for _ in range(2):
    step(net, batch, optimizer)
show(testdev.counters()["waits"])
"""
    )
    for saved_data in "tensor", "statistic":
        run = train(on_device(source), config(saved_data=saved_data, statistic_category=["max", "l2norm"]))
        assert run.status == 0, run.stderr
        assert run.stdout == "[0]\n"
        assert "skipped" not in run.stderr


# --- bad surroundings: the training goes on, with its own results ----------------------------------------------------

SURROUNDINGS = {
    "no memory for copies": "testdev.set_limit(testdev.counters()['reserved_bytes'])",
    "no events": "testdev.set_events(False)",
    "a forked child": "os.waitpid(os.fork() or os._exit(0), 0)",
}
LOOP = """
net = nn.Linear(8, 8).to("testdev")
x = torch.ones(4, 8, device="testdev")
for step in range(3):
    loss = net(x).square().mean()
    loss.backward()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.sub_(parameter.grad)
            parameter.grad = None
    if step == 1:
        {trouble}
show(loss.item())
"""


@pytest.mark.parametrize("trouble", SURROUNDINGS.values(), ids=list(SURROUNDINGS))
@pytest.mark.parametrize("saved_data", ["tensor", "statistic"])
def test_the_training_goes_on(trouble, saved_data, train, config):
    source = on_device(LOOP.format(trouble=trouble), "shuffled")
    bare = train(source)
    assert bare.status == 0, bare.stderr
    run = train(source, config(saved_data=saved_data))
    assert run.status == 0, run.stderr
    assert run.stdout == bare.stdout


def test_a_device_that_is_lost_gives_the_users_error_and_what_was_recorded_before(train, config, dump):
    source = on_device(LOOP.format(trouble="testdev.lose()"), "shuffled")
    bare = train(source)
    assert "testdev: device 0 is lost" in bare.stderr
    run = train(source, config(saved_data="tensor"))
    assert run.status == bare.status == 1
    assert "testdev: device 0 is lost" in run.stderr
    assert any(line.startswith("sonde: recorded ") for line in run.sonde_lines)
    assert len(list(dump.rglob("*.npy"))) > 10


def test_two_devices_in_one_operator_give_the_users_error(train, config):
    source = on_device("torch.ones(3, device='testdev:0') + torch.ones(3, device='testdev:1')")
    run = train(source, config(saved_data="tensor"))
    assert run.status == 1
    assert "Expected all tensors to be on the same device" in run.stderr


def test_both_devices_and_pinned_copies_between_them_and_the_host_are_recorded(train, config, dump):
    source = on_device(
        """
        first, second = nn.Linear(4, 4).to("testdev:0"), nn.Linear(4, 2).to("testdev:1")
        x = torch.arange(8.0).reshape(2, 4).pin_memory().to("testdev:0", non_blocking=True)
        y = second(first(x).to("testdev:1"))
        y.sum().backward()
        show(y.to("cpu").tolist(), first.weight.grad.tolist())
        """,
        "shuffled",
    )
    bare, run = train(source), train(source, config(saved_data="tensor"))
    assert bare.status == run.status == 0, run.stderr
    assert run.stdout == bare.stdout
    assert "skipped" not in run.stderr
    found = all_tensors(dump)
    inputs = [array for (_, name, *slot), array in found.items() if "linear" in name and slot == ["input", 0]]
    assert any(np.array_equal(array, np.arange(8, dtype=np.float32).reshape(2, 4)) for array in inputs)
