"""Recording on a CUDA GPU: the bits of a run without Sonde, and statistics with the bits of the CPU's kernel.

Left out where PyTorch finds no GPU. `torch.cuda._sleep` makes streams late, so that a missing wait is a wrong value.
"""

import itertools
import json
import math
import sys

import dumps
import numpy as np
import pytest
import torch
from processes import CLI, run_in

import sonde

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no CUDA GPU")

DEVICE = "cuda"
CATEGORIES = [
    "max", "min", "avg", "count", "negative zero count", "positive zero count", "zero count", "negative inf count",
    "positive inf count", "nan count", "l2norm",
]  # fmt: skip

BEGIN = """
import hashlib, json, os, threading, time, warnings
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch
from torch import nn
warnings.simplefilter("ignore")
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(0)


def show(*values):
    print(json.dumps(values), flush=True)


def digest(values):
    return hashlib.sha256(b"".join(value.detach().cpu().float().numpy().tobytes() for value in values)).hexdigest()


def late():
    torch.cuda._sleep(20_000_000)  # about 10 ms of the current stream


"""


def program(source):
    return (BEGIN + source).replace("DEVICE", repr(DEVICE))


def kernel_is_used(run):
    """A run whose statistics the kernel took, without anything left out, says nothing but its closing line."""
    assert run.status == 0, run.stderr
    lines = [line for line in run.sonde_lines if "is not a tested version" not in line]
    assert len(lines) == 1, run.stderr
    assert "skipped" not in lines[0]


def tensors_of(dump):
    """{(step, graph, operator, side, slot): tensor}, without complex numbers and uninitialised memory."""
    return {
        (tensor.step, tensor.graph, tensor.op.op_name, tensor.side, tensor.slot): tensor
        for tensor in sonde.open(dump).tensors
        if tensor.has_statistics
    }


def numbers(statistics):
    """All numbers of a row: those in double precision as bytes, then the counts."""
    reals = [statistics.max, statistics.min, statistics.avg, statistics.l2norm]
    counts = [statistics.count, statistics.nan_count, statistics.positive_inf_count, statistics.negative_inf_count]
    counts += [statistics.positive_count, statistics.negative_count, statistics.zero_count]
    return np.array([math.nan if value is None else value for value in reals]).tobytes(), counts


# --- trainings --------------------------------------------------------------------------------------------------------

TRAINING = """
class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.conv2, self.norm2 = nn.Conv2d(32, 64, 3, stride=2), nn.BatchNorm2d(64)
        self.pool, self.drop, self.fc = nn.AvgPool2d(3), nn.Dropout(0.2), nn.Linear(64 * 5 * 5, 10)

    def forward(self, x):
        x = torch.relu_(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.fc(self.drop(self.pool(x).flatten(1)))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(64, 100)

    def forward(self, x):
        return self.head(self.encoder(self.embedding(x))).flatten(0, 1)


if NAME == "convolution":
    net, batch = Convolution().to(DEVICE), (torch.randn(16, 3, 32, 32).to(DEVICE), torch.randint(10, (16,)).to(DEVICE))
else:
    net = Transformer().to(DEVICE)
    batch = torch.randint(100, (8, 33)).to(DEVICE), torch.randint(100, (8 * 33,)).to(DEVICE)
options = {"fused": True} if OPTIMIZER == "fused" else {"foreach": True}
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, **options)
for step in range(3):
    optimizer.zero_grad()
    with torch.autocast(DEVICE, torch.bfloat16, enabled=AUTOCAST):
        loss = nn.functional.cross_entropy(net(batch[0]).float(), batch[1])
    loss.backward()
    gradients = digest([parameter.grad for parameter in net.parameters()])
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    show(loss.item(), gradients, digest(net.state_dict().values()))
"""

TRAININGS = [
    ("convolution", "fused", False),
    ("transformer", "foreach", False),
    ("transformer", "fused", True),
]


