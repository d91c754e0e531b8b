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
    "full_name": ("src/dump/graph/", "python/sonde/debugger/"),
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
    assert name in json.loads((ROOT / "docs/json/common.schema.json").read_text())["$defs"]["Tensor"]["properties"]
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


# Words that readers stumbled over, with the plain ones. A line break and the mark of a comment count as one blank.
ODD = {
    r"\b(tells?|told|telling)\b": "reports, says, shows",
    r"\bwish(es|ed)?\b": "request, need",
    r"\bcomes? of\b": "comes from",
    r"\bgoes by\b": "follows, depends on",
    r"\bheld against\b": "compared with",
    r"\bstands? (in|at|as|by|still)\b": "is in, is at",
    r"(?<![Tt]here )\b(is|are) no (?!longer\b|more\b)": "is not a, are not",
    r'(?:// |# |\* |""")(What|Who|Whose) [a-z]': "a noun, before the verb",
}
# Ordinary uses: the method of a file object; a document's heading.
ORDINARY = {"scripts/torch_headers.py": "def tell(self)"}
PROSE = ("include", "src", "cli", "adapters", "python", "cmake", "scripts", "tests", "fuzz", "docs")
# Frozen headers, and files that MindSpore wrote.
OF_OTHERS = ("tests/python/c_abi/", "tests/engine/graph/mindspore/", "tests/golden/")


def texts():
    """(path, text) of every file with comments or prose, with its lines joined."""
    paths = [path for part in PROSE for path in sorted((ROOT / part).rglob("*"))] + sorted(ROOT.glob("*.md"))
    for path in paths:
        place = path.relative_to(ROOT).as_posix()
        is_script = path.parent == ROOT / "scripts" and not path.suffix
        if not path.is_file() or place.startswith(OF_OTHERS) or path == pathlib.Path(__file__).resolve():
            continue
        if is_script or path.suffix in (".h", ".cpp", ".py", ".pyi", ".md", ".cmake", ".sh"):
            text = path.read_text(encoding="utf-8").replace(ORDINARY.get(place, "\0"), "")
            if path.suffix == ".md":
                text = re.sub(r"^#+ .*$", "", text, flags=re.MULTILINE)
            yield place, re.sub(r"(?<=[\w,;:]) *\n[ \t]*(?://|#|\*)?[ \t]*(?=[a-z`])", " ", text)


def test_comments_documents_and_messages_have_ordinary_words():
    found = [
        f"{place}: '{text[max(0, hit.start() - 30) : hit.end() + 20]}': {plain}"
        for place, text in texts()
        for odd, plain in ODD.items()
        for hit in re.finditer(odd, text)
    ]
    assert not found, "\n".join(found)


def classes(file):
    """The classes of one source file that others see, with their namespaces: `namespace {` hides what is in it. A
    specialization of a template is none."""
    spaces = []
    for line in file.read_text().splitlines():
        if opened := re.match(r"namespace\s*([\w:]*)\s*\{(?!.*\})", line):
            spaces.append(opened[1])
        elif line.startswith("}  // namespace"):
            spaces.pop()
        elif (
            found := re.match(r"(?:class|struct|union)\s+(?:[A-Z_]+(?:\(.*\))? )?(\w+)\b(?!::|<)[^;(]*\{", line)
        ) and "" not in spaces:
            yield "::".join([*spaces, found[1]])


def test_two_classes_of_the_engine_never_have_the_same_name():
    """The linker keeps one of two destructors with the same name, and it frees the members of the other class."""
    files = {}
    for file in sorted((ROOT / "src").rglob("*.[hc]*")):
        if "-inl." not in file.name:  # compiled once for each kind of processor
            for name in classes(file):
                files.setdefault(name, []).append(str(file.relative_to(ROOT)))
    assert len(files) > 300
    assert {name: found for name, found in files.items() if len(found) > 1} == {}
