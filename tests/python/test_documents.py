"""README.md and the documents show the real output of their commands.

    python tests/python/test_documents.py --update [DOCUMENT ...]   # writes what is printed now into the documents
    python tests/python/test_documents.py --list                    # the blocks that are not run, and why

How blocks are marked: document_blocks.py; what may differ: document_output.py.
"""

import argparse
import json
import re
import sys
import tempfile

import document_blocks
import pytest
from document_blocks import CHECKOUT, World, blocks_of, doctest_steps, environments_of, session_steps
from document_output import renewed, same

DOCUMENTS = ["README.md", "docs/c.md", "docs/guide.md", "docs/python.md", "docs/torchair.md", "docs/watch.md"]
MOST_LINES = 60  # of the output, in a message
FOLDERS = (
    ".ci",
    "adapters",
    "benchmarks",
    "cli",
    "cmake",
    "docs",
    "examples",
    "fuzz",
    "include",
    "python",
    "scripts",
    "src",
    "tests",
)


class Document:
    """A document whose blocks are run; `problems` names the differences, `lines` contains the right text.

    Only the blocks that need `environment` are run: without one, those that need none."""

    def __init__(self, name, folder, environment=None):
        self.name = name
        self.environment = environment
        self.world = World(folder, environment)
        self.text = (CHECKOUT / name).read_text()
        self.lines = self.text.split("\n")
        self.problems = []

    def run(self):
        changes = []
        last = None
        for block in blocks_of(self.text):
            if block.marks.get("needs") != self.environment:
                continue
            if "output" in block.marks:
                changes += self.compare(block, block.begin, block.lines, last)
            else:
                ran = getattr(self, f"run_{block.kind}")(block)
                changes += ran if isinstance(ran, list) else []
                last = getattr(self, "printed", None)
        for begin, end, lines in reversed(changes):
            self.lines[begin:end] = lines

    def problem(self, block, text):
        self.problems.append(f"{self.name}:{block.begin + 1}: {text}")

    def compare(self, block, begin, shown, printed):
        """The change that makes the document show the output, if it does not."""
        end = begin + len(shown)
        while shown and not shown[-1].strip():
            shown = shown[:-1]
        varies = block.marks.get("varies")
        if same(shown, printed, varies):
            return []
        said = printed[:MOST_LINES] + (["…"] if len(printed) > MOST_LINES else []) or ["(nothing)"]
        self.problems.append("\n    ".join([f"{self.name}:{begin + 1}: shown:", *shown, "printed:", *said]))
        new = renewed(shown, printed, varies)
        return [(begin, begin + len(shown), new)] if end else []

    def check_status(self, block, step, status, printed):
        exits = [int(text) for text in block.marks.get("exits", "").split()] or [0] * (step + 1)
        if status != exits[step]:
            self.problem(block, "\n    ".join([f"exit status {status}, expected {exits[step]}:", *printed]))

    def run_session(self, block):
        steps, changes = session_steps(block), []
        results = self.world.shell([step.source for step in steps], block.marks.get("first", ""))
        for i, (step, (status, printed)) in enumerate(zip(steps, results, strict=True)):
            self.check_status(block, i, status, printed)
            # A session without any output shows how commands are called, and not their answers.
            if any(step.shown for step in steps):
                changes += self.compare(block, block.begin + step.begin, step.shown, printed)
        return changes

    def run_commands(self, block):
        commands = "\n".join(block.lines).replace("\\\n", "").split("\n")
        commands = [command for command in commands if command.strip()]
        for i, (status, printed) in enumerate(self.world.shell(commands, block.marks.get("first", ""))):
            self.check_status(block, i, status, printed)

    def run_doctest(self, block):
        steps, changes = doctest_steps(block), []
        results = self.world.python([step.source for step in steps], block.marks.get("first", ""), single=True)
        for step, (_, printed) in zip(steps, results, strict=True):
            changes += self.compare(block, block.begin + step.begin, step.shown, printed)
        return changes

    def run_python(self, block):
        if name := block.marks.get("file"):
            (self.world.home / name).write_text("\n".join(block.lines) + "\n")
            self.printed = []
            return
        ((status, self.printed),) = self.world.python(["\n".join(block.lines)], block.marks.get("first", ""))
        self.check_status(block, 0, status, self.printed)

    def run_json(self, block):
        text = self.world.inside("\n".join(block.lines))
        json.loads(text)
        if name := block.marks.get("file"):
            (self.world.home / name).write_text(text)

    def run_text(self, block):
        if not block.marks["not run"]:
            self.problem(block, "no reason is given why it is not run")

    def run_unknown(self, block):
        self.problem(block, f"a block of '{block.language}' is neither run nor marked '<!-- not run: REASON -->'")


def missing(environment):
    """Why the blocks that need an environment cannot run."""
    if environment is None or (CHECKOUT / environment / "bin" / "python").exists():
        return None
    return f"no {environment}; run scripts/setup --{environment.removeprefix('.venv-')}"


@pytest.mark.timeout(900)  # trains AlexNet, in its own size
@pytest.mark.parametrize(
    ("name", "environment"),
    [(name, environment) for name in DOCUMENTS for environment in environments_of((CHECKOUT / name).read_text())],
)
def test_what_a_document_shows_is_what_its_commands_print(name, environment, tmp_path_factory):
    if reason := missing(environment):
        pytest.skip(reason)  # a failure where CI is true: conftest.py
    document = Document(name, tmp_path_factory.mktemp("document"), environment)
    document.run()
    assert not document.problems, "\n".join([*document.problems, "", f"renew it: python {__file__} --update {name}"])


