"""Gives torch.compile what torch_npu gives it: the backend "npugraph_ex", and the device "npu" in compiled code."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.registry import register_backend
from torch._dynamo.variables import ConstantVariable
from torch._dynamo.variables.user_defined import UserDefinedClassVariable

from . import a_backend_is_npu
from .identity import is_npu


def install() -> None:
    """Gives PyTorch the name."""
    register_backend(npugraph_ex)


def npugraph_ex(module: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compiles a graph of Dynamo's in TorchAir's mode npugraph_ex. `options` are those of torch.compile."""
    from .. import torchair

    config = torchair.CompilerConfig()
    config.mode = "npugraph_ex"
    return torchair.get_npu_backend(compiler_config=config)(module, inputs, **options)


@functools.cache
def know_devices() -> None:
    """Compiled code may make a torch.device("npu").

    Dynamo calls torch.device itself, while it traces, where the mode of identity.py is not asked.
    """
    variable: Any = UserDefinedClassVariable
    original = variable.call_function

    @functools.wraps(original)
    def call_function(self: Any, tx: Any, args: Sequence[Any], kwargs: Any) -> Any:
        if self.value is torch.device and not a_backend_is_npu():
            given = [*args, *kwargs.values()]
            if given and given[0].is_python_constant() and is_npu(given[0].as_python_constant()):
                args, kwargs = [ConstantVariable.create("cpu")], {}
        return original(self, tx, args, kwargs)

    variable.call_function = call_function