@pytest.fixture(scope="module", params=TRAININGS, ids=["-".join(map(str, one)) for one in TRAININGS])
def trained(request, tmp_path_factory):
    """{"bare", "statistic", "full"}: the same training without Sonde and with."""
    name, optimizer, autocast = request.param
    source = TRAINING.replace("NAME", repr(name)).replace("OPTIMIZER", repr(optimizer))
    source = program(source.replace("AUTOCAST", repr(autocast)))
    directory = tmp_path_factory.mktemp("cuda", numbered=True)
    (directory / "train.py").write_text(source)
    runs = {"bare": run_in(directory, None, sys.executable, "train.py")}
    for saved_data in "statistic", "full":
        dump = directory / saved_data
        common = {
            "dump_mode": 0, "path": str(dump), "net_name": "Net", "iteration": "all", "saved_data": saved_data,
            "input_output": 0, "kernels": [], "support_device": [0], "statistic_category": CATEGORIES,
        }  # fmt: skip
        settings = {"common_dump_settings": common, "e2e_dump_settings": {"enable": True, "trans_flag": True}}
        (directory / f"{saved_data}.json").write_text(json.dumps(settings))
        configuration = {"MINDSPORE_DUMP_CONFIG": directory / f"{saved_data}.json"}
        runs[saved_data] = run_in(directory, dump, sys.executable, "train.py", **configuration)
    return runs


def test_a_training_has_the_bits_of_one_without_sonde(trained):
    assert trained["bare"].status == 0, trained["bare"].stderr
    assert trained["bare"].stderr == ""
    for saved_data in "statistic", "full":
        kernel_is_used(trained[saved_data])
        assert trained[saved_data].stdout == trained["bare"].stdout


def in_every_order(array, kind, directory):
    """The statistics of the CPU's kernel of an array whose elements lie in memory in another order."""
    directory.mkdir(exist_ok=True)
    for number, order in enumerate(itertools.permutations(range(array.ndim))):
        path = directory / f"mul.a-op{number}.0.0.1795649279940306.output.0.DefaultFormat.{kind}.npy"
        turned = array.transpose(order).copy()
        if kind == "BFloat16":  # the two bytes of memory
            turned = (turned.view(np.uint32) >> 16).astype(np.uint16)
        np.save(path, turned)
        if kind == "BFloat16":
            path.write_bytes(path.read_bytes().replace(b"<u2", b"<E2", 1))
    return [numbers(tensor.statistics) for tensor in sonde.open(directory).tensors]


def test_every_row_has_the_bits_of_the_cpus_kernel(trained, tmp_path):
    """The elements of the other run are equal, since the training has the same bits."""
    on_device, on_host = tensors_of(trained["statistic"].dump), tensors_of(trained["full"].dump)
    assert len(on_host) > 500
    kinds = {"float32": "Float32", "bfloat16": "BFloat16"}
    assert set(on_device) == set(on_host)
    equal, by_order, different = 0, 0, []
    for number, (key, tensor) in enumerate(on_host.items()):
        found, expected = numbers(on_device[key].statistics), numbers(tensor.statistics)
        if found == expected:
            equal += 1
        elif (found[0][:16], found[1]) != (expected[0][:16], expected[1]):
            different.append((key, on_device[key].statistics, tensor.statistics))
        elif found in in_every_order(np.load(tensor.tensor_file), kinds[tensor.dtype], tmp_path / str(number)):
            by_order += 1
        else:
            different.append((key, on_device[key].statistics, tensor.statistics))
    print(f"\n{equal} equal, {by_order} in the order of memory")
    assert not different, different[:3]
    assert equal > 10 * by_order


# --- every type and layout -------------------------------------------------------------------------------------------

TYPES = """
TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2,
         torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.int8, torch.int16, torch.int32,
         torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64,
         torch.complex128, torch.complex32]


def of(dtype, *shape):
    # any bits: infinities, NaN and denormal numbers too
    count = torch.Size(shape).numel()
    if dtype == torch.bool:
        return torch.randint(2, shape).bool()
    return torch.randint(256, (count * dtype.itemsize,), dtype=torch.uint8).view(dtype).reshape(shape)


for dtype in TYPES:
    for shape in (1,), (8191,), (8193,), (37, 129), (513, 300), (9, 65, 33), (2, 3, 40, 50):
        y = of(dtype, *shape).to(DEVICE)
        y.clone()
        y[1:].clone()
        y[..., ::2].clone()
        y.transpose(0, -1).clone()
        y.expand(3, *shape).clone()
        y[:0].clone()
        y.flatten()[0].clone()
        if y.dim() == 3:
            y.permute(2, 0, 1).clone()
        if y.dim() == 4:
            y.contiguous(memory_format=torch.channels_last).clone()
        if dtype.is_complex:
            y.conj().clone()
        if dtype.is_floating_point and dtype.itemsize > 1:
            torch._neg_view(y).clone()
"""


