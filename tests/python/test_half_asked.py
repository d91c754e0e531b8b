"""Lines about requests that cannot work: a variable alone, a target of set_dump that compiled code replaces."""

import os
import subprocess
import sys
import types

import pytest

from sonde import session


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"MS_ACL_DUMP_CFG_PATH": "/a.json"}, True),
        ({"MS_ACL_DUMP_CFG_PATH": "/a.json", "MINDSPORE_DUMP_CONFIG": "/a.json"}, False),
        ({}, False),
    ],
)
def test_the_second_variable_alone_is_reported(variables, said):
    environment = {
        k: v for k, v in os.environ.items() if k not in ("MINDSPORE_DUMP_CONFIG", "SONDE_CONFIG")
    } | variables
    result = subprocess.run(
        [sys.executable, "-S", "-c", "import sonde_early; sonde_early.say_if_only_half_asked()"],
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ("MS_ACL_DUMP_CFG_PATH is set without MINDSPORE_DUMP_CONFIG" in result.stderr) == said


@pytest.mark.parametrize("compiled", [0, 2])
def test_compiled_code_in_place_of_a_target_is_named(monkeypatch, compiled):
    dynamo = types.SimpleNamespace(counters={"frames": {"ok": compiled}})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", dynamo)
    nothing = "dump_mode 2 records the targets of sonde.set_dump(); they are not among the 63 ops of the chosen steps"
    assert ("torch.compile ran 2 compiled functions" in session._why_no_target(nothing)) == (compiled == 2)
    assert session._why_no_target("recorded 3 ops") == ""
