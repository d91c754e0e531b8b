"""The text of a program that runs one recorded operator without Sonde."""

from typing import Any

import torch

from .recorded_calls import Call, Slot
from .recorded_runs import Again

_PROGRAM = '''\
"""{title}"""
from math import inf, nan  # numbers among the arguments
from pathlib import Path

import torch
from safetensors.torch import load_file

t = load_file(Path(__file__).with_name("inputs.safetensors"))
print("PyTorch", torch.__version__)
torch.manual_seed(0)
torch.set_grad_enabled({grad})
{before}result = torch.ops.{operator}({arguments})
{after}

def tensors(value):
    if value is None or isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value for tensor in tensors(part)] if isinstance(value, (tuple, list)) else []


for slot, output in enumerate(tensors(result)):
    if output is None:
        continue
    output = output.detach().to(torch.complex128 if output.is_complex() else torch.float64)
    counts = f"{{output.isnan().sum()}} NaN, {{output.isinf().sum()}} infinite of {{output.numel()}}"
    print(f"output.{{slot}}: {{counts}}", end="")
    if (recorded := t.get(f"output.{{slot}}")) is not None:
        recorded = recorded.to(output.dtype)
        same = (recorded == output) | (recorded.isnan() & output.isnan())
        apart = (recorded - output).abs()[~same].nan_to_num(inf).max() if not same.all() else 0.0
        print(f"; recorded: {{recorded.isnan().sum()}} NaN, {{recorded.isinf().sum()}} infinite;",
              "the same values" if same.all() else f"largest difference {{apart:.3g}}", end="")
    print()
'''


def program_of(again: Again) -> str:
    """Its text, of 40 lines at most."""
    op, call = again.op, again.call
    place = f", recorded at {op.source.file.rpartition('/')[2]}:{op.source.line}" if op.source else ""
    title = _plain(f"{call.name} of {op.op_name}, rank {op.rank}, step {op.step}{place}")
    positional = [_text(argument.value) for argument in call.arguments if not argument.keyword_only]
    keywords = [f"{argument.name}={_text(argument.value)}" for argument in call.arguments if argument.keyword_only]
    space, _, name = call.name.partition("::")
    operator = f"{space}.{name}" if call.overload._overloadname != "default" else f"{space}.{name}.default"
    learn = "v.requires_grad_(v.is_floating_point() and n[:2] == 'in')"
    before = f"t = {{n: {learn} for n, v in t.items()}}\n" if call.grad else ""
    after = "" if call.overload._schema.returns else f"result = [{_written(call)}]\n"
    return _PROGRAM.format(
        title=f"{title}.\n\nRun it with `python repro.py`; it needs PyTorch and safetensors.\n",
        grad=call.grad,
        before=before,
        operator=operator,
        arguments=", ".join(positional + keywords),
        after=after,
    )


def _plain(text: str) -> str:
    """Names come from the dump, which may have any origin: nothing ends the docstring, or is invisible."""
    return "".join(letter if letter.isprintable() and letter not in '"\\' else "?" for letter in text)


def _text(value: Any) -> str:
    """Python's text of an argument."""
    if isinstance(value, Slot):
        return f't["input.{value.number}"]' + (".item()" if value.as_number else "")
    if isinstance(value, list) and value and all(isinstance(element, Slot) for element in value):
        first, last = value[0].number, value[-1].number
        if len(value) > 2 and [slot.number for slot in value] == list(range(first, last + 1)):
            return f'[t[f"input.{{i}}"] for i in range({first}, {last + 1})]'
    if isinstance(value, list):
        return f"[{', '.join(_text(element) for element in value)}]"
    return repr(str(value)) if isinstance(value, torch.device) else repr(value)


def _written(call: Call) -> str:
    """The arguments that are the result of an operator that returns nothing."""
    aliases = {argument.name: argument.alias_info for argument in call.overload._schema.arguments}
    parts = [
        _text(argument.value)
        for argument in call.arguments
        if (alias := aliases[argument.name]) is not None and alias.is_write
    ]
    return ", ".join(parts)
