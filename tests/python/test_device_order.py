"""Sonde's reads on the test device where the program makes no order: writes that PyTorch does not show, streams that
nobody joins, copies to the host that nobody has waited for."""

import json

import dumps
import numpy as np
import pytest
from device_programs import on_device

import sonde

# As a kernel of Triton does, which PyTorch does not show. For the larger tensors there is no copy on the device.
UNSEEN = """
def overwritten(size):
    x = torch.arange(size, dtype=torch.float32).to("testdev") * 2
    torch.autograd._enable_record_function(False)
    x.data.fill_(50.0)
    torch.autograd._enable_record_function(True)
    return x[:3] * 1

show(overwritten(1000).tolist(), overwritten(17_000_000).tolist())
"""


@pytest.mark.parametrize("schedule", ["main_last", "others_last"])
def test_a_write_that_nobody_sees_comes_after_the_copy(schedule, train, config, dump):
    run = train(on_device(UNSEEN, schedule), config(saved_data="tensor", dump_mode=1, kernels=["mul"]))
    assert run.stdout == "[[50.0, 50.0, 50.0], [50.0, 50.0, 50.0]]\n", run.stderr
    found = dumps.tensors(dump)
    for number, size in ((0, 1000), (2, 17_000_000)):
        assert np.array_equal(found[f"Default_mul-op{number}", "output", 0], np.arange(size, dtype=np.float32) * 2)


# Elements in another order than that of the file, beyond the bytes that may be copied on the device at once.
TURNED = """
x = torch.arange(17_000_000, dtype=torch.float32).to("testdev").reshape(4250, 4000)
testdev.synchronize()
testdev.reset_counters()
before = testdev.counters()["allocated_bytes"]
y = x.t() * 2
torch.autograd._enable_record_function(False)
y.data.fill_(50.0)
torch.autograd._enable_record_function(True)
show(testdev.counters()["peak_bytes"] - before)
"""


@pytest.mark.parametrize("schedule", ["main_last", "others_last"])
def test_a_large_tensor_in_another_order_is_copied_in_pieces(schedule, train, config, dump):
    chosen = {"dump_mode": 1, "kernels": ["mul"], "input_output": 2}
    run = train(on_device(TURNED, schedule), config(saved_data="tensor", **chosen))
    assert run.status == 0, run.stderr
    assert json.loads(run.stdout)[0] <= 17_000_000 * 4 + (8 << 20)
    expected = np.arange(17_000_000, dtype=np.float32).reshape(4250, 4000).T * 2
    assert np.array_equal(dumps.tensors(dump)["Default_mul-op0", "output", 0], expected)


# More than may be copied on the device at once; then one more when these have been fetched.
STAGED = """
def staged(number):
    before = testdev.counters()["stream_waits"]
    x = torch.full((2 << 20,), float(number), device="testdev")
    return testdev.counters()["stream_waits"] - before

waits = [staged(number) for number in range(12)]
testdev.synchronize()
torch.zeros(1, device="testdev")
show(waits, staged(12), testdev.counters()["reserved_bytes"])
"""


def test_the_bytes_that_wait_on_the_device_are_bounded(train, config, dump):
    chosen = {"dump_mode": 1, "kernels": ["full"], "input_output": 2}
    run = train(on_device(STAGED, "last"), config(saved_data="tensor", **chosen))
    waits, later, reserved = json.loads(run.stdout)
    assert waits == [1] * 8 + [2] * 4  # a tensor that is not copied on the device makes the program's stream wait, too
    assert later == 1
    assert reserved <= (64 << 20) + 3 * (8 << 20)
    assert len(dumps.tensors(dump)) == 13


@pytest.mark.parametrize("schedule", ["main_last", "others_last"])
def test_an_input_that_the_operator_writes_has_the_value_from_before(schedule, train, config, dump):
    source = on_device('x = torch.full((4,), 3.0, device="testdev")\nx.mul_(2)', schedule)
    assert train(source, config(saved_data="tensor")).status == 0
    found = dumps.tensors(dump)
    assert found["Default_mul_-op0", "input", 0].tolist() == [3.0] * 4
    assert found["Default_mul_-op0", "output", 0].tolist() == [6.0] * 4


