"""TorchAir's interface, with TorchAir's names: a script that uses TorchAir only needs another import.

    from sonde import torchair

    config = torchair.CompilerConfig()
    config.dump_config.enable_dump = True
    config.dump_config.dump_path = "/data/dump"     # must exist
    config.dump_config.dump_layer = "Add Conv2D"
    npu_backend = torchair.get_npu_backend(compiler_config=config)
    model = torch.compile(model, backend=npu_backend)

or, for a model that is not compiled, `config.start()`. A wrong value raises where it is set, with TorchAir's words.
Operators inside

    with torchair.scope.data_dump():
        z = x - y

are also recorded, beside the operators that dump_layer names; without a dump_layer every operator is recorded anyway.
docs/torchair.md lists every option.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import session
from ..errors import Error
from . import inference, scope
from .config import AotConfig, CompilerConfig
from .inference import use_internal_format_weight
from .log import logger
from .notices import name_options_without_effect, say_once

if TYPE_CHECKING:
    from .backend import Backend, Compiler

__all__ = [
    "AotConfig",
    "CompilerConfig",
    "dynamo_export",
    "get_compiler",
    "get_npu_backend",
    "inference",
    "logger",
    "patch_for_hcom",
    "register_fx_node_ge_converter",
    "register_replacement",
    "scope",
    "use_internal_format_weight",
]

_started_with: CompilerConfig | None = None  # the configuration of the recording that a backend started


def get_npu_backend(
    *,
    compiler_config: CompilerConfig | None = None,
    aot_config: AotConfig | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> "Backend":
    """A backend for torch.compile. With `dump_config.enable_dump` or `dump_config_path` recording starts now.

    Raises TypeError for arguments of other types, and Error as sonde.start() does.
    """
    config = compiler_config if compiler_config is not None else CompilerConfig()
    if not isinstance(config, CompilerConfig):
        raise TypeError(f"compiler_config is a torchair.CompilerConfig, not a {type(config).__name__}")
    if aot_config is not None and not isinstance(aot_config, AotConfig):
        raise TypeError(f"aot_config is a torchair.AotConfig, not a {type(aot_config).__name__}")
    decompositions = custom_decompositions or {}
    if not isinstance(decompositions, Mapping):
        raise TypeError(f"custom_decompositions is a dictionary, not a {type(decompositions).__name__}")
    name_options_without_effect(config)
    if aot_config is not None and aot_config.values():
        say_once(f"aot_config has no effect: {', '.join(aot_config.values())}: forward and backward are two graphs")
    _start_recording(config)
    from .backend import Backend

    return Backend(config, decompositions)


def get_compiler(compiler_config: CompilerConfig | None = None) -> "Compiler":
    """A compiler of graphs of AOTAutograd's, for a backend of your own. It runs a graph with PyTorch's own kernels."""
    config = compiler_config if compiler_config is not None else CompilerConfig()
    if not isinstance(config, CompilerConfig):
        raise TypeError(f"compiler_config is a torchair.CompilerConfig, not a {type(config).__name__}")
    name_options_without_effect(config)
    from .backend import Compiler

    return Compiler(config)


def _start_recording(config: CompilerConfig) -> None:
    """What TorchAir's graph engine does with dump_config, done by Sonde. Raises Error."""
    global _started_with
    options = config.dump_config
    if not (options.enable_dump and not config.saves_tensors()) and options.dump_config_path is None:
        return
    reasons = config.reasons_to_interpret()
    if reasons:
        say_once(f"dump_config has no effect beside {' and '.join(reasons)}")
        return
    if session.running() and not session.gives_way():
        if _started_with is None or config.configuration() != _started_with.configuration():
            say_once("dump_config of this backend is not used: a recording with other settings runs already")
        return
    session.start(config)
    _started_with = config


def dynamo_export(*_args: object, **_kwargs: object) -> None:
    """Raises Error: it writes a model for Ascend."""
    raise Error("torchair.dynamo_export writes a model for Ascend, which Sonde does not; use torch.export")


def patch_for_hcom() -> None:
    """Without effect: PyTorch's collectives are used as they are."""
    say_once("patch_for_hcom has no effect: PyTorch's collectives are used as they are")


def register_fx_node_ge_converter(_operator: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives the converter back unused: PyTorch's kernels run, not Ascend's."""
    say_once("register_fx_node_ge_converter has no effect: PyTorch's kernels run, not Ascend's")
    return lambda converter: converter


def register_replacement(*_args: object, **_kwargs: object) -> None:
    """Without effect: graphs are not rewritten for Ascend."""
    say_once("register_replacement has no effect: graphs are not rewritten for Ascend")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"torchair.{name} is not available in Sonde, which has {', '.join(__all__)}")
