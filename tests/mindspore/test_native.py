"""Sonde writes the same dump as MindSpore alone: the same tree, the same names, the same bytes.

Inputs are read after their operator, as MindSpore reads them; test_launch.py has those read before.
"""

import pytest
import trees

AFTER = {"inputs": "after"}
PROGRAMS = {
    "lenet": ("lenet", 2),
    "alexnet": ("alexnet", 2),
    "plain_scopes": ("plain_scopes",),
    "two_cells": ("two_cells",),
    "control_flow": ("control_flow",),
    "jit_function": ("jit_function",),
    "sinking": ("sinking", "model"),
}


class Pair:
    """One program run by MindSpore alone, then with Sonde, from one configuration."""

    def __init__(self, case, program):
        case.configure(AFTER, saved_data="tensor")
        self.native_run = case.run_native(*program)
        assert self.native_run.status == 0, self.native_run.stderr
        native = case.dump.rename(case.directory / "native")
        self.run = case.run(*program)
        assert self.run.status == 0, self.run.stderr
        self.native, self.ours = trees.files(native), trees.files(case.dump)
        self.roots = native, case.dump


@pytest.fixture(scope="module", params=PROGRAMS)
def pair(request, case):
    return Pair(case(), PROGRAMS[request.param])


def test_sonde_recorded(pair):
    assert not pair.native_run.sonde_lines
    assert any("recorded" in line for line in pair.run.sonde_lines), pair.run.stderr


def test_the_program_computes_the_same(pair):
    assert pair.native_run.stdout
    assert pair.run.stdout == pair.native_run.stdout


def test_the_files_are_the_same(pair):
    assert sum(name.endswith(".npy") for name in pair.native) > 5
    assert {name: len(paths) for name, paths in pair.ours.items()} == {
        name: len(paths) for name, paths in pair.native.items()
    }


def test_their_bytes_are_the_same(pair):
    different = [
        name
        for name, theirs in pair.native.items()
        for their, our in zip(theirs, pair.ours.get(name, ()), strict=True)
        if trees.content(their) != trees.content(our)
    ]
    assert not different


def test_nobody_else_may_read_them(pair):
    for name, theirs in pair.native.items():
        for their, our in zip(theirs, pair.ours.get(name, ()), strict=True):
            assert our.stat().st_mode == their.stat().st_mode, name
    native, ours = pair.roots
    for directory in (path for path in native.rglob("*") if path.is_dir()):
        assert (ours / directory.relative_to(native)).stat().st_mode == directory.stat().st_mode, directory


def test_times_give_the_order_of_the_program(pair):
    """The order of the forward operators: each reads the result of the one before. Others may run in parallel."""

    def order(files):
        forward = [(name, path) for name, paths in files.items() if ".Default_" in name for path in paths]
        times = [(trees.TIME.search(path.name)[0], name) for name, path in forward if "_optimizer" not in name]
        return [name for _, name in sorted(times)]

    assert order(pair.native)
    assert order(pair.ours) == order(pair.native)
