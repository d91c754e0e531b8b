"""torch.compile in less common modes: each computes the same bits as without a recording, and has its nodes."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from processes import CLI, run_alone

import sonde
from sonde import adapter

CASES = """
    import contextlib, csv, glob, hashlib, json, sys, threading

    import torch
    import torch._inductor.config as inductor
    from torch import nn

    import sonde
    from sonde.compiled import forms, lowering

    torch.set_num_threads(1)


    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(4, 6)

        def forward(self, x):
            return torch.sin(self.one(x)) * 2


    class Convolutions(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1)
            self.norm = nn.BatchNorm2d(4)
            self.head = nn.Linear(64, 3)

        def forward(self, x):
            return self.head(torch.relu(self.norm(self.conv(x))).flatten(1))


    class Large(nn.Module):  # results of more than 128 KiB, whose memory Sonde keeps between calls
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(8, 64)
            self.head = nn.Linear(64, 3)

        def forward(self, x):
            x = self.up(x).view(-1, 8, 8).transpose(0, 1).contiguous()
            x = torch.where(x > 1, torch.full_like(x, 2.0), x.sin()) + x.mean(1, keepdim=True)
            return self.head(x.transpose(0, 1).reshape(-1, 64))


    def bytes_of(tensor):
        return tensor.detach().float().numpy().tobytes()


    def inference():
        call = torch.compile(Small().eval())
        with torch.no_grad():
            return b"".join(bytes_of(call(torch.full((5, 4), float(i)))) for i in range(3))


    def convolutions():
        model = Convolutions()
        call = torch.compile(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16):
                loss = call(torch.randn(2, 3, 4, 4)).float().square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return b"".join(map(bytes_of, model.parameters()))


    def large():
        model, results = Large(), []
        call = torch.compile(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i in range(4):
            results.append(call(torch.randn(900 + 100 * i, 8)))  # sizes that are known only at run time
            results[-1].square().mean().backward()
            optimizer.step()
        return b"".join(map(bytes_of, [*results, *model.parameters()]))


    def threads():
        models, results = [Small(), Small()], [b"", b""]

        def work(i):
            results[i] = bytes_of(torch.compile(models[i])(torch.ones(5 + i, 4)))

        started = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for one in started:
            one.start()
        for one in started:
            one.join()
        return b"".join(results)


    def own_backend():
        return bytes_of(torch.compile(Small(), backend=lambda graph, inputs: graph.forward)(torch.ones(5, 4)))


    def names(path):
        found = {}
        for file in sorted(glob.glob(path + "/rank_0/*/*/*/statistic.csv")):
            rows = [row for row in csv.DictReader(open(file)) if row["Op Type"] != "Parameter"]
            found["/".join(file.split("/")[-3:-1])] = list(dict.fromkeys(row["Op Name"] for row in rows))
        return found


    def run(body):
        torch._dynamo.reset()
        torch.manual_seed(0)
        return hashlib.sha256(body()).hexdigest()


    def case(name, body, iteration="all", trouble=contextlib.nullcontext):
        bare = run(body)
        sonde.start(sonde.session.settings(f"dumps/{name}", iteration=iteration, statistics=["max"]))
        with trouble():
            recorded = run(body)
        sonde.stop()
        print(json.dumps([name, recorded == bare, names(f"dumps/{name}")]))


    @contextlib.contextmanager
    def replaced(owner, name, function):
        original = getattr(owner, name)
        setattr(owner, name, function)
        try:
            yield
        finally:
            setattr(owner, name, original)


    def no_plain_form(original=forms.Forms._later):
        def later(self, choice):
            if choice is None:
                raise ValueError("planted")
            return original(self, choice)

        return replaced(forms.Forms, "_later", later)


    def unknown_inductor():
        def taps_are_lowered():
            raise AttributeError("type object 'Scheduler' has no attribute 'can_fuse'")

        return replaced(lowering, "taps_are_lowered", taps_are_lowered)


    if sys.argv[1] == "cpp":
        with inductor.patch(cpp_wrapper=True):
            case("cpp_wrapper", inference)
        sys.exit()
    case("autocast", convolutions, iteration="0|2")
    case("large", large)
    case("threads", threads)
    case("own_backend", own_backend)
    case("no_plain_form", inference, iteration="0", trouble=no_plain_form)
    case("unknown_inductor", inference, trouble=unknown_inductor)
"""


def cases_of(directory, which):
    """({case: (the same bits, {graph/step: names})}, standard error)"""
    (directory / "cases.py").write_text(textwrap.dedent(CASES))
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(directory / "cache")}
    command = [sys.executable, "cases.py", which]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return {name: (same, names) for name, same, names in answers}, done.stderr


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return cases_of(tmp_path_factory.mktemp("modes", numbered=True), "others")


ADDMM = "Default/network-Small/one-Linear/addmm-op0"


@pytest.mark.parametrize("name", ["autocast", "large", "threads", "own_backend", "no_plain_form", "unknown_inductor"])
def test_recording_changes_no_bit(cases, name):
    assert cases[0][name][0]


@pytest.mark.long  # g++ reads PyTorch's headers for each graph
def test_code_in_cpp_alone_has_the_same_bits_and_its_nodes(tmp_path):
    cases, error = cases_of(tmp_path, "cpp")
    is_same, answer = cases["cpp_wrapper"]
    assert is_same and len(answer) == 3
    is_refused = "C++ wrapper cannot call operators without results" in error
    assert is_refused == (adapter.find_torch().minor == "2.6"), error
    assert all((ADDMM in names) != is_refused for names in answer.values())


def test_a_convolution_net_under_autocast_has_its_nodes_in_the_chosen_steps(cases):
    answer = cases[0]["autocast"][1]
    assert list(answer) == ["0/0", "0/2"]
    for names in answer.values():
        assert "Default/network-Convolutions/conv-Conv2d/convolution-op0" in names
        assert any(name.startswith("Gradients/Default/network-Convolutions/norm-BatchNorm2d/") for name in names)


def test_calls_with_large_results_of_changing_sizes_have_their_nodes(cases):
    answer = cases[0]["large"][1]
    assert list(answer) == ["0/0", "0/1", "0/2", "0/3"]
    assert all("Default/network-Large/sin-op0" in names for names in answer.values())


def test_two_threads_compile_at_once(cases):
    assert sum(ADDMM in names for names in cases[0]["threads"][1].values()) >= 1


def test_a_backend_of_the_users_own_runs_operators_that_are_recorded(cases):
    assert "Default/network-Small/linear-op0" in cases[0]["own_backend"][1]["0/0"]


def test_where_the_form_without_taps_cannot_be_made_the_other_runs_in_all_steps(cases):
    assert {place.partition("/")[2] for place in cases[0]["no_plain_form"][1]} == {"0"}
    assert (
        "runs with taps in all steps, with the same results: its code without taps cannot be made: planted" in cases[1]
    )


def test_an_inductor_that_is_not_known_is_named_in_one_line(cases):
    assert not any("addmm" in name for names in cases[0]["unknown_inductor"][1].values() for name in names)
    said = [line for line in cases[1].splitlines() if "'Scheduler' has no attribute 'can_fuse'" in line]
    assert len(said) == 1
    assert "recorded as a whole, not node by node" in said[0]


BREAKS = """
    import torch
    from torch import nn

    torch._dynamo.config.specialize_float = True  # PyTorch 2.6 fails without it where a graph breaks at a number
    torch.set_num_threads(1)


    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(4, 6), nn.Linear(6, 2)

        def forward(self, x):
            x = torch.sin(self.one(x))
            if x.mean().item() > 1e9:  # the graph breaks
                x = x * 3
            return self.two(x)


    model = Broken()
    call = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        call(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_dynamo_compiles_nothing_of_ours_where_a_graph_breaks(tmp_path):
    (tmp_path / "train.py").write_text(textwrap.dedent(BREAKS))
    command = [CLI, "run", "--out", "dump", "--", sys.executable, "train.py"]
    done = run_alone(tmp_path, *command, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    assert "_getframe" not in done.stderr + done.stdout
    assert len(list(tmp_path.glob("dump/rank_0/*/0/[0-9]*"))) == 3


@pytest.mark.parametrize("compiled", [False, True])
def test_a_module_whose_call_is_its_own_has_its_name(train, config, dump, compiled):
    """As vLLM's: its __call__ is not PyTorch's, and calls what is compiled."""
    source = """
    import torch
    from torch import nn

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(4, 4)
            object.__setattr__(self, "compiled", torch.compile(self.forward))

        def forward(self, x):
            return self.up(x).cos()

        def __call__(self, x):
            return self.compiled(x) if COMPILED else self.forward(x)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Inner()

        def forward(self, x):
            return self.model(x)

    with torch.inference_mode():
        Outer()(torch.ones(2, 4))
    """
    run = train(source.replace("COMPILED", str(compiled)), config())
    assert run.status == 0, run.stderr
    names = {op.op_name for op in sonde.open(dump).ops if not op.is_parameter}
    assert any(name.startswith("Default/network-Outer/model-Inner/up-Linear/") for name in names), names
