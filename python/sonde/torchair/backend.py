"""TorchAir's backend of torch.compile, on PyTorch's own compilers.

Inductor compiles the graph, and Sonde records its nodes. Options under `debug`, and devices that Inductor has no
code for, run it node by node instead, with PyTorch's interpreter of FX graphs and PyTorch's own kernels.
"""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.partitioners import default_partition

from ..console import say_once
from ..ge import text
from .config import CompilerConfig
from .debug_folder import GraphFolder, ModelFolder
from .fx_data import DataDumper, TensorSaver, timestamp
from .fx_graph import ge_graph
from .fx_python import python_text
from .fx_summary import write_summary
from .log import logger
from .notices import say_once as say
from .npugraph_ex import with_options
from .text_files import write_text

_ids = itertools.count(1)  # of the graphs of this process

_FORMS: Mapping[str, Callable[[str, fx.Graph], str]] = {
    "txt": lambda name, graph: text.graph_def(ge_graph(name, graph)),
    "pbtxt": lambda name, graph: text.tensorflow(ge_graph(name, graph)),
    "py": lambda _name, graph: python_text(graph),
}


class Backend:
    """The result of torchair.get_npu_backend(). One object for a configuration, so Dynamo keeps its compiled code."""

    def __init__(self, config: CompilerConfig, decompositions: Mapping[Any, Callable[..., Any]]) -> None:
        self.config = config
        self.decompositions = dict(decompositions)

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
        """Compiles a graph of Dynamo's. `options` are those of torch.compile."""
        config = with_options(self.config, options.get("options") or {})
        reasons = [*config.reasons_to_interpret(), *_devices_without_inductor(inputs)]
        if reasons:
            say(f"{' and '.join(reasons)}: the graph runs node by node, without Inductor")
            compiler = Compiler(config, ModelFolder(module))
            compiled: Callable[..., Any] = aot_autograd(
                fw_compiler=compiler,
                bw_compiler=compiler,
                inference_compiler=compiler,
                partition_fn=default_partition,
                decompositions=self.decompositions,
                keep_inference_input_mutations=True,
            )(module, inputs)
            return compiled
        return _with_inductor(config, self.decompositions, module, inputs)


class Compiler:
    """Compiles one graph of AOTAutograd's: forward, backward or inference; the result of torchair.get_compiler()."""

    def __init__(self, config: CompilerConfig, folder: ModelFolder | None = None) -> None:
        """`folder`: of the graph of Dynamo's that is compiled; None if it is not known."""
        self.config = config
        self.folder = folder or ModelFolder()

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """The function that runs the graph."""
        graph_id = next(_ids)
        folder = self.folder.of_graph()
        _prepare(self.config, graph_id, module, inputs, folder)
        debug = self.config.debug
        run: Callable[..., Any] = module.forward
        if debug.data_dump.type is not None:
            run = DataDumper(module, debug.data_dump, graph_id)
        elif self.config.saves_tensors():
            run = TensorSaver(module, self.config.dump_config.dump_path)
        return _first_writes(run, self.config, graph_id, module.graph, folder)


def _devices_without_inductor(inputs: Sequence[Any]) -> list[str]:
    """A reason for each kind of device of the graph's inputs that Inductor has no code for, as a backend named npu."""
    from torch._inductor.codegen.common import get_scheduling_for_device, init_backend_registration

    init_backend_registration()
    types = {value.device.type for value in inputs if isinstance(value, torch.Tensor)}
    return [f"Inductor has no code for {one}" for one in sorted(types) if get_scheduling_for_device(one) is None]


