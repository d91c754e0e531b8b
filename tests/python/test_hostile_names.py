"""Names in a dump, in its tables and in its files control no terminal, whatever verb prints them."""

import json
import re
import sys

import mindspore_tree
import numpy as np
import pytest
from conftest import CLI
from processes import python, run_in, settings_of

import sonde as sonde_package

# A title of the terminal, colours, a C1 control, another direction, an end of a line, a byte that is not UTF-8, an
# unusual blank, and a false line of output.
HOSTILE = "x\x1b]0;owned\x07\x1b[31m\x9b2J\u202egnp\u2066\r\nsonde: error: planted\x7f\u200f\x08\u2028"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")

PROGRAM = """
    import torch
    from torch import nn

    HOSTILE = {hostile!r}
    torch.set_num_threads(1)
    torch.manual_seed(0)  # a Linear with negative results
    Evil = type("Cl" + HOSTILE, (nn.Linear,), {{}})
    net = nn.Sequential()
    net._modules["m" + HOSTILE] = Evil(3, 3)
    net.register_parameter("p" + HOSTILE, nn.Parameter(torch.ones(2, 3)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    space = {{"net": net, "torch": torch, "HOSTILE": HOSTILE}}
    source = "def run(x):\\n    return net(x + net._parameters['p' + HOSTILE]).log()\\n"
    exec(compile(source, "file" + HOSTILE, "exec"), space)
    for step in range(2):
        optimizer.zero_grad()
        space["run"](torch.ones(2, 3) * (step + 1)).sum().backward()
        optimizer.step()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("hostile")
    (directory / "train.py").write_text("\n".join(line[4:] for line in PROGRAM.format(hostile=HOSTILE).splitlines()))
    config = directory / "config.json"
    config.write_text(json.dumps(settings_of(directory / "dump", None, None, {"saved_data": "full"})))
    run = run_in(directory, None, sys.executable, "train.py", MINDSPORE_DUMP_CONFIG=config)
    assert run.status == 0, run.stderr
    _tree(directory)
    _msprobe(directory)
    return directory


def _tree(directory):
    """File names, a table and a source of values that cannot be read."""
    step = directory / "tree/rank_0/Net/0/0"
    step.mkdir(parents=True)
    name = HOSTILE.replace("\x00", "").encode() + b"\xff\xfe"
    for kind, number in ((b"ReLU", 1), (b"Mul", 2)):
        path = (
            bytes(step)
            + b"/"
            + kind
            + b"."
            + name.replace(b"/", b"")
            + b".0.0.%d.output.0.DefaultFormat.Float32.npy" % number
        )
        with open(path, "wb") as file:
            np.save(file, np.float32([1, np.nan]))
    with open(bytes(step) + b"/Add." + name + b".0.0.3.output.0.DefaultFormat.Float32.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00")
    cell = HOSTILE.replace("\n", "").replace("\r", "")
    (step / "statistic.csv").write_text(
        "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value\n"
        f'Cast{cell},Default/{cell},0,0,4,output,0,16,float64{cell},"(2)",1,{cell}\n'
        f'Cast,Default/{cell}2,0,0,5,output,{cell},16,float64,"(2)",1,0\n'
    )
    graphs = directory / "tree/rank_0/execution_order"
    graphs.mkdir()
    (graphs / "ms_execution_order_graph_0.csv").write_text(f"header\nDefault/{cell}\n")


def _msprobe(directory):
    rank = directory / "msprobe/step0/rank0"
    rank.mkdir(parents=True)
    argument = {"type": "torch.Tensor", "dtype": "torch.float32" + HOSTILE, "shape": [2], "Max": 1.0, "Min": 0.0}
    data = {
        f"Functional.{HOSTILE}.0.forward": {
            "input_args": [argument],
            "output": [{**argument, "dtype": "torch.float32"}],
        },
        f"Module.{HOSTILE}.Linear.forward.0": {
            "input_args": [argument],
            "output": [argument],
            "parameters": {HOSTILE: argument},
        },
    }
    (rank / "dump.json").write_text(json.dumps({"task": "statistics", "level": "mix" + HOSTILE, "data": data}))
    (rank / "stack.json").write_text(
        json.dumps({f"Functional.{HOSTILE}.0.forward": [f"File {HOSTILE}.py, line 3, in {HOSTILE}, \n x"]})
    )


def verbs(place, dump):
    """Every verb over one of the dumps."""
    out = place / f"out-{dump}"
    yield from (["ls", dump], ["ls", dump, "--ops"], ["stats", dump], ["graph", dump], ["graph", dump, "--dot"])
    yield from (
        ["first-bad", dump],
        ["stomp", dump],
        ["watch", dump, "--recommended"],
        ["compare", dump, dump, "--all"],
    )
    yield ["watch", dump, "-c", "tensor_overflow", "--op", "."]
    yield ["compare", dump, "dump", "--all", "--csv", f"{out}.csv", "--junit", f"{out}.xml"]
    yield ["compare", dump, dump, "--style", "msprobe", "--csv", f"{out}.msprobe.csv"]
    yield ["index", dump, "--out", f"{out}.sqlite"]
    yield ["convert", dump, "--out", f"{out}.npy"]
    yield ["export", dump, "--to", f"{out}.npz", "--python", sys.executable]
    yield ["stats", dump, "-s", "ReLu"]  # the nearest names are theirs
    yield ["show", dump, "nothing"]


def words(place, dump):
    """Names of tensors, as the command lists them for programs."""
    run = run_in(place, None, CLI, "stats", dump, "--jsonl")
    return [json.loads(line) for line in run.stdout.splitlines()]


def assert_harmless(run, what):
    for text in (run.stdout, run.stderr):
        found = FORBIDDEN.search(text)
        assert not found, f"{what}: {found[0]!r} in {text[max(0, found.start() - 60) : found.end()]!r}"
        assert "\nsonde: error: planted" not in text, what
        assert "Traceback" not in text, what
    assert 0 <= run.status <= 3, (what, run.status, run.stderr)


@pytest.mark.parametrize("dump", ["dump", "tree", "msprobe"])
def test_no_verb_prints_what_a_terminal_obeys(place, dump):
    for arguments in verbs(place, dump):
        assert_harmless(run_in(place, None, CLI, *arguments), arguments)
        if arguments[0] not in ("graph",) or "--dot" not in arguments:
            assert_harmless(run_in(place, None, CLI, *arguments, "--json"), [*arguments, "--json"])
    for file in place.glob(f"out-{dump}*.csv"):
        assert not FORBIDDEN.search(file.read_text()), file


@pytest.mark.parametrize("dump", ["dump", "tree", "msprobe"])
def test_nor_does_one_tensor_of_it(place, dump):
    rows = words(place, dump)
    hostile = [row for row in rows if "owned" in json.dumps(row)]
    assert hostile
    for row in hostile[:3]:
        for more in ([], ["--json"], ["--trend", "max"], ["--txt", "-"]):
            name = f"{row['op_name']}:{row['side']}.{row['slot']}"
            assert_harmless(run_in(place, None, CLI, "show", dump, name, *more), ["show", *more])
        assert_harmless(run_in(place, None, CLI, "graph", dump, row["op_name"]), "graph OP")


def test_json_holds_the_names_as_they_are(place):
    names = {row["op_name"] for row in words(place, "dump")} | {row["parameter"] for row in words(place, "dump")}
    assert any("\x1b]0;owned" in name for name in names), sorted(names)[:5]


def test_a_run_and_its_report_are_harmless(place):
    run = run_in(place, None, CLI, "run", "--out", place / "again", "--", *python(), "train.py")
    assert_harmless(run, "run")
    assert "first bad value in step 0: Default/log-op0:output.0" in run.stderr
    name = f"no{HOSTILE}.json".replace("/", "")
    for arguments in (
        ["check", name],
        ["run", "--config", name, "--", "true"],
        [name],
        ["ls", name],
        ["stats", f"--{name}"],
    ):
        assert_harmless(run_in(place, None, CLI, *arguments), arguments)


def test_keys_and_values_of_a_configuration_are_harmless(place):
    path = place / "bad.json"
    settings = settings_of(
        place / "x", None, None, {"kernels": [HOSTILE, f"name-regex({HOSTILE}"], HOSTILE: 1, "iteration": HOSTILE}
    )
    path.write_text(json.dumps(settings))
    for more in ([], ["--json"]):
        run = run_in(place, None, CLI, "check", path, *more)
        assert_harmless(run, "check")
        assert run.status == 2


def test_python_takes_and_gives_names_that_are_not_utf_8(tmp_path):
    """Paths of the system, names in a dump, messages about them: no UnicodeDecodeError, and no TypeError."""
    place = tmp_path / "d\udcff"
    mindspore_tree.write(place)
    dump = sonde_package.open(place)
    tensor = next(tensor for tensor in dump.tensors if tensor.tensor_file)
    assert "d\udcff" in str(tensor.tensor_file) and tensor.numpy().size
    sonde_package.first_bad(dump)
    sonde_package.watch(dump, "tensor_overflow")
    for missing in (tmp_path / "none\udcfe", str(tmp_path / "none\udcfe")):
        with pytest.raises(sonde_package.Error, match="cannot open dump"):
            sonde_package.open(missing)
    other = tmp_path / "other"
    other.mkdir()
    (other / "\udcff\udcfe.txt").write_text("no dump")
    with pytest.raises(sonde_package.Error, match="cannot open dump"):
        sonde_package.open(other)
    file = next(path for path in sorted(place.rglob("*.npy")))
    strange = file.with_name("\udcff" + file.name)
    file.rename(strange)
    (file.parent / "add.\udcff\udcfe.1.0.1795703055527826.output.0.DefaultFormat.float32.npy").symlink_to("/etc/passwd")
    dump = sonde_package.open(place)
    assert all(isinstance(problem.message, str) for problem in dump.problems)
    assert [tensor.op.op_name for tensor in dump.tensors]
