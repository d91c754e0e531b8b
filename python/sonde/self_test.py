"""The adapter's self-test: whether it works with this interpreter's PyTorch, a version that was never tested.

adapter.py runs it in a child process. A small training runs bare and recorded; then the dump is compared with
PyTorch's own values. It prints `passed`, or ends with status 1 and one line that names the failure. It needs no package
but torch.
"""

import csv
import functools
import pathlib
import runpy
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import adapter, session

_TOLERANCE = 1e-5  # of numbers that the table shows with six digits


class Failed(Exception):
    """The adapter does not work with this PyTorch; the text contains the error."""


def main(library: str) -> None:
    """Tests the adapter in the file `library`. Ends the process with status 1 if it does not work."""
    torch.set_num_threads(1)
    try:
        adapter.load_file(pathlib.Path(library))
        _check_frames()
        with tempfile.TemporaryDirectory(prefix="sonde-self-test-") as directory:
            _check_training(pathlib.Path(directory))
    except Failed as failure:
        _fail(str(failure))
    except Exception as error:
        _fail(f"{type(error).__name__}: {' '.join(str(error).split())}")
    print("passed")


def _fail(text: str) -> None:
    print(text)
    sys.exit(1)


# --- the interpreter's stack ------------------------------------------------------------------------------------------


def _check_frames() -> None:
    """Compares the adapter's walk over the stack with sys._getframe, from several kinds of callers."""
    walk = sys.modules["_sonde_torch"].frames

    def look() -> int:
        seen = walk()
        expected = []
        frame = sys._getframe(0)
        while frame is not None:
            expected.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back  # type: ignore[assignment]
        # The line of this function itself changes between the two calls.
        if [code for code, _ in seen] != [code for code, _ in expected] or seen[1:] != expected[1:]:
            raise Failed("the adapter does not find the interpreter's frames")
        return 0

    def generator() -> Iterator[int]:
        yield look()

    callers: list[Callable[[], object]] = [
        look,
        functools.partial(look),
        lambda: [look() for _ in range(1)],
        lambda: list(generator()),
        lambda: list(map(lambda _: look(), (1,))),  # noqa: C417 - through C
        lambda: sorted((2, 1), key=lambda _: look()),
        lambda: exec("look()", {"look": look}),
    ]
    for call in callers:
        call()


# --- a training -------------------------------------------------------------------------------------------------------


def _check_training(directory: pathlib.Path) -> None:
    program = directory / "training.py"  # not in the package, whose lines do not count as the user's
    shutil.copyfile(pathlib.Path(__file__).with_name("self_test_training.py"), program)
    train = runpy.run_path(str(program))["train"]
    bare, _ = train()
    with session.capture(session.settings(directory / "dump", net_name="SelfTest")) as run:
        recorded, tensors = train()
    if bare != recorded:
        raise Failed("a recorded training computes other numbers than a bare one")
    for step, expected in enumerate(tensors):
        rows = _rows(directory / "dump", step, run.summary)
        _check_values(rows, expected, step)
        _check_operators(rows, step)
    graphs = "".join(path.read_text(encoding="utf-8") for path in directory.glob("dump/rank_0/graphs/*.ir"))
    if f"# In file {program}:" not in graphs:
        raise Failed("the dump names no line of the program")


def _rows(dump: pathlib.Path, step: int, summary: str) -> list[dict[str, Any]]:
    tables = list(dump.glob(f"rank_0/SelfTest/*/{step}/statistic.csv"))
    if len(tables) != 1:
        raise Failed(f"step {step} was not recorded ({summary.splitlines()[0] if summary else 'no summary'})")
    with open(tables[0], encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# The tensor's key: type of its operator, part of its scope, side, slot.
_PLACES = {
    "input": ("conv2d", "conv-Conv2d", "input", "0"),
    "logits": ("linear", "out-Linear", "output", "0"),
    "gradient": ("", "Gradients/", "output", "0"),
}


def _check_values(rows: list[dict[str, Any]], tensors: dict[str, torch.Tensor], step: int) -> None:
    for name, (op_type, scope, side, slot) in _PLACES.items():
        found = [
            row
            for row in rows
            if op_type in row["Op Type"] and scope in row["Op Name"] and (row["IO"], row["Slot"]) == (side, slot)
        ]
        if not any(_agree(row, tensors[name]) for row in found):
            raise Failed(f"in step {step}, no tensor of the dump has the statistics of the {name} in PyTorch")


def _agree(row: dict[str, Any], tensor: torch.Tensor) -> bool:
    values = tensor.double()
    expected = {
        "Max Value": values.max(),
        "Min Value": values.min(),
        "Avg Value": values.mean(),
        "L2Norm Value": values.norm(),
    }
    if row["Shape"] != "[" + ",".join(map(str, tensor.shape)) + "]":
        return False
    return all(
        abs(float(row[column]) - float(value)) <= _TOLERANCE * max(1.0, abs(float(value)))
        for column, value in expected.items()
    )


def _check_operators(rows: list[dict[str, Any]], step: int) -> None:
    names = {row["Op Name"] for row in rows}
    for part, phase in (("Gradients/", "backward"), ("/optimizer-AdamW/", "the optimizer")):
        if not any(part in name for name in names):
            raise Failed(f"step {step} has no operator of {phase} in the dump")
