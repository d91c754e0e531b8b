"""One spelling of a name: those of docs/json/README.md in JSON, SQL, Python's tables and the C++ headers."""

import json
import pathlib
import re
import sqlite3

import pytest
from processes import CLI, run_in

import sonde

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Earlier spellings of the same names, and the folders in which MindSpore's own stay.
OTHERS = {
    "full_name": ("src/graph/", "python/sonde/debugger/"),
    "tensor_name": ("python/sonde/debugger/",),
    "previous_iteration": (),
}


def names():
    """The names of the table below "Names are the same in every verb"."""
    table = (ROOT / "docs/json/README.md").read_text().partition("Names are the same in every verb")[2]
    rows = re.findall(r"^\| (`[^|]*) \|", table.partition("\n\nNumbers")[0], re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


@pytest.fixture(scope="module")
def dump(compare):
    return compare("import torch\ntorch.ones(2).exp()\n", saved_data="full").dump


def shown_by(dump, *arguments):
    run = run_in(dump.parent, dump, CLI, *arguments)
    assert run.status == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("name", names())
def test_a_name_is_the_same_in_documents_tables_and_python(dump, name):
    row = json.loads(shown_by(dump, "stats", dump, "--jsonl").splitlines()[0])
    assert name in row
    assert name in json.loads((ROOT / "docs/json/common.schema.json").read_text())["$defs"]["tensor"]["properties"]
    if name == "scope":  # a part of the op's name
        return
    opened = sonde.open(dump)
    assert name in opened.tensors.columns()
    if name not in ("side", "slot", "parameter", "dtype", "shape", "tensor_file"):
        assert name in opened.ops.columns()
    index = dump.parent / "index.sqlite"
    if not index.exists():
        shown_by(dump, "index", dump, "--out", index)
    with sqlite3.connect(f"file:{index}?mode=ro", uri=True) as database:
        columns = [column for column, *_ in database.execute("SELECT * FROM all_tensors").description]
    assert name in columns or name == "function"


@pytest.mark.parametrize(
    "name",
    ["rank", "graph", "step", "op_name", "op_type", "phase", "slot", "dtype", "shape", "parameter", "tensor_file"],
)
def test_a_name_is_that_of_a_field(name):
    assert name in names()
    headers = "".join((ROOT / "include/sonde" / file).read_text() for file in ("dump.h", "tensor_meta.h"))
    assert re.search(rf"^  [\w:<>, =]+[ ,]{name}( = [^;]+)?[,;]", headers, re.MULTILINE)


@pytest.mark.parametrize("name", ["rank", "graph", "step", "op_name", "op_type", "phase"])
def test_a_name_is_that_of_an_attribute_of_an_operator_in_python(name):
    assert name in names()
    assert isinstance(getattr(sonde.dump.Op, name), property)


@pytest.mark.parametrize(
    "name", ["rank", "graph", "step", "side", "slot", "dtype", "shape", "parameter", "tensor_file"]
)
def test_a_name_is_that_of_an_attribute_of_a_tensor_in_python(name):
    assert name in names()
    assert isinstance(getattr(sonde.dump.Tensor, name), property)


@pytest.mark.parametrize("other", OTHERS)
def test_there_is_no_other_spelling(other):
    for part in ("include", "src", "cli", "python", "docs/json"):
        for path in (ROOT / part).rglob("*"):
            place = path.relative_to(ROOT).as_posix()
            if path.suffix not in (".h", ".cpp", ".py", ".pyi", ".json") or place.startswith(OTHERS[other]):
                continue
            assert not re.search(rf"\b{other}\b", path.read_text()), place
