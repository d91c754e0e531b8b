"""Autograd in all its forms: no operator is lost or counted twice, names are right, and results are those of a bare
run."""

import collections
import json
import re

import dumps
import pytest

# Every case is a step of its own. Run with COUNT set, the program is not recorded: PyTorch's own profiler counts the
# operators at depth 0 of each case (below backward nodes, optimizers and ranges, but below no other operator).
PROGRAM = """
    import collections, contextlib, json, os, warnings
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.profiler import ProfilerActivity, profile
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if "COUNT" not in os.environ:
        import sonde
    counts, order = {{}}, []


    def is_operator(name):
        return "::" in name and not name.startswith(("autograd::", "torch::", "profiler::", "prim::"))


    def at_depth_0(event):
        parent = event.cpu_parent
        while parent is not None:
            if is_operator(parent.name):
                return False
            parent = parent.cpu_parent
        return is_operator(event.name)


    def note(name, values):
        flat = [v for v in torch.utils._pytree.tree_leaves(values) if isinstance(v, torch.Tensor)]
        print(name, [v.detach().double().sum().item().hex() for v in flat], [tuple(v.shape) for v in flat])


    def case(name, body):
        torch.manual_seed(0)
        order.append(name)
        if "COUNT" in os.environ:
            with profile(activities=[ProfilerActivity.CPU]) as prof:
                values = body()
            found = [event.name.split("::")[-1] for event in prof.events() if at_depth_0(event)]
            counts[name] = collections.Counter(found)
        else:
            values = body()
            sonde.step()
        note(name, values)
        if "COUNT" not in os.environ:
            sonde.step()


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return torch.tanh(self.fc(x))  # block line


    def gradients(model):
        return [p.grad for p in model.parameters()]


{cases}
    json.dump([order, counts], open(os.environ.get("COUNT", "order.json"), "w"))
"""

