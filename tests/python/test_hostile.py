"""Programs that break all conventions: they run as without Sonde, and their dumps can be read."""

import csv

import dumps
import numpy as np
import pytest

# Cases share one process; each catches its own exceptions. `sonde.step()` after each makes it a separate step.
PROGRAM = r"""
    import gc, linecache, os, sys, threading, types, warnings
    import sonde
    import torch
    from torch import nn

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)


    def case(name, body):
        torch.manual_seed(0)
        try:
            result = body()
        except BaseException as error:
            result = f"{type(error).__name__}: {str(error)[:80]}"
        if isinstance(result, torch.Tensor):
            result = result.double().sum().item().hex()
        print(name, result)
        sonde.step()


    x = torch.ones(2, 3)


    def op_that_throws():
        try:
            torch.ones(2, 3) @ torch.ones(2, 3)
        except RuntimeError:
            return x.neg()

    case("op that throws", op_that_throws)

    class ReplacesItsChild(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            self.fc = nn.Linear(3, 3)
            x = self.fc(x)
            self.late = nn.Tanh()
            return self.late(x)

    case("module that replaces its child", lambda: ReplacesItsChild()(x))

    class DeletesItself(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            fc = self.fc
            del self.fc
            y = fc(x)
            del fc
            gc.collect()
            return y.tanh()

    case("module that deletes its child", lambda: DeletesItself()(x))

    class ChangesItsClass(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            self.__class__ = type("Other", (nn.Module,), {"forward": lambda self, x: x})
            return self.fc(x)

    case("module that changes its class", lambda: ChangesItsClass()(x))

    ODD_NAMES = ["long_" + "n" * 300, "größe", "with/slash", "comma,quote\"", "line\nbreak", "back\\slash", "", " ",
                 "tab\t", "..", "日本語", "\ud800", "\0", "%s{}", "network"]

    def odd_names():
        net = nn.Sequential()
        for name in ODD_NAMES:
            net._modules[name] = type("Class " + name.replace("\0", ""), (nn.Linear,), {})(3, 3)
            net._modules["dotted." + name] = nn.Tanh()
        net.register_parameter("weight\n,\"", nn.Parameter(x))
        net._buffers["päram/eter"] = x
        return net(x + net._parameters["weight\n,\""] + net._buffers["päram/eter"])

    case("odd names", odd_names)

    class Thousands(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.ReLU() for _ in range(10000)])
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.parts[9999](self.fc(x))

    case("ten thousand modules", lambda: Thousands()(x))

    class Child(nn.Module):
        def __init__(self, parent):
            super().__init__()
            self.parent = parent
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(x)

    class Parent(nn.Module):
        def __init__(self):
            super().__init__()
            self.child = Child(self)
            self.itself = self

        def forward(self, x):
            return self.child(x)

    case("tree with cycles", lambda: Parent()(x))

    def from_a_file(change):
        with open("vanishing.py", "w") as file:
            file.write("def run(x):\n    y = x.exp()\n    return y.neg()\n")
        namespace = {}
        exec(compile(open("vanishing.py").read(), "vanishing.py", "exec"), namespace)
        if change:
            with open("vanishing.py", "w") as file:
                file.write("nothing = 'like before'\n")
        else:
            os.remove("vanishing.py")
        return namespace["run"](x)

    case("source deleted", lambda: from_a_file(False))
    case("source changed", lambda: from_a_file(True))

    def executed():
        space = {"torch": torch, "x": x}
        exec("y = torch.relu(x)", space)
        exec(compile("y = torch.relu(y)", "<odd\n,\"name>", "exec"), space)
        exec(compile("y = torch.relu(y)", "größe.py", "exec"), space)
        code = compile("y = torch.relu(y)", "z", "exec")
        exec(code.replace(co_filename="", co_linetable=b""), space)
        return space["y"]

    case("code from exec", executed)

    def raising(*_arguments):
        raise ValueError("from the user's own hook")

    def with_hook(register):
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        register(net)
        net(x).sum().backward()

    case("forward pre-hook raises", lambda: with_hook(lambda net: net[0].register_forward_pre_hook(raising)))
    case("forward hook raises", lambda: with_hook(lambda net: net[1].register_forward_hook(raising)))
    case("backward hook raises", lambda: with_hook(lambda net: net[0].register_full_backward_hook(raising)))
    case("parameter hook raises", lambda: with_hook(lambda net: net[0].weight.register_hook(raising)))

    class Untouchable(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.ready = True

        def forward(self, x):
            return vars(self)["_modules"]["fc"](x)

        def __eq__(self, other):
            raise RuntimeError("__eq__")

        def __hash__(self):
            raise RuntimeError("__hash__")

        def __repr__(self):
            raise RuntimeError("__repr__")

        def __bool__(self):
            raise RuntimeError("__bool__")

        def __len__(self):
            raise RuntimeError("__len__")

        def __getattr__(self, name):
            raise RuntimeError(f"__getattr__ {name}")

        def __iter__(self):
            raise RuntimeError("__iter__")

        @property
        def __class__(self):
            raise RuntimeError("__class__")

        def named_modules(self, *_arguments, **_keywords):
            raise RuntimeError("named_modules")

        def register_forward_pre_hook(self, *_arguments, **_keywords):
            raise RuntimeError("register_forward_pre_hook")

    case("module that nobody may touch", lambda: Untouchable()(x))
    case("module that nobody may touch, inside", lambda: nn.Sequential(Untouchable())(x))

    class Guarded(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def __getattribute__(self, name):
            if name in ("__dict__", "_parameters", "__weakref__"):
                raise RuntimeError(f"__getattribute__ {name}")
            return super().__getattribute__(name)

        def forward(self, x):
            return self._modules["fc"](x)

    case("attributes guarded", lambda: Guarded()(x))

    class OddMeta(type):
        @property
        def __name__(cls):
            raise RuntimeError("__name__")

    class OddlyMade(nn.Linear, metaclass=OddMeta):
        pass

    case("odd metaclass", lambda: nn.Sequential(OddlyMade(3, 3))(x))

    class Slotted(nn.Module):
        __slots__ = ("extra",)

        def forward(self, x):
            self.extra = x
            return x.neg()

    case("slots", lambda: Slotted()(x))

    class Unborn(nn.Module):
        def __init__(self):
            pass

        def forward(self, x):
            return x.neg()

    case("no super().__init__()", lambda: Unborn()(x))

    def forward_called():
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        return net.forward(x) + nn.Sequential.forward(net, x)

    case("forward called", forward_called)

    class Nested(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x) + 1

    def nested():
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(10000)
        try:
            net = nn.Linear(3, 3)
            for _ in range(1000):
                net = Nested(net)
            return net(x)
        finally:
            sys.setrecursionlimit(limit)

    case("a thousand deep", nested)

    class Recursive(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x, depth=0):
            return self(x.neg(), depth + 1)

    def endless():
        try:
            Recursive()(x)
        except RecursionError:  # its text says which call was the last
            return "RecursionError"

    case("recursion without end", endless)

    class Interrupted(nn.Module):
        def __init__(self, error):
            super().__init__()
            self.fc, self.error = nn.Linear(3, 3), error

        def forward(self, x):
            x = self.fc(x)
            raise self.error

    case("KeyboardInterrupt", lambda: Interrupted(KeyboardInterrupt())(x))
    case("SystemExit", lambda: Interrupted(SystemExit(3))(x))
    case("StopIteration", lambda: Interrupted(StopIteration())(x))
    case("GeneratorExit", lambda: Interrupted(GeneratorExit())(x))

    def dying_thread():
        threading.excepthook = lambda arguments: None
        threads = [threading.Thread(target=Interrupted(ValueError()), args=(x,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return x.neg()

    case("threads that die in forward", dying_thread)

    def traced(setter):
        calls = []
        setter(lambda frame, event, argument: calls.append(event))
        try:
            y = nn.Linear(3, 3)(x)
        finally:
            setter(None)
        return y

    case("settrace", lambda: traced(sys.settrace))
    case("setprofile", lambda: traced(sys.setprofile))

    def without_gc():
        gc.disable()
        y = nn.Linear(3, 3)(x)
        gc.freeze()
        y = y + nn.Linear(3, 3)(x)
        gc.unfreeze()
        gc.enable()
        return y

    case("no garbage collection", without_gc)

    class Loader(nn.Module):
        "A forward that yields: its caller's frames are others each time."
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            while True:
                x = yield self.fc(x)

    def generator_kept():
        g = Loader()(x)
        y = next(g)
        y = y + g.send(y)
        g.close()
        return y

    case("forward that is a generator", generator_kept)

    def asynchronous():
        import asyncio
        net = nn.Linear(3, 3)
        async def one():
            await asyncio.sleep(0)
            return net(x)
        async def all_of_them():
            return sum(await asyncio.gather(*[one() for _ in range(3)]))
        return asyncio.run(all_of_them())

    case("coroutines", asynchronous)

    def shadowed():
        net = nn.Linear(3, 3)
        net.forward = lambda x: x.neg()
        return net(x)

    case("forward replaced on the object", shadowed)

    def changing_hooks():
        net = nn.Linear(3, 3)
        for _ in range(3):
            net(x)
            net._forward_pre_hooks.clear()
        return net(x)

    case("hooks cleared", changing_hooks)

    def no_grad_leak():
        g = (torch.is_grad_enabled() for _ in range(1))
        with torch.no_grad():
            y = nn.Linear(3, 3)(x)
        return y

    case("grad mode", no_grad_leak)
"""


