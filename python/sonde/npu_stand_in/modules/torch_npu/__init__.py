"""torch_npu for the CPU: `.npu()` and the device "npu" as the identity, and its backend of torch.compile."""

from typing import Any

import torch

from sonde.npu_stand_in import backends, identity

__version__ = torch.__version__.partition("+")[0]
identity.install()
backends.install()
backends.know_devices()
npu = torch.npu  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"torch_npu.{name} is not available: --npu-stand-in gives .npu() and the device 'npu'; operators of Ascend "
        "need its hardware"
    )