CASES = """
    class Checkpointed(nn.Module):
        def __init__(self, reentrant):
            super().__init__()
            self.first, self.second, self.reentrant = Block(), Block(), reentrant

        def forward(self, x):
            x = self.first(x)
            return checkpoint(self.second, x, use_reentrant=self.reentrant)

    def checkpointed(reentrant):
        net = Checkpointed(reentrant)
        net(torch.ones(2, 3)).sum().backward()
        return gradients(net)

    case("checkpoint", lambda: checkpointed(False))
    case("checkpoint, reentrant", lambda: checkpointed(True))

    def sequential():
        net = nn.Sequential(Block(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
        out = checkpoint_sequential(net, 2, torch.ones(2, 3, requires_grad=True), use_reentrant=False)
        out.sum().backward()
        return gradients(net)

    case("checkpoint_sequential", sequential)

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x  # cube forward

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * 3 * x * x  # cube backward

    class UsesCube(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return Cube.apply(self.fc(x))  # cube called

    def custom_function():
        net = UsesCube()
        net(torch.ones(2, 3)).sum().backward()
        return gradients(net)

    case("custom Function", custom_function)

    def double_backward():
        net = Block()
        x = torch.ones(2, 3, requires_grad=True)
        (first,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        first.square().sum().backward()
        return gradients(net), x.grad

    case("double backward", double_backward)

    def tensor_hooks():
        net = Block()
        x = torch.ones(2, 3, requires_grad=True)
        hidden = net.fc(x)
        hidden.register_hook(lambda g: g * 2)
        net.fc.weight.register_hook(lambda g: g + 1)
        net.fc.weight.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", p.grad * 0.5))
        hidden.retain_grad()
        torch.tanh(hidden).sum().backward()
        return gradients(net), x.grad, hidden.grad

    case("tensor hooks", tensor_hooks)

    def module_hooks():
        net = nn.Sequential(Block(), Block())
        net[0].register_forward_pre_hook(lambda module, arguments: (arguments[0] + 1,))
        net[0].register_forward_hook(lambda module, arguments, out: out * 2)
        net[1].register_full_backward_hook(lambda module, inner, outer: (inner[0] * 3,))
        net[1].register_full_backward_pre_hook(lambda module, outer: (outer[0] * 5,))
        net(torch.ones(2, 3)).sum().backward()
        return gradients(net)

    case("module hooks", module_hooks)

    def two_backwards():
        net = Block()
        out = net(torch.ones(2, 3)).sum()
        out.backward(retain_graph=True)
        out.backward()
        return gradients(net)

    case("retain_graph", two_backwards)

    class Generating(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([Block(), Block()])

        def results(self, x):
            for part in self.parts:
                x = part(x)
                yield x.relu()  # in a generator

        def forward(self, x):
            return sum(self.results(x))

    def generator():
        net = Generating()
        net(torch.ones(2, 3)).sum().backward()
        return gradients(net)

    case("generator", generator)

    def function_of(net):
        parameters = dict(net.named_parameters())
        return parameters, lambda p, x: torch.func.functional_call(net, p, (x,)).sum()

    def per_sample():
        parameters, loss = function_of(Block())
        return torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, torch.ones(4, 3))

    case("vmap of grad", per_sample)
    case("functional_call", lambda: (lambda p, f: f(p, torch.ones(2, 3)))(*function_of(Block())))
    case("jvp", lambda: torch.func.jvp(torch.sin, (torch.ones(3),), (torch.ones(3),)))
    case("vjp", lambda: torch.func.vjp(torch.sin, torch.ones(3))[1](torch.ones(3)))
    case("hessian", lambda: torch.func.hessian(lambda x: x.pow(3).sum())(torch.ones(3)))
    case("jacobian", lambda: torch.autograd.functional.jacobian(torch.sin, torch.ones(3)))
    case("jacobian, vectorized", lambda: torch.autograd.functional.jacobian(torch.sin, torch.ones(3), vectorize=True))

    def forward_mode():
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3))
            return tuple(torch.autograd.forward_ad.unpack_dual(dual.sin()))

    case("forward mode", forward_mode)

    def autocast():
        net = Block()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(torch.ones(2, 3))
        out.float().sum().backward()
        return gradients(net), out

    case("autocast", autocast)

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            return function(*arguments, **(keywords or {}))

    class Passing(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), keywords=None):
            return function(*arguments, **(keywords or {}))

    def under(context):
        net = Block()
        with context:
            net(torch.ones(2, 3)).sum().backward()
        return gradients(net)

    case("TorchDispatchMode", lambda: under(Counting()))
    case("TorchFunctionMode", lambda: under(Passing()))
    case("anomaly mode", lambda: under(torch.autograd.detect_anomaly(check_nan=False)))
    case("saved tensors on the host", lambda: under(torch.autograd.graph.save_on_cpu()))
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t + 0, lambda t: t * 1)
    case("saved tensors hooks", lambda: under(hooks))
    case("no multithreading", lambda: under(torch.autograd.set_multithreading_enabled(False)))

    def inference():
        net = Block()
        with torch.inference_mode():
            return net(torch.ones(2, 3))

    case("inference_mode", inference)

    class Doubled(nn.Module):
        def forward(self, weight):
            return weight * 2  # parametrization line

    def parametrized():
        net = Block()
        nn.utils.parametrize.register_parametrization(net.fc, "weight", Doubled())
        net(torch.ones(2, 3)).sum().backward()
        return gradients(net)

    case("parametrization", parametrized)

    def spectral():
        net = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
        net(torch.ones(2, 3)).sum().backward()
        return gradients(net)

    case("spectral_norm", spectral)

    def weight_norm():
        net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
        net(torch.ones(2, 3)).sum().backward()
        return gradients(net)

    case("weight_norm", weight_norm)

    def fused():
        convolution, norm = nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval()
        return nn.utils.fusion.fuse_conv_bn_eval(convolution, norm)(torch.ones(1, 1, 4, 4))

    case("fusion", fused)

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(5, 3)
            self.out = nn.Linear(3, 5, bias=False)
            self.out.weight = self.embedding.weight

        def forward(self, x):
            return self.out(self.embedding(x))

    def tied():
        net = Tied()
        net(torch.tensor([1, 2])).sum().backward()
        return gradients(net)

    case("tied weights", tied)

    def recurrent(kind):
        net = kind(3, 4, num_layers=2, batch_first=True)
        net(torch.ones(2, 5, 3))[0].sum().backward()
        return gradients(net)

    case("LSTM", lambda: recurrent(nn.LSTM))
    case("GRU", lambda: recurrent(nn.GRU))
    case("RNN", lambda: recurrent(nn.RNN))

    def scripted():
        net = torch.jit.script(Block())
        net(torch.ones(2, 3)).sum().backward()
        return gradients(net)

    case("scripted", scripted)

    def traced():
        net = torch.jit.trace(Block(), torch.ones(2, 3))
        net(torch.ones(2, 3)).sum().backward()
        return gradients(net)

    case("traced", traced)

    def in_another_thread():
        import threading
        net = Block()
        out = net(torch.ones(2, 3)).sum()
        thread = threading.Thread(target=out.backward)
        thread.start()
        thread.join()
        return gradients(net)

    case("backward in another thread", in_another_thread)

    def trained():
        net = Block()
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(2, 3)).sum().backward()
            optimizer.step()
        return list(net.parameters())

    case("trained", trained)

    def backward_inside_forward():
        class Energy(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 1)

            def forward(self, x):
                with torch.enable_grad():
                    (force,) = torch.autograd.grad(self.fc(x).square().sum(), x, create_graph=True)
                return force
        net = Energy()
        net(torch.ones(2, 3, requires_grad=True)).square().sum().backward()
        return gradients(net)

    case("backward inside forward", backward_inside_forward)

    def node_hooks():
        net = Block()
        out = net(torch.ones(2, 3))
        out.grad_fn.register_hook(lambda inner, outer: (inner[0] * 2,))
        out.grad_fn.register_prehook(lambda outer: (outer[0] + 1,))
        out.sum().backward()
        return gradients(net)

    case("node hooks", node_hooks)

    def accumulated():
        net = Block()
        for _ in range(3):
            net(torch.ones(2, 3)).sum().backward()
        return gradients(net)

    case("accumulated", accumulated)
"""