def same_bits(one, other):
    """Of all elements but NaN: a GPU that negates a NaN may change its bits."""
    if one.dtype.kind == "c":
        one, other = (array.view(array.real.dtype) for array in (np.atleast_1d(one), np.atleast_1d(other)))
    if one.dtype.kind == "f":
        one, other = (np.where(np.isnan(array), np.float64("nan").astype(array.dtype), array) for array in (one, other))
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("saved_data", ["statistic", "tensor"])
def test_every_type_and_layout_is_that_of_the_cpu(saved_data, train, config, tmp_path):
    found = []
    for device in "cpu", DEVICE:
        chosen = {"dump_mode": 1, "kernels": ["clone"], "statistic_category": CATEGORIES}
        settings = config(saved_data=saved_data, path=str(tmp_path / device), **chosen)
        run = train((BEGIN + TYPES).replace("DEVICE", repr(device)), settings)
        assert run.status == 0, run.stderr
        assert "cannot use" not in run.stderr
        found.append(tensors_of(tmp_path / device) if saved_data == "statistic" else dumps.tensors(tmp_path / device))
    expected, on_device = found
    assert len(expected) > 1500
    assert set(expected) == set(on_device)
    if saved_data == "tensor":
        different = [key for key in expected if not same_bits(expected[key], on_device[key])]
    else:
        different = [
            (key, expected[key].dtype, expected[key].shape, expected[key].statistics, on_device[key].statistics)
            for key in expected
            if numbers(expected[key].statistics) != numbers(on_device[key].statistics)
        ]
    assert different == []


# As a kernel of Triton does, which PyTorch does not show. For the largest there is no copy on the device.
HUGE = """
def unseen(x):
    torch.autograd._enable_record_function(False)
    x.data.fill_(50.0)
    torch.autograd._enable_record_function(True)


for size in 1000, 17_000_000, 50_000_000:
    x = torch.arange(size, dtype=torch.float32, device=DEVICE)
    late()
    y = x * 2
    unseen(y)
    z = x.reshape(250, size // 250)[:, :-1].t() * 2
    unseen(z)
    show(y[:3].tolist(), z[0, :3].tolist())
"""


def test_large_tensors_have_the_values_that_they_had(train, config, dump):
    chosen = {"dump_mode": 1, "kernels": ["mul"], "input_output": 2}
    run = train(program(HUGE), config(saved_data="tensor", **chosen))
    assert run.stdout == 3 * "[[50.0, 50.0, 50.0], [50.0, 50.0, 50.0]]\n", run.stderr
    kernel_is_used(run)
    found = dumps.tensors(dump)
    for number, size in enumerate((1000, 17_000_000, 50_000_000)):
        expected = np.arange(size, dtype=np.float32) * 2
        assert np.array_equal(found[f"Default_mul-op{2 * number}", "output", 0], expected)
        turned = expected.reshape(250, size // 250)[:, :-1].T
        assert np.array_equal(found[f"Default_mul-op{2 * number + 1}", "output", 0], turned)


# --- faults ----------------------------------------------------------------------------------------------------------

FAULTY = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 4)
        self.offset = 10.0

    def forward(self, x):
        y = torch.relu(self.first(x))
        z = torch.sqrt(y + self.offset)  # FAULT forward
        w = torch.sqrt(z * self.scale)  # FAULT backward
        return self.second(w)


net, x = Net().to(DEVICE), torch.randn(8, 16).to(DEVICE)
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
for step in range(4):
    net.offset = -100.0 if (step, "WHERE") == (2, "forward") else 10.0
    net.scale = 0.0 if (step, "WHERE") == (2, "backward") else 1.0
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()
show("ended")
"""


def line_of(source, text):
    (line,) = [number for number, one in enumerate(source.splitlines(), 1) if text in one]
    return line


@pytest.mark.parametrize(
    "fault", list(itertools.product(["forward", "backward"], ["tensor", "statistic"])), ids="-".join
)
def test_first_bad_names_the_operator_the_line_and_the_step(fault, train, config, dump):
    where, saved_data = fault
    source = program(FAULTY.replace("WHERE", where))
    run = train(source, config(saved_data=saved_data))
    kernel_is_used(run)
    report = run_in(dump.parent, dump, CLI, "first-bad", dump, "--json")
    assert report.status == 1, report.stdout + report.stderr
    first = json.loads(report.stdout)["first"]
    assert first["step"] == 2
    assert first["op_type"] in (("sqrt",) if where == "forward" else ("sqrt", "div", "mul"))
    assert first["code"]["source_line"] == line_of(source, f"FAULT {where}")


MODES = """
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).to(DEVICE)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.ones(4, 8, device=DEVICE)
for step in range(3):
    optimizer.zero_grad()
    loss = net(x * (1e38 if step == 1 else 1)).square().mean()
    loss.backward()
    if step != 1:
        optimizer.step()
    show(loss.item())
