"""Options of CompilerConfig that change nothing here. Each is accepted, and named once when it is used."""

from ..console import report
from .config import CompilerConfig

# Options that this package or the engine reads.
_WITH_EFFECT = (
    "mode",
    "dump_config.",
    "debug.graph_dump.",
    "debug.data_dump.",
    "debug.fx_summary.",
    "debug.run_eagerly",
    "post_grad_custom_",
)
# Why others have none, by the beginning of their name.
_REASONS = (
    ("fusion_config.", "every node is recorded, fused or not"),
    ("export.", "nothing is exported for Ascend"),
    ("aoe_config.", "Ascend's tuning does not run"),
    ("debug.deadlock_check", "there is one stream"),
    ("", "they configure Ascend's compiler, which does not run"),
)

_named: set[str] = set()


def name_options_without_effect(config: CompilerConfig) -> None:
    """One line for each reason, with the options that were set and not named before."""
    unnamed: dict[str, list[str]] = {}
    for name in config.values():
        if name.startswith(_WITH_EFFECT) or name in _named:
            continue
        _named.add(name)
        reason = next(why for beginning, why in _REASONS if name.startswith(beginning))
        unnamed.setdefault(reason, []).append(name)
    for reason, names in unnamed.items():
        report("notice", f"sonde: torchair: no effect: {', '.join(names)}: {reason}")


def say_once(text: str) -> None:
    """A line about something that has no meaning here."""
    if text not in _named:
        _named.add(text)
        report("notice", f"sonde: torchair: {text}")


def say_once_outside_compiled_code(text: str) -> None:
    """The same for calls inside a model: Dynamo traces them without a line, which would break the graph."""
    import torch

    if not torch.compiler.is_compiling():
        say_once(text)
