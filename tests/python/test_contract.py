"""contract/ declares each name that leaves the process; tools/contract.py makes the rest from it."""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import contract as tool  # noqa: E402
import contract_language  # noqa: E402


def test_the_committed_files_are_those_of_the_contract():
    command = [sys.executable, ROOT / "tools/contract.py", "--check"]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "")


@pytest.fixture
def change(tmp_path):
    """change(file, before, after): the texts of all faces, made from a contract with this change."""

    def made(file, before, after):
        directory = tmp_path / "contract"
        if not directory.exists():
            shutil.copytree(ROOT / "contract", directory)
        path = directory / file
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after, 1))
        contract = contract_language.read(directory)
        return tool.committed(contract) | tool.built(contract)

    return made


def test_one_line_brings_a_member_to_every_face(change):
    files = change(
        "questions/first_bad.toml",
        "looked_at = [",
        'steps_left = ["[count]", "steps that were not looked at"]\nlooked_at = [',
    )
    faces = {name for name, text in files.items() if "steps_left" in text}
    assert faces == {
        "include/sonde/answers.h",
        "contract/members.h",
        "python/sonde/answer_types.py",
        "web/src/answers.ts",
        "docs/json/first-bad.schema.json",
        "docs/json/answers.md",
        "src/face/server/openapi.json",
    }


@pytest.mark.parametrize(
    ("file", "before", "after", "message"),
    [
        ("findings.toml", 'why = ["text"', 'why = ["words"', "unknown type 'words' of 'why'"),
        ("findings.toml", "evidence = ", 'why = ["text", "again"]\nevidence = ', "Cannot overwrite a value"),
        (
            "findings.toml",
            "evidence = ",
            '"why?" = ["text", "again"]\nevidence = ',
            "member 'why' of Finding is declared twice",
        ),
        ("findings.toml", 'severity = ""', 'gravity = ""', "'gravity' of Finding is not in words.toml"),
        (
            "findings.toml",
            '["text", "the reason, in a sentence"]',
            '["text", ""]',
            "'why' of Finding needs [type, meaning]",
        ),
        ("findings.toml", "[Tensor]", "[Finding2]\n[Tensor]", "Finding2 has no _meaning"),
        (
            "statistics.toml",
            "[Statistics]",
            "[Finding]\n_meaning = 'x'\n[Statistics]",
            "type 'Finding' is declared twice",
        ),
        ("words.toml", '"name"]', '"secret"]', "unknown privacy 'secret'; known: word, name, type, rank"),
        ("words.toml", 'Side = ["input", "output"]', 'Side = ["input"', "Unclosed array"),
        ("questions/stomp.toml", 'verb = "stomp"\n', "", "a question needs 'verb'"),
        ("questions/stomp.toml", 'answer = "StompReport"', 'answer = "Stomp"', "'answer' names Stomp"),
        (
            "questions/ls.toml",
            '["path", "ops"]]',
            '["path", "opps"]]',
            "_forms names 'opps', and Listing has no such member",
        ),
    ],
)
def test_a_mistake_is_named_with_its_file_and_line(change, file, before, after, message):
    with pytest.raises(contract_language.ContractError) as found:
        change(file, before, after)
    place, _, rest = str(found.value).partition(": ")
    path, line = place.rsplit(":", 1)
    assert pathlib.Path(path).match(f"contract/{file}") or "twice" in message
    assert message in rest
    lines = pathlib.Path(path).read_text().splitlines()
    assert 1 <= int(line) <= len(lines) + 1
