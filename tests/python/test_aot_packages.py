"""Packages of AOTInductor: taps in them record where Sonde is, and do nothing where it is not."""

import functools
import json
import pathlib
import re
import textwrap

import dumps
import pytest
from processes import CLI, python, run_alone

import sonde
from sonde import adapter

pytestmark = pytest.mark.long  # test_compiled_modes.py looks at Inductor's wrappers in C++

run = functools.partial(run_alone, timeout=280)

PACKAGE = """
    import sonde, torch
    from torch import nn
    from torch._inductor import aoti_compile_and_package
    from torch.nn import functional as F


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(8, 16)
            self.down = nn.Linear(16, 8)

        def forward(self, x):
            return x + self.down(F.gelu(self.up(x)))


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.Sequential(Block(), Block())

        def forward(self, x):
            x = self.blocks(x)
            mantissa, exponent = torch.frexp(x[:, 0] + x.int().sum(-1, dtype=torch.int32))
            return x.log_softmax(-1), mantissa, exponent


    torch.manual_seed(0)
    example = (torch.randn(4, 8),)
    exported = torch.export.export(Net().eval(), example)
    aoti_compile_and_package(exported, package_path="plain.pt2")
    settings = sonde.session.settings("unused")
    settings["common_dump_settings"] |= {"dump_mode": 1, "kernels": ["addmm", "erf", "sub"]}
    sonde.start(settings)
    exported.module()(*example)  # the names of operators are known from the first step on
    aoti_compile_and_package(exported, package_path="net.pt2")
    sonde.stop()
"""

RUN = """
    import sys, torch

    torch.manual_seed(1)
    model = torch._inductor.aoti_load_package(sys.argv[1])
    for _ in range(3):
        result, _, exponent = model(torch.randn(4, 8))
        print(result.double().sum().item().hex())
        exponent.abs()
"""


@pytest.fixture(scope="module")
def packages(once_per_run):
    """A directory with plain.pt2, without taps, net.pt2, and run.py."""
    return once_per_run("packages", make_packages)


def make_packages(directory):
    (directory / "package.py").write_text(textwrap.dedent(PACKAGE))
    (directory / "run.py").write_text(textwrap.dedent(RUN))
    done = run(directory, *python(), "package.py", TORCHINDUCTOR_CACHE_DIR=str(directory / "cache"))
    assert "error" not in done.stderr and "no taps" not in done.stderr


@pytest.fixture(scope="module")
def recorded(packages):
    out = packages / "dump"
    return run(packages, CLI, "run", "--out", out, "--saved-data", "full", "--", *python(), "run.py", "net.pt2")


def ops_of(dump, step=1):
    shown = run("/", CLI, "graph", dump, "--graph", "1", "--step", str(step), "--json")
    return {op["op_name"]: op for op in json.loads(shown.stdout)["ops"]}


UP = "Default/network-Net/blocks/1-Block/up-Linear/addmm-op0"


def test_a_package_with_taps_computes_the_same_bits_with_sonde_and_without(packages, recorded):
    plain = run(packages, *python(), "run.py", "plain.pt2", SONDE_OFF="1")
    tapped = run(packages, *python(), "run.py", "net.pt2", SONDE_OFF="1")
    assert plain.stdout.count("\n") == 3
    assert tapped.stdout == plain.stdout == recorded.stdout
    assert timeless(tapped.stderr) == timeless(plain.stderr)


def timeless(log):
    """Without the time and the process that begin PyTorch's own lines."""
    return re.sub(r"^([A-Z])\d{4} [\d:.]+ \d+ ", r"\1 ", log, flags=re.MULTILINE)


def test_nodes_of_a_package_have_modules_lines_parameters_and_steps(packages, recorded):
    assert {(step.graph, step.step) for step in sonde.open(packages / "dump").steps} == {(1, 0), (1, 1), (1, 2)}
    ops = ops_of(packages / "dump")
    assert ops[UP]["source_file"] == str(packages / "package.py")
    line = (packages / "package.py").read_text().splitlines()[ops[UP]["source_line"] - 1]
    assert line.strip() == "return x + self.down(F.gelu(self.up(x)))"
    assert "blocks.1.up.bias" in {given.get("parameter") for given in ops[UP]["inputs"]}


def test_values_of_nodes_are_those_of_the_package(packages, recorded):
    for step, printed in enumerate(recorded.stdout.split()):
        tensors = dumps.tensors(packages / "dump", step, graph=1)
        last = [values for (name, io, _), values in tensors.items() if name.endswith("sub-op1") and io == "output"]
        assert [values.astype(float).sum() for values in last] == [pytest.approx(float.fromhex(printed), rel=1e-12)]


def test_results_of_a_package_are_those_of_its_nodes(packages, recorded):
    (reader,) = (op for op in ops_of(packages / "dump").values() if op["op_type"] == "abs")
    read = reader["inputs"][0]
    assert (read["op_name"], read["slot"]) == ("Default/network-Net/frexp-op0", 1)


def test_the_configuration_of_the_packaging_selects_the_taps(packages, recorded):
    rows = dumps.statistics(packages / "dump", 1, graph=1)
    inside = {row["Op Type"] for row in rows if row["Op Name"].startswith("Default/network-Net/")}
    assert inside == {"addmm", "erf", "sub"}
    assert "Default/network-Net/exp-op0" in ops_of(packages / "dump"), "its place in the graph"


def test_a_program_without_python_records_a_package(packages):
    found = adapter.find_torch()
    torch = found.directory
    flags = [f"-I{torch}/include", f"-L{torch}/lib", f"-Wl,-rpath,{torch}/lib", "-Wl,--no-as-needed"]
    flags.append(f"-D_GLIBCXX_USE_CXX11_ABI={int(found.cxx11_abi)}")
    source = pathlib.Path(__file__).parents[2] / "examples/libtorch/package.cpp"
    libraries = ["-ltorch", "-ltorch_cpu", "-lc10"]
    run(packages, "c++", "-std=c++20", "-O0", source, *flags, *libraries, "-o", "package")
    bare = run(packages, packages / "package", "net.pt2")
    out = packages / "without_python"
    recorded = run(packages, CLI, "run", "--out", out, "--", packages / "package", "net.pt2")
    assert recorded.stdout == bare.stdout
    assert bare.stdout.count("\n") == 3
    assert {(step.graph, step.step) for step in sonde.open(out).steps} == {(1, 0), (1, 1), (1, 2)}
    assert "blocks.1.up.bias" in {given.get("parameter") for given in ops_of(out)[UP]["inputs"]}
