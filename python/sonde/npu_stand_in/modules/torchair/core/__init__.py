"""TorchAir's core."""
