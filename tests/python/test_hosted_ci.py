"""The files of hosted CI: the linter accepts them, and what they say is what the scripts and the matrix say.

They have never run where they are meant to, so these checks are all that stands between them and a change."""

import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest
import yaml

from sonde import torch_installation

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKFLOWS = ROOT / ".github/workflows"
LINTER = pathlib.Path(sysconfig.get_path("scripts")) / "actionlint"
CACHE = "actions/cache@27d5ce7f107fe9357f9df03efb73ab90386fccae # v5.0.5"
IMAGES = ["ubuntu:24.04", "debian:12", "debian:13"]


@pytest.fixture
def workflows(tmp_path):
    """{name: path} of copies that a test may change."""
    copies = {path.stem: tmp_path / path.name for path in WORKFLOWS.glob("*.yml")}
    for path in copies.values():
        path.write_text((WORKFLOWS / path.name).read_text())
    return copies


needs_the_linter = pytest.mark.skipif(not LINTER.exists(), reason="scripts/setup --lint installs actionlint")


def complaints_of_the_linter(workflows):
    # Without other programs that it calls where they are installed: the answer is the same everywhere.
    command = [LINTER, "-oneline", "-no-color", "-shellcheck=", "-pyflakes=", *workflows.values()]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT).stdout.splitlines()


def differences(workflows):
    """The differences from the project."""
    found = []
    read = {name: yaml.safe_load(path.read_text()) for name, path in workflows.items()}
    jobs = read["ci"]["jobs"]
    matrix = [(line["torch"], line["python"]) for line in jobs["versions"]["strategy"]["matrix"]["include"]]
    if matrix != versions_of_the_matrix():
        found.append(f"versions: {matrix}")
    if jobs["python"]["strategy"]["matrix"]["python"] != list(torch_installation.PYTHON_MINORS):
        found.append("the Pythons that Sonde knows")
    for job in (jobs["all"], read["wheels"]["jobs"]["install"]):
        if job["strategy"]["matrix"]["image"] != IMAGES:
            found.append(f"the systems of '{job['name']}'")
    if pythons_of_the_wheels(workflows["wheels"].read_text()) != [pythons_of_scripts_wheel()] * 2:
        found.append("the Pythons of scripts/wheel")
    for name, path in workflows.items():
        text = path.read_text()
        found += [f"{name}: {what}" for what in (*calls_that_fail(text), *careless(text, read[name]))]
    return found


def versions_of_the_matrix():
    lines = (ROOT / "tests/matrix/versions.txt").read_text().splitlines()
    return [tuple(line.split()) for line in lines if line and not line.startswith("#")]


def pythons_of_the_wheels(text):
    """Those that are asked for; those that are there: Debian 12's 3.11 beside those that uv installs."""
    asked = re.search(r"scripts/wheel --python (\S+)", text)[1].split(",")
    installed = re.search(r"uv python install (.*)", text)[1].split()
    return [asked, sorted([*installed, "3.11"])]


def pythons_of_scripts_wheel():
    return re.search(r"^pythons=(\S+)", (ROOT / "scripts/wheel").read_text(), re.MULTILINE)[1].split(",")


def calls_that_fail(text):
    """Scripts of ours that are not there, or do not take their options."""
    commands = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for program, arguments in re.findall(r"((?:\.ci|scripts|tests)/[\w/.]+)(.*)", commands):
        path = ROOT / program
        if not path.is_file():
            yield f"there is no {program}"
        elif path.suffix != ".py" and not path.stat().st_mode & 0o100:
            yield f"{program} is not executable"
        else:
            for option in re.findall(r"--[a-z-]+", arguments):
                known = rf'"{option}"' if path.suffix == ".py" else rf"^ +{option}\)"
                if not re.search(known, path.read_text(), re.MULTILINE):
                    yield f"{program} does not take {option}"


def careless(text, workflow):
    if not re.match(r"# Written from the documentation .* has never run there\.\n", text):
        yield "the first line does not say that it has never run"
    if workflow["permissions"] != {"contents": "read"}:
        yield "it may do more than read"
    if not workflow["concurrency"]["cancel-in-progress"]:
        yield "an overtaken run goes on"
    if re.search(r"https?://|pypi|pytorch\.org", text):
        yield "it names a host"
    for name, job in workflow["jobs"].items():
        if "timeout-minutes" not in job:
            yield f"job {name} has no time limit"
        if "container" in job and not is_git_before_checkout(job["steps"]):
            yield f"job {name} checks out without git"
    for action in re.findall(r"uses: *(.*)", text):
        if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v[0-9.]+", action):
            yield f"{action} is not an action of GitHub's at a commit: a tag can be moved"