@pytest.fixture(scope="module")
def hostile(compare):
    return compare(PROGRAM, saved_data="full", statistic_category=["max"], sonde_settings={"step": "manual"})


def test_a_hostile_program_runs_as_without_sonde(hostile):
    assert hostile.bare.status == 0, hostile.bare.stderr
    assert hostile.recorded.status == 0, hostile.recorded.stderr
    bare, recorded = hostile.bare.stdout.splitlines(), hostile.recorded.stdout.splitlines()
    assert [pair for pair in zip(bare, recorded, strict=True) if pair[0] != pair[1]] == []
    assert len(hostile.recorded.sonde_lines) == 1 and "recorded" in hostile.recorded.sonde_lines[0]
    assert "RecordFunction" not in hostile.recorded.stderr


def test_its_dump_can_be_read(hostile):
    cases = hostile.bare.stdout.splitlines()
    rows = hostile.stats()
    assert len({row["step"] for row in rows}) >= len(cases) - 1
    compared = 0
    for step in dumps.steps(hostile.dump):
        arrays = dumps.tensors(hostile.dump, step, numbered=True)
        with open(dumps.step_directory(hostile.dump, step) / "statistic.csv", newline="", errors="replace") as file:
            rows = {}
            for row in csv.DictReader(file):
                rows.setdefault((dumps.sanitised(row["Op Name"]), row["IO"], int(row["Slot"])), []).append(row)
        for key, (row, *others) in rows.items():
            array = arrays.get(key)
            if array is not None and not others and array.dtype.kind == "f" and np.isfinite(array).all():
                assert float(row["Max Value"]) == pytest.approx(array.max(), rel=1e-5), row
                compared += 1
    assert compared > 100