@pytest.mark.parametrize(
    ("shown", "printed", "varies"),
    [
        (["loss 2.30, 76.1 ms"], ["loss 2.31, 290 ms"], None),
        (["a  b"], ["a b"], None),
        (["first", "…", "last"], ["first", "x", "y", "last"], None),
        (["first", "…"], ["first"], None),
        (["op … line 3"], ["op of a long name, line 3"], None),
        (["port 4711"], ["port 4712"], r"port \d+"),
    ],
)
def test_what_may_vary_is_the_same(shown, printed, varies):
    assert same(shown, printed, varies)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["loss 2.30"], ["loss 2.40"]),
        (["3 steps"], ["4 steps"]),
        (["first"], ["first", "second"]),
        (["first", "…", "last"], ["first", "last", "more"]),
        (["op … line 3"], ["op of a long name, line 4"]),
        ([], ["a warning"]),
        (["a line"], []),
    ],
)
def test_what_may_not_vary_is_a_difference(shown, printed):
    assert not same(shown, printed)


def test_what_was_left_out_stays_left_out_when_a_document_is_renewed():
    shown = ["$ head", "…", "middle 3", "…", "tail"]
    printed = ["$ HEAD", "a", "b", "middle 4", "c", "TAIL"]
    assert renewed(shown, printed) == ["$ HEAD", "…", "middle 4", "…", "TAIL"]


def test_a_block_that_needs_an_environment_runs_in_it_alone(tmp_path, monkeypatch):
    checkout = tmp_path / "checkout"
    (checkout / "examples").mkdir(parents=True)
    (checkout / ".venv-own" / "bin").mkdir(parents=True)
    command = checkout / ".venv-own" / "bin" / "greet"
    command.write_text("#!/bin/sh\necho good morning\n")
    command.chmod(0o755)
    page = "```\n$ echo {}\nplain\n```\n\n<!-- needs: .venv-own -->\n```\n$ greet\ngood {}\n```\n"
    for module in (document_blocks, sys.modules[__name__]):
        monkeypatch.setattr(module, "CHECKOUT", checkout)

    def problems(plain, greeting, environment):
        (checkout / "page.md").write_text(page.format(plain, greeting))
        document = Document("page.md", tmp_path / f"{plain} {greeting} {environment}", environment)
        document.run()
        return document.problems

    assert environments_of(page) == [None, ".venv-own"]
    assert problems("plain", "evening", None) == []
    assert problems("other", "morning", ".venv-own") == []
    assert "page.md:3" in problems("other", "morning", None)[0]
    assert "page.md:9" in problems("plain", "evening", ".venv-own")[0]


def test_an_environment_that_is_missing_is_named_with_its_command():
    assert missing(None) is None
    assert missing(".venv-none") == "no .venv-none; run scripts/setup --none"


def known_tests():
    """The names of all tests, as the documents write them."""
    tests = CHECKOUT / "tests"
    for path in [*tests.rglob("*_test.cpp"), *tests.rglob("test_*.py")]:
        yield path.name
        for suite, name in re.findall(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", text := path.read_text(), re.M):
            yield f"{suite}.{name}"
        yield from re.findall(r"^def (test_\w+)", text, re.M)


def is_a_test(name, known):
    begin = name.rstrip("…*")
    return name in known or (begin != name and any(other.startswith(begin) for other in known))


def test_the_tests_that_the_documents_name_exist():
    known = set(known_tests())
    named = [
        (path.name, name)
        for path in sorted((CHECKOUT / "docs").glob("*.md"))
        for name in re.findall(r"`([A-Z]\w+\.(?:[A-Z]\w*…?|\*)|test_\w+(?:…|\.py)?)`", path.read_text())
    ]
    assert len(named) > 100
    assert [(document, name) for document, name in named if not is_a_test(name, known)] == []


def test_no_file_names_a_host_of_a_package_index():
    hosts = r"download\.pytorch\.org|pypi\.org|pythonhosted\.org|deb\.debian\.org|registry\.npmjs\.org"
    files = [path for path in CHECKOUT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        files += [path for path in (CHECKOUT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert len(files) > 400
    assert [str(path) for path in files if re.search(hosts, path.read_bytes().decode(errors="replace"))] == []


def main():
    parser = argparse.ArgumentParser(description="Runs the commands of the documents.")
    parser.add_argument("--update", action="store_true", help="write what they print into the documents")
    parser.add_argument("--list", action="store_true", help="the blocks that are not run, and why")
    parser.add_argument("documents", nargs="*", default=DOCUMENTS)
    options = parser.parse_args()
    status = 0
    for name in options.documents:
        if options.list:
            for block in blocks_of((CHECKOUT / name).read_text()):
                if "not run" in block.marks:
                    print(f"{name}:{block.begin + 1}: {block.marks['not run']}")
            continue
        for environment in environments_of((CHECKOUT / name).read_text()):
            shown = f"{name}, {environment}" if environment else name
            if reason := missing(environment):
                print(f"{shown}: left out: {reason}")
                continue
            with tempfile.TemporaryDirectory() as folder:
                document = Document(name, folder, environment)
                document.run()
            print("\n".join(document.problems) or f"{shown}: as it is printed")
            status |= bool(document.problems)
            if options.update:
                (CHECKOUT / name).write_text("\n".join(document.lines))
    return 0 if options.update else status


if __name__ == "__main__":
    sys.exit(main())
