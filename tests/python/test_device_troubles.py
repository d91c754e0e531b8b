"""Trouble on a device while Sonde records it: the training goes on with its own results, and the dump says why
something is missing."""

import json

import dumps
import pytest
from device_programs import SAYS_CAPTURES, on_device, without_captures

import sonde

NET = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(inplace=True), nn.Linear(64, 64)).to("testdev")
x = torch.ones(64, 64, device="testdev")


def step(between="pass"):
    loss = net(x).square().mean()
    exec(between)
    loss.backward()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.sub_(parameter.grad)
            parameter.grad = None
    return loss


"""


@pytest.fixture
def both(train, config):
    """both(source, saved_data): the program without and with Sonde; it must end alike."""

    def run(source, saved_data="tensor", schedule="shuffled", status=0):
        program = on_device(NET + source, schedule)
        bare, recorded = train(program), train(program, config(saved_data=saved_data))
        assert (bare.status, recorded.status) == (status, status), recorded.stderr
        assert recorded.stdout == bare.stdout
        return recorded

    return run


def reasons(dump):
    return {tensor.skipped for tensor in sonde.open(dump).tensors} - {""}


# Beyond what the training needs by itself: nothing for copies; for statistics the table of a stream.
@pytest.mark.parametrize(("saved_data", "more"), [("tensor", 0), ("statistic", 65536)])
def test_the_memory_of_the_training_comes_first(saved_data, more, both, train, dump):
    source = """
losses = [step() for _ in range(3)]
show([loss.item() for loss in losses])
"""
    bare = train(on_device(NET + source + "show(testdev.counters()['reserved_bytes'])", "last"))
    needed = json.loads(bare.stdout.splitlines()[1])[0]
    both(f"testdev.set_limit({needed + more})\n{source}", saved_data, "last")
    kept = [tensor for tensor in sonde.open(dump).tensors if tensor.has_statistics or tensor.tensor_file]
    assert len(kept) > 50
    allowed = {"statistics only: the device had no memory for a copy", "the device had no memory for its statistics"}
    assert reasons(dump) <= allowed


@pytest.mark.parametrize(
    ("saved_data", "reason"),
    [("tensor", "statistics only: no pinned memory"), ("statistic", "no pinned memory for its statistics")],
)
def test_a_host_without_pinned_memory_is_named(saved_data, reason, both, dump):
    # Larger than the pieces of pinned memory that Sonde already has.
    both(
        "testdev.set_pinned(False)\nshow(step().item(), (torch.ones(512, 512, device='testdev') * 2).sum().item())",
        saved_data,
    )
    assert reasons(dump) == {reason}


@pytest.mark.skipif(not SAYS_CAPTURES, reason="this PyTorch cannot say that a graph is captured")
def test_a_graph_that_is_captured_is_refused_by_name_and_the_recording_goes_on(both, dump):
    both(
        """
first = step()
with testdev.graph() as replay:
    y = net(x)
    y.mul_(2)
replay()
show(y.sum().item(), first.item(), step().item())
replay()
show(y.sum().item(), step().item())
""",
        schedule="others_last",
    )
    assert reasons(dump) == {"a graph of the device is being captured"}


def test_a_pytorch_that_does_not_show_captures_is_named_once(both):
    recorded = both("show(step().item(), step().item())")
    lines = recorded.stderr.count("cannot say whether a graph of a device is being captured")
    assert lines == (0 if SAYS_CAPTURES else 1)


@pytest.mark.parametrize(("saved_data", "lost"), [("tensor", 0), ("statistic", 2)])
def test_a_stream_that_the_program_destroys_loses_only_its_own_statistics(saved_data, lost, both, dump):
    both(
        """
show(step().item())
side = torch.Stream("testdev")
side.wait_stream(torch.accelerator.current_stream())
with on(side):
    y = x * 3
