"""TorchAir's CompilerConfig."""

from sonde.torchair import CompilerConfig

__all__ = ["CompilerConfig"]
