"""TorchAir's logger."""

from sonde.torchair.log import EVENT_LEVEL, logger

__all__ = ["EVENT_LEVEL", "logger"]
