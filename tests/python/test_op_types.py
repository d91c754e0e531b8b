"""`kernels` with operator types of MindSpore and CANN: each chooses the operators that do its work, and no others."""

import json
import pathlib
import re
import sys

import pytest
from op_type_programs import NOT_RUN, PROGRAMS

TABLE = pathlib.Path(__file__).parents[2] / "src/plan/config/op_types.inc"
# Runs each program in a separate session that records only the operators of the type.
RUNNER = """
    import csv, json, pathlib, sys
    import torch
    import torch.nn.functional as F
    import sonde

    sys.path.insert(0, sys.argv[1])
    from op_type_programs import PROGRAMS

    torch.set_num_threads(1)
    x = torch.tensor([[-0.5, 0.25, 0.75, -0.125], [0.5, -0.75, 0.375, 0.9]], requires_grad=True)
    y = torch.tensor([[0.5, -0.5, 0.625, 0.3], [0.2, 0.7, -0.6, 0.1]], requires_grad=True)
    image, volume = torch.rand(1, 2, 6, 6, requires_grad=True), torch.rand(1, 2, 4, 4, 4, requires_grad=True)
    i, bits = torch.tensor([[0, 1], [1, 0]]), torch.arange(8).reshape(2, 4)
    flags = bits % 2 == 0

    def step(optimizer, **settings):
        weight = torch.nn.Parameter(torch.ones(2))
        weight.grad = torch.ones(2)
        optimizer([weight], **settings).step()

    def run(type, code):
        path = pathlib.Path(sys.argv[2]) / type
        common = {"dump_mode": 1, "kernels": [type], "path": str(path), "net_name": "Net", "iteration": "all",
                  "saved_data": "statistic", "statistic_category": ["max"], "input_output": 0, "support_device": [0]}
        config = {"common_dump_settings": common, "e2e_dump_settings": {"enable": True, "trans_flag": True},
                  "sonde_settings": {"step": "manual"}}
        pathlib.Path("config.json").write_text(json.dumps(config))
        sonde.start("config.json")
        try:
            results = eval(code)
            for result in results if isinstance(results, tuple) else (results,):
                if isinstance(result, torch.Tensor) and result.requires_grad:
                    result.backward(torch.ones_like(result))
        finally:
            sonde.stop()
        tables = [table for table in path.rglob("statistic.csv")]
        return sorted({row["Op Type"] for table in tables for row in csv.DictReader(open(table, newline=""))})

    found = {type: run(type, code) for type, (code, _) in PROGRAMS.items()}
    print("found", json.dumps(found))
"""


def types():
    return re.findall(r'^OP\("(\w+)"', TABLE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    from textwrap import dedent

    from processes import run_in

    directory = tmp_path_factory.mktemp("op_types", numbered=True)
    (directory / "run.py").write_text(dedent(RUNNER))
    here = pathlib.Path(__file__).parent
    run = run_in(directory, directory / "dump", sys.executable, "run.py", here, directory / "dump", timeout=280)
    assert run.status == 0, run.stderr
    return json.loads(next(line for line in run.stdout.splitlines() if line.startswith("found "))[6:])


def test_every_type_of_the_table_has_a_program():
    assert sorted([*PROGRAMS, *NOT_RUN], key=str.lower) == sorted(types(), key=str.lower)


def test_each_type_chooses_the_operators_that_do_its_work(found):
    missed = {type: set(chosen.split()) - set(found[type]) for type, (_, chosen) in PROGRAMS.items()}
    missed = {type: names for type, names in missed.items() if names}
    assert not missed, missed


def test_no_type_chooses_what_does_other_work(found):
    """Leaves out in-place spellings, and operators whose own type contains the entry's letters, as MindSpore matches
    them."""

    def belongs(name, type, chosen):
        return name.rstrip("_") in [each.rstrip("_") for each in chosen] or type.lower() in name.lower()

    extra = {
        type: [name for name in found[type] if not belongs(name, type, chosen.split())]
        for type, (_, chosen) in PROGRAMS.items()
    }
    extra = {type: names for type, names in extra.items() if names}
    assert not extra, extra