# Each way to copy to the host without waiting; and views of what has not come.
TO_THE_HOST = """
x = torch.arange(6, device="testdev", dtype=torch.float32).reshape(2, 3) * 2
pinned = torch.zeros(2, 3).pin_memory()
pinned.copy_(x, non_blocking=True)
turned = x.t().to("cpu", non_blocking=True)
wider = x.to("cpu", torch.float64, non_blocking=True)
first = turned[0]
torch.testdev.synchronize()
show((pinned + 1).tolist(), (turned + 2).tolist(), (wider + 3).tolist(), (first + 4).tolist())
"""


@pytest.mark.parametrize("kernels", [[], ["select", "add"]], ids=["everything", "selected"])
def test_a_copy_to_the_host_is_read_where_its_elements_are(kernels, train, config, dump):
    source, chosen = on_device(TO_THE_HOST), {"dump_mode": int(bool(kernels)), "kernels": kernels}
    bare, run = train(source), train(source, config(saved_data="tensor", **chosen))
    assert (run.status, run.stdout) == (0, bare.stdout), run.stderr
    x = np.arange(6, dtype=np.float32).reshape(2, 3) * 2
    found = dumps.tensors(dump)
    if not kernels:
        assert np.array_equal(found["Default_copy_-op0", "output", 0], x)
        assert np.array_equal(found["Default_to-op0", "output", 0], x.T)
    for number, value in enumerate([x, x.T, x, x.T[0]]):
        assert np.array_equal(found[f"Default_add-op{number}", "input", 0], value)
    skipped = {
        (tensor.op.op_name, tensor.side): tensor.skipped
        for tensor in sonde.open(dump).tensors
        if "copy" in tensor.skipped
    }
    late = [("Default/select-op0", "input"), ("Default/select-op0", "output"), ("Default/to-op1", "output")]
    assert sorted(skipped) == late
    assert set(skipped.values()) == {"a copy from a device, not yet complete"}


# Each stream has a table of statistics; nothing in the program orders the streams after the multiplications. At the end
# of the program the test device would wait for them.
STREAMS = """
import sonde
x = torch.arange(1000, device="testdev", dtype=torch.float32)
streams = [torch.Stream("testdev") for _ in range(2)]
kept = [x * 3]
for factor, stream in enumerate(streams, 4):
    stream.wait_stream(torch.accelerator.current_stream())
    with on(stream):
        kept.append(x * factor)
sonde.stop()
"""


@pytest.mark.parametrize("schedule", ["main_last", "others_last", "last"])
@pytest.mark.parametrize("saved_data", ["tensor", "statistic"])
def test_streams_that_nobody_joins_are_read_each_in_its_order(saved_data, schedule, train, config, dump):
    settings = config({"enable": True, "trans_flag": True, "stat_calc_mode": "device"}, saved_data=saved_data)
    assert train(on_device(STREAMS, schedule), settings).status == 0
    if saved_data == "tensor":
        found = dumps.tensors(dump)
        largest = [found[f"Default_mul-op{number}", "output", 0].max() for number in range(3)]
    else:
        rows = {(row["Op Name"], row["IO"]): row for row in dumps.statistics(dump)}
        largest = [float(rows[f"Default/mul-op{number}", "output"]["Max Value"]) for number in range(3)]
    assert largest == [999 * 3, 999 * 4, 999 * 5]


# --- a program that ends at once has on the disk what it was promised -------------------------------------------------

AT_ONCE = {
    "op_debug_mode 4": "try:\n    y @ x\nexcept RuntimeError:\n    os._exit(3)",
    "ring": "torch.relu(y)\nsonde.write_ring()\nos._exit(3)",
}