try:
    net(torch.ones(2, 5, device=DEVICE))
except RuntimeError as error:
    assert "cannot be multiplied" in str(error), error
"""


@pytest.mark.parametrize("saved_data", ["tensor", "statistic"])
@pytest.mark.parametrize("mode", [3, 4])
def test_overflows_and_exceptions_are_found(mode, saved_data, train, config, dump):
    bare = train(program(MODES))
    run = train(program(MODES), config(saved_data=saved_data, op_debug_mode=mode))
    assert (run.status, run.stdout) == (0, bare.stdout), run.stderr
    assert "cannot use" not in run.stderr
    found = {tensor.op.op_type for tensor in sonde.open(dump).tensors}
    assert {"linear"} <= found
    assert ("mean" in found) == (mode == 3)


# --- streams, graphs, memory ------------------------------------------------------------------------------------------

STREAMS = """
import sonde
x = torch.arange(100_000, device=DEVICE, dtype=torch.float32)
streams = [torch.cuda.Stream() for _ in range(40)]
kept = [x * 3]
for factor, stream in enumerate(streams, 4):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(1_000_000)
        kept.append(x * factor)
sonde.stop()
"""


@pytest.mark.parametrize("saved_data", ["tensor", "statistic"])
def test_streams_that_nobody_joins_are_read_each_in_its_order(saved_data, train, config, dump):
    chosen = {"dump_mode": 1, "kernels": ["mul"], "input_output": 2}
    kernel_is_used(train(program(STREAMS), config(saved_data=saved_data, **chosen)))
    largest = [
        tensor.statistics.max
        for tensor in sonde.open(dump).tensors
        if tensor.side == "output" and tensor.op.op_type == "mul"
    ]
    assert largest == [99_999.0 * factor for factor in range(3, 44)]


TO_THE_HOST = """
x = torch.arange(6, device=DEVICE, dtype=torch.float32).reshape(2, 3)
late()
x = x * 2
pinned = torch.zeros(2, 3).pin_memory()
pinned.copy_(x, non_blocking=True)
turned = x.t().to("cpu", non_blocking=True)
wider = x.to("cpu", torch.float64, non_blocking=True)
first = turned[0]
torch.cuda.synchronize()
show((pinned + 1).tolist(), (turned + 2).tolist(), (wider + 3).tolist(), (first + 4).tolist())
back = (torch.ones(1000).pin_memory() * 7).pin_memory()
late()
there = back.to(DEVICE, non_blocking=True) * 3
show(there.sum().item())
"""


def test_a_copy_to_the_host_is_read_where_its_elements_are(train, config, dump):
    bare, run = train(program(TO_THE_HOST)), train(program(TO_THE_HOST), config(saved_data="tensor"))
    assert (run.status, run.stdout) == (0, bare.stdout), run.stderr
    x = np.arange(6, dtype=np.float32).reshape(2, 3) * 2
    found = dumps.tensors(dump)
    assert np.array_equal(found["Default_copy_-op0", "output", 0], x)
    for number, value in enumerate([x, x.T, x, x.T[0]]):
        assert np.array_equal(found[f"Default_add-op{number}", "input", 0], value)
    assert found["Default_mul-op2", "output", 0].tolist() == [21.0] * 1000


CAPTURE = """
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).to(DEVICE)
optimizer = torch.optim.AdamW(net.parameters(), capturable=True, fused=True)
x = torch.randn(64, 64).to(DEVICE)


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
going = True


def beside():
    # a thread of the program that has nothing to do with the graph
    while going:
        torch.ones(10).add_(1)
        time.sleep(0.0005)


thread = threading.Thread(target=beside, daemon=True)
thread.start()
late()
kept = [x * factor for factor in range(5)]
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, capture_error_mode="MODE"):
    loss = step()
going = False
thread.join()
for _ in range(4):
    graph.replay()
    show(loss.item(), digest(net.parameters()))
