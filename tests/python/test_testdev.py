"""The test device is strict: without a synchronisation that a GPU needs, a program reads something wrong, or faults."""

import json
import signal

import pytest
from device_programs import NETWORKS, on_device


@pytest.fixture
def answers(train):
    """answers(source, schedule): the values of each call of show()."""

    def run(source, schedule="last"):
        ran = train(on_device(source, schedule))
        assert ran.status == 0, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    return run


def test_the_host_cannot_read_its_memory(train):
    read = "ctypes.string_at(torch.ones(4, device='testdev').data_ptr(), 4)"
    assert train(on_device(read)).status == -signal.SIGSEGV


@pytest.mark.parametrize("wait", ["torch.testdev", "torch.accelerator"])
def test_a_copy_is_there_only_after_the_host_has_waited(wait, answers):
    source = f"""
        x = torch.ones(4, device="testdev")
        host = torch.zeros(4).pin_memory()
        host.copy_(x, non_blocking=True)
        show(host.tolist())
        {wait}.synchronize()
        show(host.tolist())
    """
    assert answers(source) == [[[0, 0, 0, 0]], [[1, 1, 1, 1]]]


SIDE_COPY = """
    def copied(*, after_producer, keeps_memory=True, before_overwriting=True):
        side = torch.Stream("testdev")
        x = torch.full((4,), 2.0, device="testdev") + 1
        host = torch.zeros(4).pin_memory()
        if after_producer:
            side.wait_event(torch.accelerator.current_stream().record_event())
        with on(side):
            host.copy_(x, non_blocking=True)
            done = side.record_event()
        if keeps_memory:
            x.record_stream(side)
        else:
            del x
            x = torch.full((4,), 7.0, device="testdev")
        if before_overwriting:
            torch.accelerator.current_stream().wait_event(done)
        x.zero_()
        torch.accelerator.current_stream().synchronize()
        done.synchronize()
        return host.tolist()

"""


def test_a_side_stream_must_wait_for_the_producer(answers):
    source = (
        SIDE_COPY
        + """
    show([value == 3 for value in copied(after_producer=False)])
    show(copied(after_producer=True))
    """
    )
    assert answers(source, "main_last") == [[[False] * 4], [[3, 3, 3, 3]]]


def test_the_allocator_must_know_of_the_side_stream(answers):
    source = """
        def copied(records):
            side = torch.Stream("testdev")
            x = torch.full((4,), 2.0, device="testdev") + 1
            host = torch.zeros(4).pin_memory()
            side.wait_stream(torch.accelerator.current_stream())
            with on(side):
                host.copy_(x, non_blocking=True)
            if records:
                x.record_stream(side)
            address = x.data_ptr()
            del x
            y = torch.full((4,), 7.0, device="testdev")
            torch.accelerator.current_stream().synchronize()
            side.synchronize()
            return address == y.data_ptr(), host.tolist()

        show(*copied(records=False))
        show(*copied(records=True))
    """
    assert answers(source, "others_last") == [[True, [7, 7, 7, 7]], [False, [3, 3, 3, 3]]]


def test_the_next_write_must_wait_for_the_side_stream(answers):
    source = (
        SIDE_COPY
        + """
    show(copied(after_producer=True, before_overwriting=False))
    show(copied(after_producer=True))
    """
    )
    assert answers(source, "others_last") == [[[0, 0, 0, 0]], [[3, 3, 3, 3]]]


def test_a_pinned_buffer_is_given_out_again_after_its_copy_unless_nobody_said_so(answers):
    source = """
        def reused(copy):
            x = torch.ones(1000, device="testdev")
            host = torch.zeros(1000).pin_memory()
            address = host.data_ptr()
            copy(x, host)
            del host
            other = torch.zeros(1000).pin_memory()
            torch.testdev.synchronize()
            return address == other.data_ptr(), other.sum().item()

        show(*reused(lambda x, host: host.copy_(x, non_blocking=True)))
        show(*reused(lambda x, host: testdev.copy_to_host_unguarded(x, host.data_ptr())))
    """
    assert answers(source) == [[False, 0], [True, 1000]]


