"""TorchAir's configurations."""
