"""torch.compile: a compiled model is recorded node by node, and computes the same bits."""

import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import dumps
import pytest
from processes import CLI, python

PROGRAM = """
    import contextlib, csv, glob, hashlib, json, os, sys
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.manual_seed(0)
    torch.set_num_threads(1)


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(8)
            self.up = nn.Linear(8, 16)
            self.down = nn.Linear(16, 8)

        def forward(self, x):
            return x + F.dropout(self.down(F.gelu(self.up(self.norm(x)))), 0.1, self.training)


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.Sequential(Block())
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.blocks(x))
"""

TRAINING = (
    PROGRAM
    + """
    digest = hashlib.sha256()
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    compiled = torch.compile(net)
    for i in range(4):
        x, y = torch.randn(4, 8), torch.tensor([0, 1, 2, 1])
        with torch.autocast("cpu", torch.bfloat16):  # fused kernels keep values that the tensors round
            loss = F.cross_entropy(compiled(x).float(), y)
        loss.backward()
        for parameter in net.parameters():
            digest.update(parameter.grad.numpy().tobytes())
        optimizer.step()
        optimizer.zero_grad()
    for parameter in net.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    print(digest.hexdigest())
    """
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where Inductor keeps compiled code for all tests of this file."""
    return str(tmp_path_factory.mktemp("inductor"))


@pytest.mark.long
def test_a_result_of_a_graph_is_its_node_s_also_where_memory_is_reused(train, config, dump, cache, sonde):
    """Inductor may put a result into memory that another node's result had, as for the mean of a loss."""
    source = """
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 4)
    loss_of = torch.compile(lambda x, y: torch.nn.functional.cross_entropy(layer(x), y))
    loss = loss_of(torch.randn(2, 8), torch.tensor([1, 2]))
    loss.backward()
    print(loss.item())


    def several(x, counts):  # frexp writes its second result over the sum
        counted = counts.sum(-1, dtype=torch.int32)
        product = torch.mm(x, x)
        mantissa, exponent = torch.frexp(product[:, 0] + counted)
        for _ in range(5):
            product = (product * 1.1).cos()
        return mantissa, exponent, product.sum()


    def parts(x):  # views of a view: parts of what has no memory of its own but the tap's
        left, right = (x * 2).cos().split(4, -1)
        first, second = left.split(2, -1)
        return first * second, right.sin(), first, second


    @torch.library.custom_op("mine::scale_into", mutates_args={"out"})
    def scale_into(x: torch.Tensor, out: torch.Tensor, factor: float) -> None:
        out.copy_(x * factor)


    @torch.library.custom_op("mine::add_to", mutates_args={"out"})
    def add_to(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        out.add_(x)
        return x * 3


    @add_to.register_fake
    def _(x, out):
        return torch.empty_like(x)


    def writes(x):  # a library's operators, into memory that is not written before
        out = torch.empty_like(x)
        scale_into(x, out, 2.0)
        tripled = add_to(x, out)
        return out * 1, tripled.sum(), torch.empty(5, 7).view(7, 5).mT


    with torch.no_grad():
        _, exponent, _ = torch.compile(several)(torch.randn(16, 16), torch.randint(0, 9, (16, 100)))
        print(exponent.abs().max().item())
        _, _, first, second = torch.compile(parts)(torch.randn(6, 8))
        print(first.max().item(), second.max().item())
        x = torch.randn(6, 8)
        torch.compile(writes)(x)
        print(*((x * factor).max().item() for factor in (2, 3, 3)))
    """
    done = train(source, config(saved_data="statistic"), TORCHINDUCTOR_CACHE_DIR=cache)
    assert "taps cannot be made" not in done.stderr
    loss, exponent, *maxima = map(float, done.stdout.split())
    graph = json.loads(sonde("graph", dump, "--json").stdout)
    (begins,) = (op for op in graph["ops"] if op["op_type"] == "ones_like")
    assert begins["inputs"][0]["op_name"] == "Default/div-op0"
    rows = dumps.statistics(dump, 0)
    (read,) = (row for row in rows if row["Op Type"] == "ones_like" and row["IO"] == "input")
    assert float(read["Max Value"]) == pytest.approx(loss, rel=1e-5)
    (negated,) = (op for op in graph["ops"] if op["op_type"] == "abs")
    assert (negated["inputs"][0]["op_name"], negated["inputs"][0]["slot"]) == ("Default/frexp-op0", 1)
    (read,) = (row for row in rows if row["Op Type"] == "abs" and row["IO"] == "output")
    assert float(read["Max Value"]) == exponent
    outputs = [row for row in rows if row["IO"] == "output" and row["Op Type"] in ("scale_into", "add_to", "empty")]
    halves = [row for row in rows if row["IO"] == "output" and row["Op Name"].endswith("/split-op1")]
    assert [float(row["Max Value"]) for row in halves + outputs] == pytest.approx(maxima, rel=1e-5)
    assert not [row for row in rows if row["Shape"] in ("[5,7]", "[7,5]")]  # nobody has written it, nor views of it


EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/compile_diff"


@pytest.fixture(scope="module")
def eager(tmp_path_factory):
    """The dump of the example's eager training."""
    out = tmp_path_factory.mktemp("eager") / "dump"
    command = [CLI, "run", "--out", out, "--", *python(), EXAMPLE / "train.py", "eager"]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    return out


def names_of(dump, step, graph=0):
    rows = dumps.statistics(dump, step, graph)
    return list(dict.fromkeys(row["Op Name"] for row in rows if row["Op Type"] != "Parameter"))


def test_a_compiled_training_has_the_same_bits_and_names_of_modules(train, config, dump, cache):
    surroundings = {"TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_COMPILE_THREADS": 2}
    bare = train(TRAINING, **surroundings)
    plan = config(saved_data="statistic", iteration="0|2")
    done = train(TRAINING, plan, **surroundings)
    assert done.stdout == bare.stdout
    assert "error" not in done.stderr
    assert dumps.steps(dump) == [0, 2]  # both forms of each graph ran
    first = names_of(dump, 0)
    assert first == names_of(dump, 2)
    assert "Default/network-Net/blocks/0-Block/up-Linear/addmm-op0" in first
    assert "Gradients/Default/network-Net/head-Linear/Grad_addmm/mm-op1" in first
    for scope in ("Default/network-Net/blocks/0-Block", "Gradients/Default/network-Net/blocks/0-Block"):
        assert any(name.startswith(f"{scope}/norm-LayerNorm/") for name in first)
    assert not any("OptimizedModule" in name or "_orig_mod" in name for name in first)
    assert "Default/linear-op0" not in first  # of the compiler's own runs of the program


def test_a_second_process_takes_the_code_with_taps_from_the_cache(train, config, dump, cache):
    count = """
    import atexit
    from torch._dynamo.utils import counters
    atexit.register(lambda: print(counters["inductor"]["fxgraph_cache_miss"]))
    """
    plan = config(saved_data="statistic", iteration="0|2")
    train(TRAINING, plan, TORCHINDUCTOR_CACHE_DIR=cache)
    names = names_of(dump, 2)
    done = train(TRAINING + count, config(saved_data="statistic", iteration="0|2"), TORCHINDUCTOR_CACHE_DIR=cache)
    assert done.stdout.split()[-1] == "0"
    assert names_of(dump, 2) == names


INTERPRETED = (
    PROGRAM
    + """
    import copy, operator
    import sonde
    from sonde.compiled import calls, forms, nodes, taps

    graphs, runs = {}, []
    insert, run = taps.insert, forms.Forms.run


    def keep_and_insert(graph, *args):
        graphs[args[0]] = copy.deepcopy(graph)  # what Inductor generates code from
        return insert(graph, *args)


    def keep_and_run(self, inputs):
        with calls.Tracing(calls.Family.host):  # not the program's operators
            runs.append((self.backward, self._module, [one.clone() for one in inputs]))
        return run(self, inputs)


    taps.insert, forms.Forms.run = keep_and_insert, keep_and_run
    net = Net().eval()  # without random numbers
    x, y = torch.randn(4, 8), torch.tensor([0, 1, 2, 1])
    torch.compile(lambda: F.cross_entropy(net(x), y))().backward()
    sonde.stop()


    class Values(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            if getattr(target, "__name__", "") != "scatter_upon_const_tensor":
                return super().call_function(target, args, kwargs)
            # A lowering in the graph: PyTorch up to 2.9 replaces full() and scatter() by it.
            whole = torch.full(kwargs["shape"], kwargs["background_val"], dtype=kwargs["dtype"])
            return whole.scatter(kwargs["dim"], kwargs["selector"], kwargs["val"])

        def run_node(self, node):
            result = super().run_node(node)
            if node.op == "call_function" and node.target is not operator.getitem:
                several = isinstance(result, tuple | list)
                used = [not several or any(user.args[1] == i for user in node.users) for i in range(8)]
                for i, value in enumerate(result if several else [result]):
                    if used[i]:
                        unfused = all(one.op == "placeholder" for one in node.all_input_nodes)
                        value = value.double()
                        facts = (value.max().item(), value.min().item(), value.norm().item(), unfused)
                        print(json.dumps([nodes.op_type_of(node.target), i, *facts]))
            return result


    for backward, module, inputs in runs:
        Values(torch.fx.GraphModule(module, graphs[backward])).run(*inputs)
    """
)


COPIES = """
    class Copies(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(8, 64)
            self.head = nn.Linear(64, 3)

        def forward(self, x):
            x = self.up(x).view(512, 8, 8).transpose(0, 1).contiguous()
            x = torch.where(x.view(8, 4096) > 1, 2.0, x.view(8, 4096).sin())
            x = x + torch.full((8, 4096), 0.5)
            return self.head(x.view(8, 512, 8).transpose(0, 1).reshape(512, 64))


    net = Copies()
    x, y = torch.randn(512, 8), torch.randint(0, 3, (512,))
"""


def interpreted_values(done, dump):
    """[(operator, slot, values, whether a kernel computes it alone)] of the interpreter, and the rows of the dump."""
    assert done.status == 0, done.stderr
    expected = [json.loads(line) for line in done.stdout.splitlines()]
    rows = [row for row in dumps.statistics(dump, 0) if row["IO"] == "output" and row["Op Type"] != "Parameter"]
    eager = {"ones_like", "detach"}  # autograd's own, around the compiled graphs
    rows = [row for row in rows if row["Op Type"] not in eager]
    found = [(row["Op Type"], int(row["Slot"])) for row in rows]
    assert found == [(kind, slot) for kind, slot, *_ in expected]
    for row, (_, _, *values, _) in zip(rows, expected, strict=True):
        recorded = [float(row[f"{name} Value"]) for name in ("Max", "Min", "L2Norm")]
        assert recorded == pytest.approx(values, rel=1e-5, abs=1e-7), row["Op Name"]
    return expected, rows


VALUES = {"saved_data": "statistic", "statistic_category": ["max", "min", "l2norm"]}


@pytest.mark.long
def test_values_of_a_training_s_nodes_are_those_of_the_interpreted_graphs(train, config, dump, cache):
    """In the order of both graphs; equal bits where a kernel computes a node alone from the graph's inputs."""
    done = train(INTERPRETED, config(**VALUES), TORCHINDUCTOR_CACHE_DIR=cache)
    expected, rows = interpreted_values(done, dump)
    assert {kind for kind, *_ in expected} > {"addmm", "mm", "erf", "rsqrt", "sum"}
    assert sum(unfused for *_, unfused in expected) > 3
    for row, (kind, _, *values, unfused) in zip(rows, expected, strict=True):
        if unfused:
            recorded = [float(row[f"{name} Value"]) for name in ("Max", "Min", "L2Norm")]
            assert [f"{one:g}" for one in recorded] == [f"{one:g}" for one in values], (kind, row["Op Name"])


@pytest.mark.long
def test_a_copy_is_one_memory_with_its_views_and_a_constant_is_one_element(train, config, dump, tmp_path):
    program = INTERPRETED.replace("    torch.compile(lambda", f"{COPIES}\n    torch.compile(lambda")
    done = train(program, config(**VALUES), TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    expected, _ = interpreted_values(done, dump)
    assert {kind for kind, *_ in expected} > {"clone", "full", "sin", "where"}
    code = "".join(file.read_text() for file in tmp_path.glob("cache/*/*.py"))
    copies = re.findall(r"(buf\d+) = sonde_memory\(\(8, 512, 8\), \(4096, 8, 1\)", code)
    assert any(f"[reinterpret_tensor({copy}, (8, 4096), (4096, 1), 0)]" in code for copy in copies)
    assert re.search(r"\[reinterpret_tensor\(buf\d+, \(8, 4096\), \(0, 0\), 0\)\]", code)


CASES = (
    PROGRAM
    + """
    import sonde
    import torch._inductor.config as inductor

    root = sys.argv[1] if len(sys.argv) > 1 else os.environ["CASES"]
    users = []


    def names(path):
        found = {}
        for file in sorted(glob.glob(path + "/rank_0/*/*/*/statistic.csv")):
            rows = [row for row in csv.DictReader(open(file)) if row["Op Type"] != "Parameter"]
            found["/".join(file.split("/")[-3:-1])] = list(dict.fromkeys(row["Op Name"] for row in rows))
        return found


    @contextlib.contextmanager
    def case(name, **common):
        settings = sonde.session.settings(f"{root}/{name}", saved_data="statistic", statistics=["max"])
        settings["common_dump_settings"] |= common
        torch.manual_seed(0)
        sonde.start(settings)
        try:
            yield
        finally:
            sonde.stop()
            print(json.dumps([name, names(f"{root}/{name}")]))


    class Small(nn.Module):
        def __init__(self, breaks=False):
            super().__init__()
            self.one = nn.Linear(4, 6)
            self.two = nn.Linear(6, 3)
            self.breaks = breaks

        def forward(self, x):
            x = torch.relu(self.one(x))
            if self.breaks:
                torch._dynamo.graph_break()
            return self.two(x)


    class Scoped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Small()

        def forward(self, x):
            with sonde.dump_scope():
                x = x * 2
            sonde.set_dump(self.inner.two)
            return self.inner(x)


    def training(model, call, steps=2, rows=5):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i in range(steps):
            call(torch.randn(rows + i * (rows != 5), 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


    with case("break"):
        model = Small(breaks=True)
        training(model, torch.compile(model))
    with case("function"):
        model = Small()
        training(model, torch.compile(lambda x: model(x) * 2, fullgraph=True))
    with case("in_place"):
        model = Small()
        model.compile()
        training(model, model)
    with case("dynamic"):
        model = Small()
        training(model, torch.compile(model, dynamic=True), rows=6)
    with case("inference"), torch.inference_mode():
        compiled = torch.compile(Small())
        for _ in range(3):
            compiled(torch.randn(5, 4))
    with case("optimizer"):
        model = Small()
        optimizer = torch.optim.Adam(model.parameters(), 0.1)
        compiled, step = torch.compile(model), torch.compile(lambda: optimizer.step())
        for _ in range(2):
            compiled(torch.randn(5, 4)).sum().backward()
            step()
            optimizer.zero_grad()
    with case("selected", dump_mode=1, kernels=["addmm", "threshold_backward"]):
        model = Small()
        training(model, torch.compile(model))
    mindspore_2_0 = sonde.session.settings(f"{root}/old", saved_data="statistic")
    mindspore_2_0["common_dump_settings"] |= {"dump_mode": 1, "kernels": ["MatMul", "linear-op12"]}
    mindspore_2_0["sonde_settings"] = {"version": "2.0"}
    for settings in (
        {"dump": {"dump_path": root, "dump_list": [{"model_name": "Sequential", "layer": ["MatMul", "Relu"]}]}},
        {"dump": {"dump_path": root, "dump_level": "op", "dump_list": [
            {"model_name": "Sequential", "opname_range": [{"begin": "MatMul", "end": "softmax"}]}]}},
        {"dump_config": {"enable_dump": True, "dump_path": root, "dump_layer": "MatMul"}},
        mindspore_2_0,
    ):
        sonde.start(settings)
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
        training(model, torch.compile(model), steps=1, rows=1)  # one row: neither linear nor addmm nor mm
        sonde.stop()
    with case("inputs", input_output=1):
        model = Small()
        training(model, torch.compile(model))
    class Logarithm(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(4, 6)

        def forward(self, x):
            x = self.one(x)
            x = torch.log(x)
            return x.sin()


    with case("not_a_number"):
        model = Logarithm()
        training(model, torch.compile(model))
    with case("flagged", dump_mode=2):
        model = Scoped()
        training(model, torch.compile(model, fullgraph=True))
    with case("eager"):
        model = Small()
        training(model, torch.compile(model, backend="eager"))
    with case("users_pass"), inductor.patch(post_grad_custom_post_pass=lambda graph: users.append(len(graph.nodes))):
        model = Small()
        training(model, torch.compile(model, dynamic=False, options={"epilogue_fusion": True}))
    print(json.dumps(["users", users]))


    def fails(graph):
        raise ValueError("this pass fails")


    with case("fails"), inductor.patch(post_grad_custom_post_pass=fails):
        torch._dynamo.reset()
        try:
            torch.compile(Small())(torch.randn(5, 4))
        except Exception as error:
            print(json.dumps(["raised", "this pass fails" in str(error)]))
    """
)


@pytest.fixture(scope="module")
def cases(tmp_path_factory, cache):
    directory = tmp_path_factory.mktemp("cases")
    (directory / "cases.py").write_text(textwrap.dedent(CASES))
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "CASES": str(directory / "dumps")}
    command = [sys.executable, "cases.py"]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    return answers, done.stderr, directory / "dumps"


ONE, TWO = "Default/network-Small/one-Linear/addmm-op0", "Default/network-Small/two-Linear/addmm-op0"


@pytest.mark.parametrize("name", ["break", "function", "in_place", "dynamic"])
def test_nodes_have_the_names_of_their_modules(cases, name):
    answer = cases[0][name]
    assert list(answer) == ["0/0", "0/1"]
    for names in answer.values():
        assert names.index(ONE) < names.index(TWO)
        assert "Gradients/Default/network-Small/two-Linear/Grad_addmm/mm-op0" in names
        assert sum("/one-Linear/Grad_addmm/mm" in one for one in names) == 1
        assert "Default/optimizer-SGD/add_-op0" in names
        assert not any("linear-op" in one for one in names)


def test_a_graph_break_leaves_one_stream_in_order(cases):
    names = cases[0]["break"]["0/1"]
    relu = next(one for one in names if "/relu-op" in one or "/maximum-op" in one)
    assert names.index(ONE) < names.index(relu) < names.index(TWO)


def test_calls_of_a_compiled_model_without_gradients_are_evaluations(cases):
    assert {step: ONE in names for step, names in cases[0]["inference"].items()} == dict.fromkeys(
        ["1/0", "1/1", "1/2"], True
    )


def test_a_compiled_step_of_an_optimizer_ends_the_step(cases):
    answer = cases[0]["optimizer"]
    assert list(answer) == ["0/0", "0/1"]
    assert set(answer["0/0"]) >= set(answer["0/1"])
    assert any(name.startswith("Default/optimizer-Adam/sqrt") for name in answer["0/0"])


def test_selected_nodes_have_taps_and_the_others_do_not(cases):
    assert cases[0]["selected"] == {"0/0": [ONE, TWO], "0/1": [ONE, TWO]}


def test_a_chosen_operator_that_decomposition_replaced_is_named_once(cases):
    line = "sonde: 'threshold_backward' is chosen, but a compiled graph computes it by le, full, where; choose one of "
    assert cases[1].count(line) == 1


def test_an_entry_that_matches_nothing_says_what_computes_it_in_every_layout(cases):
    computed = "matched nothing: a compiled graph computes addmm, linear by permute, mul, sum, add"
    lines = [line for line in cases[1].splitlines() if "matched nothing" in line]
    for key, entry in (
        ("dump_list[0].layer", "MatMul"),
        ("dump_list[0].opname_range", "MatMul"),
        ("dump_config.dump_layer", "MatMul"),
        ("kernels", "MatMul"),
    ):
        (line,) = (one for one in lines if one.startswith(f"sonde: {key} entry '{entry}'"))
        assert computed in line and line.endswith("; choose one of these, or its module"), line
    (numbered,) = (one for one in lines if "'linear-op12'" in one)
    assert "a compiled graph computes linear by" in numbered


def test_inputs_alone_are_read_from_their_makers(cases):
    assert ONE in cases[0]["inputs"]["0/0"]
    assert TWO in cases[0]["inputs"]["0/0"]


def test_dump_scope_and_set_dump_select_nodes_of_a_full_graph(cases):
    names = cases[0]["flagged"]["0/0"]
    assert "Default/network-Scoped/mul-op0" in names
    assert "Default/network-Scoped/inner-Small/two-Linear/addmm-op0" in names
    assert not any("/one-Linear/" in name or "relu" in name for name in names)


def test_another_backend_runs_operators_that_are_recorded(cases):
    names = cases[0]["eager"]["0/0"]
    assert names[:3] == [f"Default/network-Small/{name}" for name in ("linear-op0", "relu-op0", "linear-op1")]
    assert names[:3] == cases[0]["eager"]["0/1"][:3]


def test_the_users_own_pass_runs_too(cases):
    assert len(cases[0]["users"]) >= 2
    assert ONE in cases[0]["users_pass"]["0/0"]


def test_a_compilation_that_fails_by_itself_fails_in_the_same_way(cases):
    assert cases[0]["raised"] is True
    assert "cannot be made" not in cases[1]
    assert "internal error" not in cases[1]


def test_graphs_compiled_before_the_recording_are_counted(train, cache):
    source = (
        PROGRAM
        + """
    import sonde

    compiled = torch.compile(Net().eval())
    with torch.no_grad():
        compiled(torch.randn(4, 8))
        sonde.start(sonde.session.settings(os.getcwd() + "/late"))
        compiled(torch.randn(4, 8))
    """
    )
    done = train(source, TORCHINDUCTOR_CACHE_DIR=cache)
    assert "compiled before the recording began are not recorded node by node: 1" in done.stderr


def test_first_bad_names_the_node_and_its_line(cases, sonde):
    found = sonde("first-bad", cases[2] / "not_a_number")
    assert found.status == 1
    assert "Default/network-Logarithm/log-op0" in found.stdout
    assert "x = torch.log(x)" in found.stdout
    assert re.search(r"in the compiled code it is part of cpp_fused_\w*log\w*", found.stdout), found.stdout


@pytest.mark.parametrize("bug", ["decomposition", pytest.param("stride", marks=pytest.mark.long)])
def test_a_bug_of_the_compiled_model_is_found_from_its_dump_and_the_eager_one(sonde, tmp_path, eager, bug):
    out = tmp_path / "compiled"
    recorded = sonde("run", "--out", out, "--", *python(), EXAMPLE / "train.py", "compiled", "--bug", bug)
    assert recorded.status == 0, recorded.stderr
    answer = sonde("compare", out, eager)
    assert answer.status == 1
    line = {"decomposition": "h = F.softplus(h)", "stride": "h = h * self.scale"}[bug]
    assert re.match(r"first difference( \(uncertain\))?: step 0, ", answer.stdout), answer.stdout
    assert re.search(r"^ *source +(.*)$", answer.stdout, re.MULTILINE)[1] == line, answer.stdout
