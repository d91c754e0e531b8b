"""TorchAir's dump options, with TorchAir's names: a script that sets them only needs another import.

    from sonde import torchair

    config = torchair.CompilerConfig()
    config.dump_config.enable_dump = True
    config.dump_config.dump_path = "/data/dump"     # must exist
    config.dump_config.dump_layer = "Add Conv2D"
    config.start()                                   # or sonde.start(config)

A wrong value raises where it is set, with TorchAir's words. Operators inside

    with torchair.scope.data_dump():
        z = x - y

are also recorded, beside the operators that dump_layer names; without a dump_layer every operator is recorded anyway.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from . import flags, session


class Option(Protocol):
    """One option: its default, and its allowed values."""

    @property
    def default(self) -> object:
        """Its default."""

    def check(self, value: object) -> None:
        """Raises ValueError or FileNotFoundError, with TorchAir's words."""


class OneOf:
    """An option with a list of values."""

    def __init__(self, default: object, values: Sequence[object]) -> None:
        self.default = default
        self.values = values

    def check(self, value: object) -> None:
        """Raises ValueError."""
        if not any(type(value) is type(one) and value == one for one in self.values):
            raise ValueError(
                f"Value {value!r} (type: {type(value)}) not in optional list {self.values} (type: {type(self.default)})"
            )


class Matching:
    """An option whose text has a certain form."""

    default = ""

    def __init__(self, expression: str, example: str) -> None:
        self.expression = expression
        self.example = example

    def check(self, value: object) -> None:
        """Raises ValueError."""
        if not isinstance(value, str) or re.match(self.expression, value) is None:
            raise ValueError(
                f"Please set legal regex value format match {self.expression}, {value} is Illegal format, "
                f"correct example:{self.example}."
            )


class Directory:
    """An option that names a directory; it must be there when the option is set."""

    default = "./"

    def check(self, value: object) -> None:
        """Raises FileNotFoundError."""
        if not isinstance(value, str) or not os.path.isdir(value):
            raise FileNotFoundError(f"Please set legal dir path, {value} is not found or is not a file directory!")


class JsonFile:
    """An option that names a file ending in .json."""

    default = None

    def check(self, value: object) -> None:
        """Raises ValueError or FileNotFoundError."""
        if value == "":
            raise ValueError("File path cannot be empty!")
        if not isinstance(value, str) or not value.endswith(".json") or not os.path.isfile(value):
            raise FileNotFoundError(f"Please set legal file path, {value} is not found or is not '.json' file!")


class Options:
    """An object that takes the options of its class and no others."""

    _options: ClassVar[Mapping[str, Option]] = {}
    given: dict[str, object]  # the options that were set

    def __init__(self) -> None:
        object.__setattr__(self, "given", {})

    def __setattr__(self, name: str, value: object) -> None:
        self._option(name).check(value)
        self.given[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # copying and pickling request it
        return self.given.get(name, self._option(name).default)

    def _option(self, name: str) -> Option:
        if name not in self._options:
            raise ValueError(f"{type(self).__name__} has no option {name}, all options {list(self._options)}")
        return self._options[name]


class _DataDumpConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {
        "enable_dump": OneOf(False, [True, False]),
        "dump_path": Directory(),
        "dump_mode": OneOf("all", ["all", "input", "output"]),
        "quant_dumpable": OneOf(False, [True, False]),
        "dump_step": Matching(r"^(((\d+)|(\d+-{0,1}\d+))\|{0,1})*$", "0|1|2-5|6"),
        "dump_layer": Matching(r'^[0-9a-zA-Z_" "/\\.]*$', "Add_1Mul_1 Add2"),
        "dump_data": OneOf("tensor", ["tensor", "stats"]),
        "dump_config_path": JsonFile(),
        "data_dump_stage": OneOf("optimized", ["optimized", "original"]),
    }


class CompilerConfig:
    """The part of TorchAir's CompilerConfig about dumps: `mode` and `dump_config`."""

    _names = ("mode", "dump_config")
    _modes = OneOf("max-autotune", ["max-autotune", "reduce-overhead", "npugraph_ex"])

    mode: str
    dump_config: _DataDumpConfig

    def __init__(self) -> None:
        object.__setattr__(self, "mode", self._modes.default)
        object.__setattr__(self, "dump_config", _DataDumpConfig())

    def __setattr__(self, name: str, value: object) -> None:
        if name == "dump_config" and not isinstance(value, _DataDumpConfig):
            raise ValueError(f"dump_config is a {_DataDumpConfig.__name__}, not a {type(value).__name__}")
        if name not in self._names:
            raise ValueError(f"{type(self).__name__} has no option {name}, all options {list(self._names)}")
        if name == "mode":
            self._modes.check(value)
        object.__setattr__(self, name, value)

    def configuration(self) -> session.Settings:
        """The same as a configuration for sonde.start(): only the options that were set."""
        return {"dump_config": dict(self.dump_config.given)}

    def start(self) -> None:
        """Start recording. Raises Error as sonde.start() does."""
        session.start(self)


class scope:  # a module's name in TorchAir
    """`torchair.scope.data_dump()`."""

    data_dump = staticmethod(flags.dump_scope)
