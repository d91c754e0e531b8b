"""The engine behind the Python face; private, used by sonde.session and by the adapters."""

from typing import Any

import numpy as np

version: str

def start(config_path: str) -> tuple[bool, str]:
    """Prepare a session: (whether it started, all errors and warnings)."""

def stop() -> str:
    """Flush and end the session; the closing line, empty when there was none."""

def active() -> bool: ...
def take_failure() -> str | None:
    """The failure that the user has not been told yet."""

def manual_step() -> int: ...
def dump_switch(on: bool) -> int: ...
def set_iteration(iteration: int) -> int: ...
def is_over() -> bool:
    """The plan wants the program to end here: the last chosen step is over."""

def records_exceptions() -> bool:
    """The session's plan asks for the operator that throws."""

def forked_child() -> None: ...
def api() -> int:
    """Address of the engine's function table (struct sonde_api)."""

# What sonde.dump is made of: sonde/dump.h, tables as columns. A column of texts is (number of each row's text, texts).

Words = tuple[np.ndarray, list[str]]
Parameters = list[tuple[str, float]]

class Dump:
    def ranks(self) -> list[int]: ...
    def directory(self, rank: int) -> str: ...
    def problems(self) -> list[tuple[str, str]]: ...
    def op_count(self) -> int: ...
    def tensor_count(self) -> int: ...
    def step_columns(self) -> dict[str, np.ndarray | Words]: ...
    def op_columns(self) -> dict[str, np.ndarray | Words]: ...
    def tensor_columns(self) -> dict[str, np.ndarray | Words]: ...
    def statistics_columns(self, tensors: list[int]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """{name: (values, 1 where it is known)}"""

    def edge_columns(self, step: int) -> dict[str, np.ndarray | Words]: ...
    def select(
        self,
        ops: bool,
        ranks: list[int],
        iterations: list[int],
        graphs: list[int],
        slots: list[int],
        op: str,
        type: str,
        source: str,
        inputs: bool | None,
    ) -> np.ndarray: ...
    def look(self, tensor: int) -> tuple[str, tuple[int, ...] | None]: ...
    def statistics(self, tensor: int) -> dict[str, float | int | None]: ...
    def measure(self, tensors: list[int]) -> list[tuple[str, str]]: ...
    def values(self, tensor: int) -> tuple[np.ndarray, str]:
        """(elements as they lie in the file, the name of their type)"""

    def values_as_float32(self, tensor: int) -> np.ndarray: ...
    def watch(
        self, watchpoints: list[tuple[str, Parameters, list[int]]], most_bytes: int, error_on_no_value: bool
    ) -> tuple[list[Any], list[Any]]: ...
    def trace(self, op: int) -> list[tuple[str, int, str]]: ...
    def attributes(self, op: int) -> dict[str, str]: ...
    def code(self, op: int, file: str, line: int) -> str: ...

def open_dump(
    path: str, ranks: list[int], iterations: list[int], graphs: list[int], op: str, type: str, source: str
) -> Dump: ...
def convert_to_host(file: str) -> tuple[list[str], list[str]]:
    """(files written, what failed) of one of CANN's files."""

def check_condition(condition: str, parameters: Parameters) -> None:
    """Raises ValueError."""

# What sonde.analyses is made of: sonde/findings.h. An answer is (its JSON, the page of text).

class Comparison:
    def json(self) -> str: ...
    def text(self, all: bool) -> str: ...
    def csv(self) -> str: ...
    def junit(self) -> str: ...
    def left_out(self) -> list[str]: ...

def first_bad(dump: Dump, steps: str, graph: int | None, rank: int | None, threads: int) -> tuple[str, str]: ...
def stomp(dump: Dump, steps: str, graph: int | None, rank: int | None) -> tuple[str, str]: ...
def compare(
    target: Dump,
    golden: Dump,
    rtol: float | None,
    atol: float | None,
    mapping: str,
    step: int | None,
    graph: int | None,
    rank: int | None,
    threads: int,
) -> Comparison: ...
def watch(
    dump: Dump,
    conditions: list[str],
    recommended: bool,
    steps: list[int],
    graph: int | None,
    rank: int | None,
    op: str,
    type: str,
    source: str,
    inputs: bool | None,
) -> dict[str, Any]: ...
def convert(
    paths: list[str],
    out: str,
    type: str,
    format: str,
    shape: list[int],
    input: int | None,
    output: int | None,
) -> dict[str, Any]: ...