# Autocast's wrapper casts and calls itself again: that call is the operator, the profiler counts the wrapper.
# The profiler does not follow a thread that Python starts.
# Cases that have no backward operator.
WITHOUT_BACKWARD = {"functional_call", "jvp", "forward mode", "inference_mode", "fusion"}
# Under a transform of functorch: recorded is what an operator on wrapped tensors calls (test_tensor_kinds.py).
TRANSFORMED = {"vmap of grad", "jvp", "hessian", "jacobian, vectorized"}
COUNTED_OTHERWISE = {"autocast", "backward in another thread", *TRANSFORMED}
ZEROS_WITHOUT_MEMORY = "storage resized to less than the tensor needs"  # of PyTorch's forward mode
WITHOUT_VALUES = {"", "empty tensor", "uninitialised memory", ZEROS_WITHOUT_MEMORY}
NAMES = re.findall(r'case\("([^"]+)"', CASES)


@pytest.fixture(scope="module")
def cases(compare):
    run = compare(PROGRAM.format(cases=CASES), bare={"COUNT": "counts.json"}, sonde_settings={"step": "manual"},
                  saved_data="statistic", statistic_category=["max"])  # fmt: skip
    assert run.bare.status == 0, run.bare.stderr
    assert run.recorded.status == 0, run.recorded.stderr
    order, run.counts = json.loads((run.directory / "counts.json").read_text())
    assert order == NAMES
    run.listed = collections.defaultdict(list)
    for row in run.stats():
        if not row["is_parameter"] and row["step"] % 2 == 0:
            run.listed[order[row["step"] // 2]].append(row)
    return run


def names(cases, case):
    return list(dict.fromkeys(row["op_name"] for row in cases.listed[case]))


def test_no_result_differs(cases):
    assert cases.bare.stdout == cases.recorded.stdout
    assert len(cases.recorded.sonde_lines) == 1, cases.recorded.stderr


@pytest.mark.parametrize("case", [name for name in NAMES if name not in COUNTED_OTHERWISE])
def test_every_operator_is_there_once(case, cases):
    seen = collections.Counter(re.sub(r"-op\d+$", "", name).rsplit("/", 1)[1] for name in names(cases, case))
    assert dict(seen) == cases.counts[case]


@pytest.mark.parametrize("case", sorted(TRANSFORMED))
def test_under_a_transform_every_input_has_values(case, cases):
    read = [row for row in cases.listed[case] if row["side"] == "input"]
    assert read
    assert {row.get("skipped", "") for row in read} <= WITHOUT_VALUES


@pytest.mark.parametrize("case", NAMES)
def test_every_backward_operator_has_the_scope_and_line_of_its_forward(case, cases):
    assert any(row["phase"] == "backward" for row in cases.listed[case]) == (case not in WITHOUT_BACKWARD)
    for row in cases.listed[case]:
        if row["phase"] in ("backward", "recompute", "forward"):
            assert row.get("source_line", 0) > 0, row["op_name"]
        if row["phase"] == "backward":
            assert re.match(r"Gradients/Default/(.+/)?Grad_\w+/\w+-op\d+$", row["op_name"]), row["op_name"]


CHECKPOINTED = "network-Checkpointed/second-Block"
EXPECTED = {
    # case: required names, and the source line's text if it is not the block's
    "checkpoint": {
        f"Default/{CHECKPOINTED}/fc-Linear/linear-op0": "block line",
        f"Default/recompute/{CHECKPOINTED}/fc-Linear/linear-op0": "block line",
        f"Gradients/Default/{CHECKPOINTED}/Grad_tanh/tanh_backward-op0": "block line",
    },
    "checkpoint, reentrant": {
        f"Default/{CHECKPOINTED}/tanh-op0": "block line",
        f"Default/recompute/{CHECKPOINTED}/tanh-op0": "block line",
        f"Gradients/Default/{CHECKPOINTED}/fc-Linear/Grad_linear/mm-op0": "block line",
    },
    "checkpoint_sequential": {
        "Default/recompute/network1-Sequential/1-Linear/linear-op0": "checkpoint_sequential(net",
    },
    "custom Function": {
        "Default/network2-UsesCube/mul-op0": "cube forward",
        "Gradients/Default/network2-UsesCube/Grad_Cube/mul-op2": "cube backward",
        "Gradients/Default/network2-UsesCube/fc-Linear/Grad_linear/mm-op0": "cube called",
    },
    "double backward": {"Gradients/Default/network3-Block/Grad_tanh_backward/mul-op0": "block line"},
    "tensor hooks": {
        "Gradients/Default/network3-Block/fc-Linear/Grad_linear/mul-op0": "lambda g: g * 2",
        "Gradients/Default/network3-Block/fc-Linear/Grad_linear/add-op0": "lambda g: g + 1",
        "Gradients/Default/network3-Block/fc-Linear/Grad_linear/detach-op0": "hidden = net.fc(x)",
    },
    "generator": {"Default/network4-Generating/relu-op1": "in a generator"},
    "parametrization": {
        "Default/network3-Block/fc-ParametrizedLinear/parametrizations/weight-ParametrizationList/0-Doubled/mul-op0": (
            "parametrization line"
        ),
    },
    "retain_graph": {"Gradients/Default/network3-Block/fc-Linear/Grad_linear/add_-op0": "block line"},
}


@pytest.mark.parametrize("case", EXPECTED)
def test_names_and_lines(case, cases):
    source = (cases.directory / "train.py").read_text().splitlines()
    rows = {row["op_name"]: row for row in cases.listed[case]}
    for name, text in EXPECTED[case].items():
        assert name in rows, list(rows)
        assert text in source[rows[name]["source_line"] - 1]


def test_forwards_run_again_do_not_move_the_numbers_of_others(cases):
    for case in ("checkpoint", "checkpoint, reentrant"):
        # PyTorch before 2.10 imports modules in its first checkpoint, and operators run in the import.
        forward = [name for name in names(cases, case) if re.match("Default/network.*-Block/", name)]
        assert len(forward) == 4 and all(name.endswith("-op0") for name in forward), forward


def test_under_autocast_the_inner_operator_is_the_computation(cases):
    rows = [r for r in cases.listed["autocast"] if r["op_type"] == "linear"]
    assert {row["dtype"] for row in rows} == {"bfloat16"}
    assert len({row["op_name"] for row in rows}) == 1


PROFILED = """
    import sonde, torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step():
        net(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    def profiled(**options):
        with profile(activities=[ProfilerActivity.CPU], **options) as prof:
            step()
        return sum(event.count for event in prof.key_averages() if event.key == "aten::addmm")

    step()
    with sonde.capture(out="{first}") as session:  # Sonde first, then the profiler
        found = [profiled(), profiled(record_shapes=True), profiled(with_stack=True, profile_memory=True)]
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:  # the profiler first
        with sonde.capture(out="{second}") as session:
            step()
            step()
        step()
    found.append(sum(event.count for event in prof.key_averages() if event.key == "aten::addmm"))
    print(found, net[0].weight.sum().item().hex())
"""


def test_the_profiler_and_sonde_do_not_disturb_each_other(train, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    run = train(PROFILED.format(first=first, second=second))
    assert run.status == 0, run.stderr
    assert run.stdout.startswith("[1, 1, 1, 3]")
    bare = train(PROFILED.format(first=first, second=second).replace("with sonde.capture(", "with bare("). replace(
        "import sonde, torch", "import contextlib, torch; bare = lambda out: contextlib.nullcontext()"))  # fmt: skip
    assert bare.stdout == run.stdout, bare.stderr
    for dump, steps in ((first, [0, 1, 2]), (second, [0, 1])):
        assert dumps.steps(dump) == steps
        names = [{r["Op Name"] for r in dumps.statistics(dump, i) if r["Op Type"] != "Parameter"} for i in steps]
        # Operators after the optimizer belong to the step that is ending.
        assert all("Default/network-Sequential/0-Linear/linear-op0" in n for n in names)
        assert all(len(n) == len(names[0]) for n in names[:-1])