def is_git_before_checkout(steps):
    git = [number for number, step in enumerate(steps) if re.search(r"apt-get install .*\bgit\b", step.get("run", ""))]
    checkout = [number for number, step in enumerate(steps) if step.get("uses", "").startswith("actions/checkout@")]
    return bool(git and checkout) and git[0] < checkout[0]


@needs_the_linter
def test_the_linter_accepts_every_workflow(workflows):
    assert {"ci", "wheels"} <= set(workflows)
    assert complaints_of_the_linter(workflows) == []


def test_the_workflows_say_what_the_project_says(workflows):
    assert differences(workflows) == []


def change(path, old, new):
    text = path.read_text()
    assert old in text, "the workflow has changed, and this test must change with it"
    path.write_text(text.replace(old, new))


@needs_the_linter
@pytest.mark.parametrize(
    ("workflow", "old", "new", "complaint"),
    [
        ("ci", "runs-on: ubuntu-24.04", "run-on: ubuntu-24.04", 'unexpected key "run-on"'),
        ("ci", "runs-on: ubuntu-24.04", "runs-on: ubuntu-24.4", 'label "ubuntu-24.4" is unknown'),
        ("ci", "    steps:", "    step:", 'unexpected key "step"'),
        ("ci", "matrix.torch }}", "matrix.pytorch }}", 'property "pytorch" is not defined'),
        ("ci", "contents: read", "contents: reed", '"reed" is invalid'),
        ("wheels", "needs: build", "needs: builds", '"install" needs job "builds" which does not exist'),
    ],
)
def test_the_linter_complains_of_a_broken_workflow(workflows, workflow, old, new, complaint):
    change(workflows[workflow], old, new)
    assert complaint in "\n".join(complaints_of_the_linter(workflows))


@pytest.mark.parametrize(
    ("workflow", "old", "new", "difference"),
    [
        ("ci", 'torch: "2.9.1"', 'torch: "2.9.0"', "versions: "),
        ("ci", '{ torch: "2.15.0", python: "3.13" }', '{ torch: "2.15.0", python: "3.12" }', "versions: "),
        ("ci", ', "3.14"]', "]", "the Pythons that Sonde knows"),
        ("ci", '"debian:13"', '"debian:sid"', "the systems of 'everything on"),
        ("wheels", ', "debian:13"]', "]", "the systems of 'record on"),
        ("wheels", "install 3.10 3.12", "install 3.12", "the Pythons of scripts/wheel"),
        ("wheels", "--python 3.10,3.11", "--python 3.11", "the Pythons of scripts/wheel"),
        ("wheels", "scripts/wheel --python", "scripts/wheel --python 3.10,3.11,3.12,3.13 --torches", "take --torches"),
        ("ci", "run: .ci/run", "run: .ci/all", "there is no .ci/all"),
        ("ci", "scripts/test\n", "tests/matrix/versions.txt\n", "versions.txt is not executable"),
        ("ci", "scripts/test\n", "scripts/test --mindspore\n", "scripts/test does not take --mindspore"),
        ("ci", "run.py --only", "run.py --torch", "run.py does not take --torch"),
        ("ci", "# Written from", "# Taken from", "has never run"),
        ("ci", "contents: read", "contents: write", "it may do more than read"),
        ("ci", "cancel-in-progress: true", "cancel-in-progress: false", "an overtaken run goes on"),
        ("ci", "${{ vars.PIP_EXTRA_INDEX_URL }}", "https://example.org/simple", "it names a host"),
        ("wheels", "timeout-minutes: 60", "continue-on-error: true", "job install has no time limit"),
        ("ci", "--no-install-recommends git ", "--no-install-recommends ", "job all checks out without git"),
        ("ci", CACHE, "actions/cache@v5", "actions/cache@v5 is not an action of GitHub's"),
        ("ci", CACHE, "actions/cache@main", "actions/cache@main is not an action of GitHub's"),
        (
            "ci",
            CACHE,
            CACHE.replace("actions", "somebody"),
            "somebody/cache@27d5ce7f107fe9357f9df03efb73ab90386fccae # v5.0.5 is not an action of GitHub's",
        ),
    ],
)
def test_a_workflow_that_says_something_else_is_noticed(workflows, workflow, old, new, difference):
    change(workflows[workflow], old, new)
    assert difference in "\n".join(differences(workflows))


@pytest.mark.parametrize("script", ["tests/matrix/run.py", "tests/wheel/run.py", "tests/wheel/check.py"])
def test_the_programs_of_matrix_and_wheels_explain_their_options(script):
    run = subprocess.run([sys.executable, ROOT / script, "--help"], check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
