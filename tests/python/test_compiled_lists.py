"""Compiled graphs with an operator that writes the tensors of a list."""

import sys
import textwrap

import pytest
from processes import CLI

import sonde

PROGRAM = """
    import torch

    torch.set_num_threads(1)
    lib = torch.library.Library("mine", "DEF")
    lib.define("bump(Tensor(a!)[] states, Tensor x) -> Tensor")


    @torch.library.impl("mine::bump", "CPU", lib=lib)
    def bump(states, x):
        for state in states:
            state.add_(x)
        return x.sin()


    @torch.library.register_fake("mine::bump", lib=lib)
    def fake(states, x):
        return torch.empty_like(x)


    @torch.compile
    def f(x):
        states = [x * 1, x * 2]
        out = torch.ops.mine.bump(states, x)
        return out + states[0] + states[1]


    print(f(torch.arange(4.0)).tolist())
"""


@pytest.mark.cold
def test_the_tensors_of_a_list_that_an_operator_writes_are_its_outputs(execute, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    bare = execute(sys.executable, program)
    run = execute(CLI, "run", "--out", tmp_path / "run", "--saved-data", "full", "--", sys.executable, program)
    assert run.stdout.splitlines()[0] == bare.stdout.splitlines()[0], run.stderr
    [op] = [op for op in sonde.open(tmp_path / "run").ops if op.op_type == "bump"]
    written = [tensor.numpy().tolist() for tensor in op.outputs]
    assert [0, 2, 4, 6] in written and [0, 3, 6, 9] in written, written