def test_a_freed_buffer_of_the_host_faults(train):
    source = """
        import mmap
        memory = mmap.mmap(-1, 4096)
        view = ctypes.c_char.from_buffer(memory)
        x = torch.ones(1000, device="testdev")
        testdev.copy_to_host_unguarded(x, ctypes.addressof(view))
        del view
        memory.close()
        torch.testdev.synchronize()
    """
    assert train(on_device(source)).status == -signal.SIGSEGV


def test_freed_memory_is_overwritten_and_given_out_at_once(answers):
    source = """
        x = torch.ones(4, device="testdev")
        address = x.data_ptr()
        del x
        y = torch.empty(4, device="testdev")
        show(address == y.data_ptr(), y.isnan().all().item())
    """
    assert answers(source) == [[True, True]]


def test_pinned_memory_is_read_when_the_copy_runs_and_other_memory_at_once(answers):
    source = """
        pinned, plain = torch.ones(2).pin_memory(), torch.ones(2)
        first, second = pinned.to("testdev", non_blocking=True), plain.to("testdev", non_blocking=True)
        pinned.zero_(), plain.zero_()
        show(first.tolist(), second.tolist())
    """
    assert answers(source) == [[[0, 0], [1, 1]]]


def test_trainings_have_the_results_of_the_cpu(answers):
    source = (
        NETWORKS
        + """
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "sgd, one by one": lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
    "adam": torch.optim.Adam,
    "adam, one by one": lambda p: torch.optim.Adam(p, foreach=False),
    "fused": lambda p: torch.optim.AdamW(p, fused=True),
}
for make, names in (convolution, OPTIMIZERS), (transformer, ["sgd"]):
    for name in names:
        results = []
        for device in "cpu", "testdev":
            torch.manual_seed(0)
            net, batch = make(device)
            optimizer = OPTIMIZERS[name](net.parameters())
            losses = [step(net, batch, optimizer) for _ in range(3)]
            results.append(torch.cat([value.flatten().cpu() for value in [*losses, *net.state_dict().values()]]))
        show(make.__name__, name, (results[0] - results[1]).abs().max().item())
"""
    )
    *convolution, (_, _, distance) = answers(source)
    assert [name for _, name, _ in convolution] == ["sgd", "sgd, one by one", "adam", "adam, one by one", "fused"]
    assert [difference for _, _, difference in convolution] == [0] * 5
    assert distance < 1e-6  # the CPU has a kernel of its own for attention


def test_no_step_waits_and_no_schedule_changes_a_bit(answers):
    source = (
        NETWORKS
        + """
def train():
    torch.manual_seed(0)
    net, batch = transformer("testdev", dropout=0.1)
    optimizer = torch.optim.AdamW(net.parameters())
    step(net, batch, optimizer)
    torch.testdev.synchronize()
    testdev.reset_counters()
    losses = [step(net, batch, optimizer) for _ in range(2)]
    counted = testdev.counters()
    parameters = [parameter.detach().cpu() for parameter in net.parameters()]
    digest = hash(tuple(torch.cat([value.flatten().cpu() for value in [*losses, *parameters]]).tolist()))
    return digest, counted["waits"], counted["kernels"], counted["bytes_to_host"]

before = torch.get_rng_state()
for name in "eager", "shuffled", "main_last", "others_last", "last":
    testdev.schedule(name)
    show(*train())
"""
    )
    first, *others = answers(source)
    _, waits, kernels, to_host = first
    assert (waits, to_host) == (0, 0)
    assert kernels > 100
    assert others == [first] * 4


