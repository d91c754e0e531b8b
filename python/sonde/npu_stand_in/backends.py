"""The backend that torch_npu gives torch.compile by its name: `torch.compile(model, backend="npugraph_ex")`."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx
from torch._dynamo.backends.registry import register_backend


def install() -> None:
    """Gives PyTorch the name."""
    register_backend(npugraph_ex)


def npugraph_ex(module: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compiles a graph of Dynamo's in TorchAir's mode npugraph_ex. `options` are those of torch.compile."""
    from .. import torchair

    config = torchair.CompilerConfig()
    config.mode = "npugraph_ex"
    return torchair.get_npu_backend(compiler_config=config)(module, inputs, **options)