y = net(x)
show(y.sum().item())
called = torch.cuda.make_graphed_callables(nn.Linear(8, 8).to(DEVICE), (torch.ones(2, 8, device=DEVICE),))
called(torch.ones(2, 8, device=DEVICE)).sum().backward()
show(called.weight.grad.sum().item())
"""


@pytest.mark.parametrize("mode", ["global", "thread_local"])
@pytest.mark.parametrize("saved_data", ["tensor", "statistic"])
def test_a_graph_that_is_captured_is_refused_by_name_and_replays_the_same_bits(saved_data, mode, train, config, dump):
    source = program(CAPTURE.replace("MODE", mode))
    bare, run = train(source), train(source, config(saved_data=saved_data))
    assert bare.status == 0, bare.stderr
    assert (run.status, run.stdout) == (0, bare.stdout), run.stderr
    assert "do not record then" not in run.stderr
    reasons = {tensor.skipped for tensor in sonde.open(dump).tensors} - {""}
    assert reasons - {"uninitialised memory"} == {"a graph of the device is being captured"}
    after = [tensor for tensor in sonde.open(dump).tensors if not tensor.skipped and tensor.op.op_type == "linear"]
    assert len(after) > 20


COMPILED = """
net = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64)).to(DEVICE)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
compiled = torch.compile(net, mode="MODE")
x = torch.randn(64, 64).to(DEVICE)
for _ in range(6):
    torch.compiler.cudagraph_mark_step_begin()
    optimizer.zero_grad(set_to_none=True)
    loss = compiled(x).square().mean()
    loss.backward()
    optimizer.step()
    show(loss.item(), digest(net.parameters()))
"""


@pytest.mark.cold
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_model_computes_the_same_bits(mode, train, config, tmp_path):
    source = program(COMPILED.replace("MODE", mode))
    bare = train(source)
    assert bare.status == 0, bare.stderr
    for saved_data in "statistic", "tensor":
        run = train(source, config(saved_data=saved_data, path=str(tmp_path / saved_data)))
        assert (run.status, run.stdout) == (0, bare.stdout), run.stderr
        assert "compiled graphs on cuda are recorded as a whole" in run.stderr
        types = {tensor.op.op_type for tensor in sonde.open(tmp_path / saved_data).tensors if not tensor.skipped}
        assert "mean" in types


# The program may have what it needs by itself and EXTRA bytes more. Then it asks for more than there is.
MEMORY = """
net = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(inplace=True), nn.Linear(1024, 1024)).to(DEVICE)
x = torch.ones(512, 1024, device=DEVICE)
total = torch.cuda.get_device_properties(0).total_memory
if LIMIT:
    torch.cuda.set_per_process_memory_fraction((LIMIT + EXTRA) / total)
for step in range(4):
    loss = net(x).square().mean()
    loss.backward()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.sub_(parameter.grad, alpha=0.1)
            parameter.grad = None
    show(loss.item())
try:
    torch.empty(1 << 42, device=DEVICE)
    show("it has so much memory")
except torch.OutOfMemoryError:
    show("out of memory")
show(digest(net.parameters()))
"""


@pytest.mark.parametrize("extra", [0, 4 << 20])
@pytest.mark.parametrize("saved_data", ["tensor", "statistic"])
def test_the_training_goes_on_without_memory_for_sonde(saved_data, extra, train, config, dump):
    free = program(MEMORY.replace("LIMIT", "0").replace("EXTRA", "0") + "\nshow(torch.cuda.max_memory_reserved())")
    bare = train(free)
    assert bare.status == 0, bare.stderr
    *results, needed = bare.stdout.splitlines()
    limited = program(MEMORY.replace("LIMIT", str(json.loads(needed)[0])).replace("EXTRA", str(extra)))
    assert train(limited).stdout.splitlines() == results
    run = train(limited, config(saved_data=saved_data))
    assert (run.status, run.stdout.splitlines()) == (0, results), run.stderr
    assert "cannot use" not in run.stderr
    kept = [tensor for tensor in sonde.open(dump).tensors if tensor.has_statistics or tensor.tensor_file]
    assert len(kept) > 20


# --- names, waits, proof ----------------------------------------------------------------------------------------------

NAMES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.pool, self.fc = nn.Conv2d(1, 4, 3), nn.AvgPool2d(2), nn.Linear(36, 6)
        self.unused = nn.Linear(3, 3)

    def forward(self, x):
        y = torch.relu(self.conv(x))
        return self.fc(self.pool(y).flatten(1)) * 2


net = Net().to(DEVICE)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=True)
x = torch.randn(2, 1, 8, 8).to(DEVICE)
for _ in range(2):
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()
"""