def test_what_trainings_use_works_on_it(answers):
    source = (
        NETWORKS
        + """
import copy, io
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

net, (x, y) = transformer("testdev", dropout=0.1)
with torch.autocast("testdev", dtype=torch.bfloat16):
    out = net(x)
show(str(out.dtype), bool(out.isfinite().all()))

layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).to("testdev")
gradients = []
for run in layer, *(lambda x, old=old: checkpoint(layer, x, use_reentrant=old) for old in (False, True)):
    torch.manual_seed(0)
    layer.zero_grad()
    run(torch.ones(2, 4, device="testdev", requires_grad=True)).sum().backward()
    gradients.append(layer[0].weight.grad.tolist())
show(gradients[0] == gradients[1] == gradients[2])

net, (images, _) = convolution("testdev")
show(list(net.eval()(images).shape), list(net.train()(images).shape))

net, (x, y) = transformer("testdev", dropout=0.1)
# PyTorch 2.6 pins for CUDA, unless a device is named.
pins_for = {"pin_memory_device": "testdev"} if torch.__version__.startswith("2.6.") else {}
loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, pin_memory=True, **pins_for)
show([(batch.is_pinned(), batch.to("testdev", non_blocking=True).tolist()) for batch, in loader])

file = io.BytesIO()
torch.save(net.state_dict(), file)
file.seek(0)
loaded, copied = torch.load(file), copy.deepcopy(net)
state = net.state_dict()
show(all(torch.equal(loaded[name], value) for name, value in state.items()))
show(all(torch.equal(other, value) for other, value in zip(copied.parameters(), net.parameters())))
second = copied.to("testdev:1")
show(torch.equal(second(x.to("testdev:1")).isnan().cpu(), net(x).isnan().cpu()), second.head.weight.device.index)
"""
    )
    assert answers(source, "shuffled") == [
        ["torch.bfloat16", True],
        [True],
        [[4, 5], [4, 5]],
        [[[True, [0, 1, 2, 3]], [True, [4, 5, 6, 7]]]],
        [True],
        [True],
        [True, 1],
    ]


ATTEMPT = """
    def attempt(call):
        try:
            call()
            show("no error")
        except Exception as error:
            show(type(error).__name__ + ": " + str(error).partition("\\n")[0])

"""


def test_its_errors_are_those_of_a_gpu(answers):
    source = (
        ATTEMPT
        + """
    x = torch.ones(4, device="testdev")
    testdev.set_limit(1 << 20)
    attempt(lambda: torch.empty(1 << 20, device="testdev"))
    kept = [torch.empty(200_000, dtype=torch.uint8, device="testdev") for _ in range(4)]
    del kept
    attempt(lambda: torch.empty(900_000, dtype=torch.uint8, device="testdev"))
    attempt(lambda: x + torch.ones(4, device="testdev:1"))
    attempt(lambda: x + torch.ones(4))
    attempt(lambda: nn.functional.embedding(torch.tensor([9], device="testdev"), x.view(4, 1)))
    attempt(lambda: torch.testdev.synchronize())
    attempt(lambda: torch.testdev.synchronize())
    stream = torch.Stream("testdev")
    testdev.destroy_stream(stream)
    with on(stream):
        attempt(lambda: x.add_(1))
    testdev.set_events(False)
    attempt(lambda: torch.accelerator.current_stream().record_event())
    sys.stdout.flush()  # or the child prints these lines again
    pid = os.fork()
    if pid == 0:
        attempt(lambda: x + 1)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    testdev.lose()
    attempt(lambda: x + 1)
    attempt(lambda: torch.testdev.synchronize())
    """
    )
    # An operator on the CPU and the device fails as on a GPU; a kernel's error comes at the next wait, once.
    said = [text for (text,) in answers(source)]
    assert said[0].startswith("OutOfMemoryError: testdev: out of memory: device 0 has 1048576 bytes, ")
    two = "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, testdev"
    assert said[1] == "no error"
    assert said[2].startswith(f"{two}:0 and testdev:1!")
    assert said[3].startswith(f"{two} and cpu!")
    assert said[4] == "no error"
    assert said[5].startswith("RuntimeError: testdev: a kernel failed: ")
    assert "index out of range" in said[5]
    assert said[6:] == [
        "no error",
        "RuntimeError: testdev: stream 1 of device 0 was destroyed",
        "RuntimeError: testdev backend doesn't support events.",
        "RuntimeError: testdev: cannot use the device in a forked process; it was used before the fork",
        "RuntimeError: testdev: device 0 is lost",
        "RuntimeError: testdev: device 0 is lost",
    ]


def test_what_is_captured_runs_at_each_replay(answers):
    source = (
        ATTEMPT
        + """
    x = torch.zeros(1, device="testdev")
    torch.testdev.synchronize()
    with testdev.graph() as replay:
        x += 1
        attempt(lambda: torch.testdev.current_stream().synchronize())
    show(x.item())
    replay(), replay()
    show(x.item())
    """
    )
    assert answers(source) == [["RuntimeError: testdev: operation not permitted when stream is capturing"], [0], [2]]