def test_a_failed_operator_is_marked_and_its_successor_is_whole(hostile):
    names = [row["op_name"] for row in hostile.stats() if row["step"] == 0]
    assert "Default/matmul-op0" in names and "Default/neg-op0" in names


def test_modules_a_thousand_deep_keep_their_root(hostile):
    deepest = [row["op_name"] for row in hostile.stats() if row["op_name"].count("inner-") > 900]
    assert any(name.startswith("Default/network") and name.endswith("/inner-Linear/linear-op0") for name in deepest)


INTERRUPTED = """
    import linecache
    import signal
    import torch

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background commands ignore it

    class Cache(dict):
        def get(self, *arguments):  # as if ^C came while Sonde asks for a source
            raise KeyboardInterrupt

    net = torch.nn.Linear(1, 1)
    net(torch.ones(1))
    linecache.cache = Cache(linecache.cache)
    try:
        exec(compile("net(torch.ones(1))", "<ipython-input-1>", "exec"))
        for _ in range(1000):
            pass
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_an_interrupt_while_sonde_runs_python_code_is_the_programs(train, config):
    run = train(INTERRUPTED, config(saved_data="statistic"))
    assert run.stdout == "interrupted\n", run.stderr
    assert run.status == 0, run.stderr


TINY = """
    import torch
    net = torch.nn.Linear(1, 1)
    x = net(torch.ones(1)).detach()
    for _ in range(100_000):
        x.add_(1)
    print(x.item())
"""


def test_a_hundred_thousand_tiny_operators_of_one_step(train, config, sonde):
    run = train(TINY, config(saved_data="statistic", statistic_category=["max"], input_output=2))
    assert run.status == 0, run.stderr
    names = [row["Op Name"] for row in dumps.statistics(run.dump) if row["Op Type"] == "add_"]
    assert names[0] == "Default/add_-op0" and names[-1] == "Default/add_-op99999" and len(names) == 100_000
    assert float(dumps.statistics(run.dump)[-1]["Max Value"]) == pytest.approx(float(run.stdout), rel=1e-5)
