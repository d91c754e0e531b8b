"""The lines of docs/rest.md run, and it describes what openapi.json does."""

import json
import pathlib
import re
import subprocess
import sys
import textwrap

from processes import CLI, clean_environment, python, run_in
from serving import OPENAPI, serving
from test_serve import NAN_TRAINING

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / "docs/rest.md").read_text()


def blocks(language):
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", TEXT)


def test_its_shell_and_python_lines_run(tmp_path):
    (tmp_path / "train.py").write_text(textwrap.dedent(NAN_TRAINING))
    run = [CLI, "run", "--out", tmp_path / "run7", "--saved-data", "full", "--", *python(), "train.py"]
    assert run_in(tmp_path, None, *run).status == 0
    first, second = blocks("bash")
    script = f"set -e\ntrap 'kill $(jobs -p)' EXIT\n{first}\necho\n{second}\n"
    path = f"{pathlib.Path(CLI).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        check=False,
        env=clean_environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    for part in ('"state":', '"l2norm":', '"nan_tensors":', '"worst_op":', '"kind":"first-bad"'):
        assert part in done.stdout, part
    with serving(tmp_path / "run7") as server:
        (tmp_path / "address").write_text(server.line + "\n")
        (tmp_path / "ask.py").write_text(blocks("python")[0])
        shown = run_in(tmp_path, None, sys.executable, "ask.py")
        assert shown.status == 0 and "conv2d-op0" in shown.stdout, shown.stderr


def test_it_names_every_path_and_every_class():
    table = TEXT.partition("## All paths")[2].partition("\n`dump=1`")[0]
    for path in OPENAPI["paths"]:
        name = path.lstrip("/").partition("/{")[0].removeprefix("tensor/")
        assert re.search(rf"`(tensor/)?{re.escape(name)}`", table) or name == "openapi.json", path
    for word in OPENAPI["components"]["schemas"]["class"]["enum"]:
        assert f"| `{word}` |" in TEXT


def test_the_limits_in_it_are_those_of_the_server(tmp_path):
    run = [CLI, "run", "--out", tmp_path / "run7", "--", sys.executable, "-c", "import torch; torch.ones(2).exp()"]
    assert run_in(tmp_path, None, *run).status == 0
    with serving(tmp_path / "run7") as server:
        limits = server.get("status").json["limits"]
    words = re.search(r"Requests are limited: (.*?)\n\n", TEXT, re.DOTALL)[1]
    for name, factor in (
        ("header_bytes", 1024),
        ("body_bytes", 1024),
        ("connections", 1),
        ("request_seconds", 1),
        ("jobs_waiting", 1),
        ("rows", 1),
        ("values_bytes", 1 << 20),
    ):
        assert re.search(rf"\b{limits[name] // factor}\b", words), (name, json.dumps(limits))
