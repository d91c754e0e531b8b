"""The engine behind the Python face; private, used by sonde.session and by the adapters."""

from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

version: str

class _HostSettings(TypedDict):
    path: str
    first_step: int
    inputs_after: bool

def configuration(
    path: str,
    *,
    iteration: str = "all",
    saved_data: str,
    kernels: list[str] = ...,
    statistics: list[str] = ...,
    net_name: str = "Net",
    initial_iteration: int = 0,
    devices: int = 8,
) -> str:
    """A small configuration in MindSpore's dialect, as JSON."""

def dump_path_of(configuration: str) -> str:
    """The directory that a configuration of any dialect, as JSON, names for the dump; '' if it has a mistake."""

def start(config_path: str) -> tuple[bool, str]:
    """Prepare a session: (whether it started, all errors and warnings)."""

def stop() -> str:
    """Flush and end the session; the closing line, empty when there was none."""

def active() -> bool:
    """True if a session runs in this process."""

def take_failure() -> str | None:
    """The failure that was not yet reported to the user."""

def manual_step() -> int:
    """The step ends here."""

def dump_switch(on: bool) -> int:
    """From now on the switch decides what is recorded."""

def set_step(step: int) -> int:
    """The number of the step that begins next."""

def is_over() -> bool:
    """The plan wants the program to end here: the last chosen step is over."""

def records_exceptions() -> bool:
    """The session's plan asks for the operator that throws."""

def has_ring() -> bool: ...
def write_ring(why: str) -> int: ...
def host_settings() -> _HostSettings:
    """The settings of the plan that a host with its own dumper needs. Raises ValueError if no session runs."""

def flag_scope(scope: str, type: str, enabled: bool) -> None:
    """Switches the recording of a scope, or of its operators of a type, under `dump_mode` 2."""

def keeps_summary() -> bool:
    """The session's plan asks for a summary."""

def summary_place(rank: int, device: int) -> None:
    """The process among those of the run."""

def summary_step(step: int, nanoseconds: int) -> int:
    """The step with this number begins, after so much time for the one before: what is wanted (enum
    sonde_summary_step)."""

def summary_series(kind: int, name: str, type: str, dtype: int, shape: list[int]) -> int:
    """The number of a tensor that is followed; 2**32 - 1: nothing is kept of it."""

def summary_dense(series: int, address: int, dtype: int, elements: int) -> None:
    """Reads a tensor now."""

def summary_strided(series: int, address: int, dtype: int, shape: list[int], strides: list[int]) -> None:
    """Reads a tensor now."""

def summary_again(series: int, earlier: int) -> bool:
    """Takes the tensor that this thread gave last, as one of `earlier`, for one of this series too. False: it must be
    read."""

def summary_unread(series: int) -> None:
    """Counts a tensor that cannot be read."""

def forked_child() -> None:
    """In a forked child: turns the engine off."""

def api() -> int:
    """Address of the engine's function table (struct sonde_api)."""

# The base of sonde.dump: sonde/dump.h, tables as columns. A column of texts is (number of each row's text, texts).

_Words = tuple[NDArray[np.int32], list[str]]
_Parameters = list[tuple[str, float]]

_EdgeColumns = TypedDict(
    "_EdgeColumns",
    {
        "from": NDArray[np.int64],
        "from_slot": NDArray[np.uint32],
        "to": NDArray[np.int64],
        "to_slot": NDArray[np.uint32],
        "parameter": _Words,
    },
)