def test_names_and_lines_are_the_cpus_also_in_the_backward_of_another_thread(train, config, tmp_path):
    found = []
    for device in "cpu", DEVICE:
        run = train((BEGIN + NAMES).replace("DEVICE", repr(device)), config(path=str(tmp_path / device)))
        assert run.status == 0, run.stderr
        listed = run_in(tmp_path, None, CLI, "ls", tmp_path / device, "--ops", "--jsonl")
        rows = [json.loads(line) for line in listed.stdout.splitlines()]
        places = "step", "op_name", "scope", "source_line", "function"
        found.append([tuple(row.get(place) for place in places) for row in rows if "op_name" in row])
    assert len(found[0]) > 50
    assert any("Gradients" in row[1] and row[3] for row in found[0])
    assert found[0] == found[1]


WAITS = """
net = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(20)]).to(DEVICE)
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
x = torch.ones(64, 64, device=DEVICE)


def step():
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()


for _ in range(3):
    step()
torch.cuda.synchronize()
begun = time.perf_counter()
torch.cuda._sleep(4_000_000_000)
step()
issued = time.perf_counter() - begun
torch.cuda.synchronize()
waited = time.perf_counter() - begun
torch.cuda.set_sync_debug_mode("error")
step()
show(issued, waited)
"""


@pytest.mark.parametrize("saved_data", ["tensor", "statistic"])
def test_no_operator_waits_for_the_device(saved_data, train, config):
    run = train(program(WAITS), config(saved_data=saved_data))
    kernel_is_used(run)
    issued, waited = json.loads(run.stdout)
    assert issued < waited / 2


LAUNCHES = """
from torch.profiler import ProfilerActivity, profile

weights = [nn.Parameter(torch.randn(64 + i, device=DEVICE)) for i in range(40)]
optimizer = torch.optim.AdamW(weights, lr=1e-3, fused=True)
for step in range(3):
    optimizer.zero_grad()
    sum((weight * weight).sum() for weight in weights).backward()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        optimizer.step()
        torch.cuda.synchronize()
    show(sum("sonde_statistics" in event.name for event in profiler.events()))
show(digest(weights))
"""


def test_the_tensors_of_an_operator_are_read_by_few_launches(train, config, dump):
    """After the first step, which makes the optimizer's state, two operators write 160 tensors; a launch takes 128."""
    bare = train(program(LAUNCHES))
    run = train(program(LAUNCHES), config(saved_data="statistic", statistic_category=CATEGORIES))
    kernel_is_used(run)
    _first, *launches, weights = run.stdout.splitlines()
    assert all(2 <= json.loads(count)[0] <= 10 for count in launches), launches
    assert weights == bare.stdout.splitlines()[-1]
    rows = [tensor for tensor in sonde.open(dump).tensors if tensor.op.op_name.endswith("_fused_adamw_-op0")]
    assert len(rows) == 3 * 360
    assert all(tensor.has_statistics for tensor in rows)


PROVED = """
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 4)).to(DEVICE)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**10)
for step in range(4):
    optimizer.zero_grad()
    with torch.autocast(DEVICE, torch.float16 if step % 2 == 0 else torch.bfloat16):
        y = net(torch.randn(4, 6).to(DEVICE) * (1e30 if step == 2 else 1))
        loss = y.float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def test_a_training_under_autocast_is_proved_identical(tmp_path):
    (tmp_path / "train.py").write_text(program(PROVED))
    command = [CLI, "run", "--prove", "--json", "--out", tmp_path / "dump", "--saved-data", "full", "--"]
    run = run_in(tmp_path, None, *command, sys.executable, "train.py", timeout=280)
    assert run.status == 0, run.stdout + run.stderr
    verdict = json.loads(run.stdout)
    assert verdict["verdict"] == "identical"
    assert {"output", "loss", "gradient", "parameter", "optimizer state"} <= set(verdict["compared"]["kinds"])


# Workers are forked, and have no device; a thread copies to pinned memory.
LOADED = """
from torch.utils.data import DataLoader, TensorDataset

net = nn.Linear(8, 4).to(DEVICE)
torch.ones(3, device=DEVICE) * 2
loader = DataLoader(TensorDataset(torch.randn(32, 8)), batch_size=8, num_workers=2, pin_memory=True)
for (batch,) in loader:
    loss = net(batch.to(DEVICE, non_blocking=True)).square().mean()
    loss.backward()
    show(loss.item())
"""


def test_a_data_loader_with_processes_and_pinned_memory(train, config):
    bare, run = train(program(LOADED)), train(program(LOADED), config(saved_data="tensor"))
    assert bare.status == 0, bare.stderr
    assert (run.status, run.stdout) == (0, bare.stdout), run.stderr