@pytest.mark.parametrize("promised", AT_ONCE)
def test_a_program_that_ends_at_once_has_what_it_was_promised(promised, train, config, dump):
    source = f"import sonde\nx = torch.ones(2, 3, device='testdev')\ny = x * 2\n{AT_ONCE[promised]}"
    more = {"op_debug_mode": 4} if promised != "ring" else {}
    settings = config(sonde_settings=None if more else {"ring": 1}, saved_data="tensor", **more)
    run = train(on_device(source), settings)
    assert run.status == 3, run.stderr
    name = "relu" if promised == "ring" else "matmul"
    (found,) = dump.rglob(f"*{name}-op0*.input.0.*.npy")
    assert np.load(found).tolist() == [[2.0] * 3] * 2


# --- when results are fetched, and who waits --------------------------------------------------------------------------

FETCHES = """
import sonde
net = nn.Linear(4, 4).to("testdev")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.ones(2, 4, device="testdev")


def copies(call, *arguments):
    before = testdev.counters()["copies_to_host"]
    call(*arguments)
    return testdev.counters()["copies_to_host"] - before


net(x).sum().backward()
found = [copies(optimizer.step)]
bare = nn.Linear(4, 4).to("testdev")
bare(x)
found.append(copies(bare, x))
found.append(copies(sonde.dump_stop))
show(found)
"""


def test_statistics_are_fetched_once_where_a_step_or_the_recording_ends(train, config):
    where = {"enable": True, "trans_flag": True, "stat_calc_mode": "device"}
    run = train(on_device(FETCHES), config(where, saved_data="statistic"))
    assert run.stdout == "[[1, 1, 1]]\n", run.stderr


ARRIVES = """
import pathlib, time
dump = pathlib.Path(os.environ["DUMP"])
nn.Linear(3, 3).to("testdev")(torch.ones(3, device="testdev"))
for turn in range(1000):
    torch.zeros(1)
    if list(dump.rglob("*linear*.npy")):
        break
    time.sleep(0.01)
show(turn < 999)
"""


def test_tensors_that_have_arrived_are_written_while_the_program_goes_on(train, config, dump):
    run = train(on_device(ARRIVES, "eager"), config(saved_data="tensor"), DUMP=dump)
    assert run.stdout == "[true]\n", run.stderr


# torch.tensor() holds the GIL where it calls detach_(). The second one waits until the device has read the first, and
# that waits for the function.
GIL = """
import warnings
warnings.simplefilter("ignore")
called = []
kept = []
for value in 2, 3:
    y = torch.ones(300_000, device="testdev") * value
    testdev.call(lambda: called.append(1))
    kept.append(torch.tensor(y))
torch.testdev.synchronize()
show(len(called))
"""


def test_who_waits_for_a_device_does_not_hold_the_gil(train, config, dump):
    settings = config(saved_data="tensor", sonde_settings={"budget_bytes": 1 << 20}, dump_mode=1, kernels=["detach_"])
    run = train(on_device(GIL), settings)
    assert run.stdout == "[2]\n", run.stderr
    assert {float(array.max()) for array in dumps.tensors(dump).values()} == {2.0, 3.0}


THREADS = """
import threading


def work(first):
    for value in range(first, first + 100):
        torch.full((64,), float(value), device="testdev") * 2


threads = [threading.Thread(target=work, args=(number * 100,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("saved_data", ["tensor", "statistic"])
def test_threads_that_share_a_device_lose_nothing(saved_data, train, config, dump):
    where = {"enable": True, "trans_flag": True, "stat_calc_mode": "device"}
    chosen = {"dump_mode": 1, "kernels": ["mul"], "input_output": 2}
    run = train(on_device(THREADS, "eager"), config(where, saved_data=saved_data, **chosen))
    assert (run.status, run.stdout) == (0, ""), run.stderr
    if saved_data == "tensor":
        values = list(dumps.tensors(dump).values())
        assert all((array == array[0]).all() for array in values)
        found = sorted(float(array[0]) for array in values)
    else:
        found = sorted(float(row["Max Value"]) for row in dumps.statistics(dump))
    assert found == [value * 2.0 for value in range(400)]