class Dump:
    """An opened dump. Unreadable data raise FileNotFoundError, OSError or RuntimeError; wrong arguments raise
    ValueError."""

    def ranks(self) -> list[int]:
        """Numbers of the ranks."""

    def directory(self, rank: int) -> str:
        """The directory with the files of a rank."""

    def notes(self) -> list[str]:
        """Ranks that the dump lacks, and versions of Sonde that differ between them, a line each."""

    def problems(self) -> list[tuple[str, str]]:
        """(file, reason why it could not be read)"""

    def op_count(self) -> int:
        """The number of operators, including parameters."""

    def tensor_count(self) -> int:
        """The number of inputs and outputs."""

    def step_columns(self) -> dict[str, NDArray[Any] | _Words]:
        """Columns of sonde.dump.tables.StepTable."""

    def op_columns(self) -> dict[str, NDArray[Any] | _Words]:
        """Columns of OpTable."""

    def tensor_columns(self) -> dict[str, NDArray[Any] | _Words]:
        """Columns of TensorTable."""

    def statistics_columns(self, tensors: list[int]) -> dict[str, tuple[NDArray[Any], NDArray[np.uint8]]]:
        """{name: (values, 1 if it is known)}"""

    def edge_columns(self, step: int) -> _EdgeColumns:
        """The data flow of a step: rows of operators, `from` is -1 if no operator made it."""

    def select(
        self,
        ops: bool,
        ranks: list[int],
        steps: list[int],
        graphs: list[int],
        slots: list[int],
        op: str,
        type: str,
        source: str,
        inputs: bool | None,
    ) -> NDArray[np.uint64]:
        """Rows of operators or tensors; an empty list or text selects all."""

    def look(self, tensor: int) -> tuple[str, tuple[int, ...] | None]:
        """(type, shape) from the file."""

    def statistics(self, tensor: int) -> dict[str, float | int | None]:
        """The statistics in the dump; without them, measured ones."""

    def measure(self, tensors: list[int]) -> list[tuple[str, str]]:
        """Measures tensors without statistics: (file, reason why it could not be read)."""

    def values(self, tensor: int) -> tuple[NDArray[Any], str]:
        """(elements as in the file, the name of their type)"""

    def values_as_float32(self, tensor: int) -> NDArray[np.float32]:
        """The elements one after the other."""

    def watch(
        self, watchpoints: list[tuple[str, _Parameters, list[int]]], most_bytes: int, error_on_no_value: bool
    ) -> tuple[
        list[tuple[int, int, bool, int, list[tuple[str, float, float | None, bool]]]], list[tuple[int, int, str]]
    ]:
        """(hits, gaps): (watchpoint, tensor, is a hit, error code, [(parameter, value, actual, hit)]), (watchpoint,
        tensor, why)"""

    def trace(self, op: int) -> list[tuple[str, int, str]]:
        """(file, line, function), innermost first."""

    def attributes(self, op: int) -> dict[str, str]:
        """Arguments that are not tensors."""

    def code(self, op: int, file: str, line: int) -> str:
        """The text of a line, from the dump or from the file; '' if unknown."""

def open_dump(
    path: str, ranks: list[int], steps: list[int], graphs: list[int], op: str, type: str, source: str
) -> Dump:
    """An empty list or text selects all."""

def add_file_source(root: str, ask: Callable[[str, str, int, int], str]) -> None:
    """Files below `root` come from `ask(need, path, offset, bytes)`, which returns the reason why it failed, or ''.

    `need` is "file", "part", "directory" or "tree" (sonde/file_source.h)."""

def convert_to_host(file: str) -> tuple[list[str], list[str]]:
    """(files written, tensors that failed) for one of CANN's files."""

def check_condition(condition: str, parameters: _Parameters) -> None:
    """Raises ValueError."""

def watch_errors(error_code: int) -> list[str]:
    """A sentence for each bit of a hit's error code."""

def message_fields(message: bytes) -> list[tuple[int, Any]]:
    """(number, value) of each field of a protocol buffers message: an int, a float, or the bytes of a text or message.
    Raises ValueError where the bytes are not a complete message."""

def listed(what: str, list: str, numbers: list[int]) -> list[int]:
    """The members of `numbers` that a list such as '3', '0-5' or '1|4' selects. Raises ValueError, whose message begins
    with `what`, if it is not a list."""

def pattern_selects(pattern: str, op_name: str, op_type: str) -> bool:
    """Whether a pattern of --select, such as '**/conv*', selects an operator."""

# The base of sonde.analyses: sonde/findings.h. An answer is (its JSON, the page of text).

class Comparison:
    def json(self) -> str: ...
    def text(self, all: bool) -> str: ...
    def csv(self) -> str: ...
    def junit(self) -> str: ...
    def left_out(self) -> list[str]: ...

# `question`: by the names of the question's options (sonde.answer_types).
def first_bad(dump: Dump, question: dict[str, Any]) -> tuple[str, str]: ...
def headroom(dump: Dump, question: dict[str, Any]) -> tuple[str, str]: ...
def first_bad_of_parts(dump: str, parts: str, question: dict[str, Any]) -> tuple[str, str]: ...
def stomp(dump: Dump, question: dict[str, Any]) -> tuple[str, str]: ...
def compare(target: Dump, golden: Dump, question: dict[str, Any]) -> Comparison: ...
def watch(dump: Dump, question: dict[str, Any]) -> str: ...
def convert(paths: list[str], out: str, question: dict[str, Any]) -> str: ...