torch.accelerator.current_stream().wait_stream(side)
testdev.destroy_stream(side)
y.record_stream(torch.accelerator.current_stream())
show(y.sum().item(), step().item(), step().item())
""",
        saved_data,
    )
    without = [tensor for tensor in sonde.open(dump).tensors if tensor.skipped]
    assert len(without) == lost
    assert {tensor.skipped for tensor in without} <= {"the device failed before it had been read"}


@pytest.mark.parametrize("saved_data", ["tensor", "statistic"])
def test_a_device_that_is_lost_in_a_step_gives_the_users_error_and_what_was_read_before(saved_data, both, dump):
    recorded = both("show(step().item(), step().item())\nstep('testdev.lose()')", saved_data, status=1)
    assert "testdev: device 0 is lost" in recorded.stderr
    assert "RecordFunction" not in recorded.stderr  # PyTorch's warning of a callback that threw
    (line,) = without_captures(recorded.sonde_lines)
    assert line.startswith("sonde: recorded ")
    assert reasons(dump) == {"the device failed before it had been read"}
    assert sum(tensor.skipped == "" for tensor in sonde.open(dump).tensors) > 50  # of the first step


FORK = """
import sonde
x = torch.ones(3, device="testdev") * 2
pinned = torch.zeros(3).pin_memory()
pinned.copy_(x, non_blocking=True)
child = os.fork()
if child == 0:
    sonde.start(os.environ["OF_CHILD"])
    pinned + 1
    try:
        x * 3
    except RuntimeError:
        pass
    sonde.stop()
    os._exit(0)
show(os.waitpid(child, 0)[1], (x + 1).tolist())
"""


def test_a_forked_child_records_its_own_memory_and_names_the_devices(train, config, dump, tmp_path):
    of_child = config(saved_data="tensor", path=str(tmp_path / "child")).rename(tmp_path / "child.json")
    run = train(on_device(FORK), config(saved_data="tensor"), OF_CHILD=of_child)
    assert run.stdout == "[0, [3.0, 3.0, 3.0]]\n", run.stderr
    found = {
        (tensor.op.op_name, tensor.side, tensor.slot): tensor.skipped
        for tensor in sonde.open(tmp_path / "child").tensors
    }
    assert found["Default/add-op0", "input", 0] == found["Default/add-op0", "output", 0] == ""
    assert found["Default/mul-op0", "input", 0] == "in a forked child, which has no device"
    assert any("mul" in path.name for path in dump.rglob("*.npy"))


def test_the_tensors_inside_wrappers_are_read(both, dump):
    both("""
class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inside):
        made = torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype, device=inside.device)
        made.inside = inside
        return made

    @classmethod
    def __torch_dispatch__(cls, operator, types, arguments=(), more=None):
        return operator(*(a.inside if isinstance(a, cls) else a for a in arguments), **(more or {}))


show((Wrapped(x) + 1).sum().item())
show(torch.vmap(lambda row: row * 2)(x).sum().item())
z = torch.complex(x, x * 2)
show((z.conj() * z).real.sum().item(), z.conj().imag.sum().item())
""")
    inside = {t.op.op_name: t for t in sonde.open(dump).tensors if (t.side, t.slot) == ("input", 0)}
    for name in ("Default/add-Wrapped/add-op0", "Default/mul-vmap/mul-op0"):
        assert inside[name].skipped == "", name


KINDS = """
import warnings
warnings.simplefilter("ignore")
loss = step()  # what comes before is not part of a step
on, values = dict(device="testdev"), torch.tensor([1.5, 2.5], device="testdev")
made = [
    torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]], **on), values, (2, 2), check_invariants=False),
    torch.sparse_csr_tensor(torch.tensor([0, 1, 2], **on), torch.tensor([1, 0], **on), values),
    torch.nested.nested_tensor([values, values[:1]]),
    torch.nested.nested_tensor_from_jagged(values.reshape(2, 1), torch.tensor([0, 1, 2], **on)) * 2,
]
codes = torch.tensor([[1, 2], [3, 200]], dtype=torch.uint8, **on)
quantized = torch._make_per_tensor_quantized_tensor(codes * 1, 0.5, 3).detach()
codes.fill_(7)
show([str(one.layout) for one in made], quantized.is_quantized, loss.item())
"""


@pytest.mark.parametrize("saved_data", ["tensor", "statistic"])
def test_sparse_and_nested_tensors_are_named_and_quantised_ones_are_their_codes(saved_data, both, dump):
    both(KINDS, saved_data, "others_last")
    names = {"sparse tensor", "compressed sparse tensor", "nested tensor"}
    inner = "its memory was released before it could be read"  # an argument that the jagged tensor's operator replaces
    assert reasons(dump) - {"uninitialised memory", "meta tensor", inner} == names
    if saved_data == "tensor":
        (array,) = (
            array
            for (name, side, _), array in dumps.tensors(dump).items()
            if "_make_per_tensor" in name and side == "output"
        )
        assert array.tolist() == [[1, 2], [3, 200]]
