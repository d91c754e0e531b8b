"""`.npu()` and the device "npu" as the identity: everything stays on the CPU, until a backend has the name."""

import functools
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from . import a_backend_is_npu, said_once

_CPU = torch.device("cpu")


def install() -> None:
    """Adds `.npu()`, `torch.npu` and the device "npu"; a second call changes nothing."""
    if _steps_back() or hasattr(torch, "npu"):
        return
    torch.Tensor.npu = _npu  # type: ignore[attr-defined]
    torch.nn.Module.npu = _npu  # type: ignore[attr-defined]
    torch.npu = sys.modules["torch.npu"] = _Npu("torch.npu")  # type: ignore[attr-defined]
    torch.serialization.register_package(0, lambda _storage: None, _restored)
    _NpuIsCpu().__enter__()  # type: ignore[no-untyped-call]
    for owner, name in (
        (torch.utils, "rename_privateuse1_backend"),
        (torch.utils.backend_registration, "rename_privateuse1_backend"),
        (torch, "_register_device_module"),
    ):
        setattr(owner, name, _stepping_back(getattr(owner, name)))


def _steps_back() -> bool:
    """True if a backend has the name; then nothing here does, for PyTorch refuses a backend whose module exists."""
    if not a_backend_is_npu():
        return False
    if isinstance(getattr(torch, "npu", None), _Npu):
        del sys.modules["torch.npu"]
        for owner in (torch, torch.Tensor, torch.nn.Module):
            delattr(owner, "npu")
    return True


def _stepping_back(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a function that a backend calls to take the name."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        _steps_back()
        try:
            return original(*args, **kwargs)
        finally:
            _steps_back()

    return call


def _npu(self: Any, *_args: object, **_kwargs: object) -> Any:
    """The tensor or module itself, on the CPU."""
    if not torch.compiler.is_compiling():
        said_once(".npu()", ".npu() gives the tensor or module itself, on the CPU")
    return self


class _NpuIsCpu(TorchFunctionMode):
    """The device "npu" in a call of PyTorch becomes the CPU."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(is_npu(one) for one in (*args, *kwargs.values())) and _steps_back():
            return func(*args, **kwargs)
        if any(is_npu(one) for one in args):
            args = tuple(_CPU if is_npu(one) else one for one in args)
            _announce()
            if func is torch.device:
                return _CPU
        for key in ("device", "type", "map_location"):
            if key in kwargs and is_npu(kwargs[key]):
                _announce()
                if func is torch.device:
                    return _CPU
                kwargs = {**kwargs, key: _CPU}
        return func(*args, **kwargs)


def is_npu(value: object) -> bool:
    """True for `npu` and `npu:0`."""
    return isinstance(value, str) and (value == "npu" or value.startswith("npu:"))


def _announce() -> None:
    if not torch.compiler.is_compiling():
        said_once("device", 'the device "npu" is the CPU')


def _restored(storage: Any, location: str) -> Any:
    """Loads on the CPU a tensor that was saved on an NPU, or that is to be loaded there."""
    return storage if is_npu(location) and not _steps_back() else None


class _Npu(ModuleType):
    """`torch.npu`: one device, the CPU."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"torch.npu.{name} is not available: --npu-stand-in gives .npu(), the device 'npu', and of torch.npu "
            f"{', '.join(sorted(one for one in vars(type(self)) if one[0] != '_'))}"
        )

    @staticmethod
    def is_available() -> bool:
        """True: programs then take their way with a device."""
        return True

    @staticmethod
    def device_count() -> int:
        """One: the CPU."""
        return 1

    @staticmethod
    def current_device() -> int:
        """Its number."""
        return 0

    @staticmethod
    def set_device(_device: object) -> None:
        """Nothing to choose."""

    @staticmethod
    def synchronize(_device: object = None) -> None:
        """Nothing to wait for."""

    @staticmethod
    def empty_cache() -> None:
        """Nothing to free."""

    @staticmethod
    def manual_seed(_seed: int) -> None:
        """torch.manual_seed() has set the CPU's."""

    @staticmethod
    def manual_seed_all(_seed: int) -> None:
        """torch.manual_seed() has set the CPU's."""