def _with_inductor(
    config: CompilerConfig,
    decompositions: Mapping[Any, Callable[..., Any]],
    module: fx.GraphModule,
    inputs: Sequence[Any],
) -> Callable[..., Any]:
    """Compiles with Inductor, whose graphs Sonde records."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    known: set[str] = set()
    model_folder = ModelFolder(module)

    def compile_inner(graph_module: fx.GraphModule, example_inputs: Any, **rest: Any) -> Any:
        text_of_graph = str(graph_module.graph)
        if text_of_graph in known:  # Sonde's second form of a graph
            return compile_fx_inner(graph_module, example_inputs, **rest)
        known.add(text_of_graph)
        graph_id = next(_ids)
        folder = model_folder.of_graph()
        _prepare(config, graph_id, graph_module, example_inputs, folder)
        with _optimized_is_written(config, graph_id, folder):
            return compile_fx_inner(graph_module, example_inputs, **rest)

    arguments: dict[str, Any] = {}
    if decompositions:
        arguments["decompositions"] = {**select_decomp_table(), **decompositions}
    compiled: Any = compile_fx(module, list(inputs), inner_compile=compile_inner, **arguments)
    return compiled  # type: ignore[no-any-return]


@contextlib.contextmanager
def _optimized_is_written(config: CompilerConfig, graph_id: int, folder: GraphFolder) -> Iterator[None]:
    """Inductor shows its optimized graph to a pass of ours, before any other of this kind that was there already."""
    if config.debug.graph_dump.type is None and not folder.is_written:
        yield
        return
    from torch._inductor import config as inductor

    present = inductor.post_grad_custom_post_pass
    others = list(present) if isinstance(present, list | tuple) else [present] if present is not None else []

    def write(graph: fx.Graph) -> None:
        _dump_graph(config, "optimized", graph_id, graph, folder)
        for other in others:
            other(graph)

    with inductor.patch(post_grad_custom_post_pass=write):
        yield


def _prepare(
    config: CompilerConfig, graph_id: int, module: fx.GraphModule, inputs: Sequence[Any], folder: GraphFolder
) -> None:
    """The user's passes; the files about the graph as it comes."""
    logger.info("  graph: %s", module.graph)
    folder.write("graph", lambda: module.print_readable(print_output=False))
    for name in ("post_grad_custom_pre_pass", "post_grad_custom_post_pass"):
        own = getattr(config, name)
        if own is not None:
            own(module, inputs, config)
            module.recompile()
            folder.write(f"graph_after_{name}", lambda: module.print_readable(print_output=False))
    _dump_graph(config, "original", graph_id, module.graph, folder)
    if config.debug.fx_summary.type is not None:
        _summarize(module.graph)


def _first_writes(
    run: Callable[..., Any], config: CompilerConfig, graph_id: int, graph: fx.Graph, folder: GraphFolder
) -> Callable[..., Any]:
    """`run`, which takes its arguments as a list; before the first run the optimized graph is written."""
    written = config.debug.graph_dump.type is None and not folder.is_written
    boxed = make_boxed_func(run)

    def call(arguments: list[Any]) -> Any:
        nonlocal written
        if not written:
            written = True
            _dump_graph(config, "optimized", graph_id, graph, folder)
        return boxed(arguments)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _dump_graph(config: CompilerConfig, stage: str, graph_id: int, graph: fx.Graph, folder: GraphFolder) -> None:
    """Writes the file of `config.debug.graph_dump`, if it asks for one, and that of the folder for debugging."""
    graph_name = f"graph_{graph_id}"
    folder.write(f"{stage}_ge_graph", lambda: _FORMS["pbtxt"](graph_name, graph))
    options = config.debug.graph_dump
    if options.type is None:
        return
    name = f"dynamo_{stage}_graph_{graph_id}_{_process()}_ts_{timestamp()}.{options.type}"
    path = os.path.join(options.path or os.getcwd(), name)
    write_text(path, _FORMS[options.type](graph_name, graph), "the graph is missing; set debug.graph_dump.path")


def _process() -> str:
    is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return f"rank_{torch.distributed.get_rank() if is_distributed else 0}_pid_{os.getpid()}"


def _summarize(graph: fx.Graph) -> None:
    path = os.path.join(os.getcwd(), f"summary_{_process()}_ts_{timestamp()}.csv")
    try:
        write_summary(path, graph)
    except OSError as error:
        say_once(f"sonde: cannot write '{path}': {error.strerror}; the summary is missing")
