"""The functions of `_sonde_torch`, the library that watches PyTorch (adapters/torch/module.cpp)."""

from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, Protocol

import torch
from torch import nn


class Library(Protocol):
    """The extension module that adapter.load() returns. Calls come from any thread, with the GIL."""

    def load(self, api: int, /) -> str:
        """Takes the address from _core.api(); must be the first call. Returns the engine's version. Raises RuntimeError
        if the engine has another version of the C ABI."""

    def install(  # noqa: PLR0917 - as C takes them
        self,
        module: type[nn.Module],
        module_call: CodeType,
        optimizer_step: CodeType,
        nobodys_code: tuple[str, ...],
        scope_of: Callable[[list[nn.Module]], str],
        new_root: Callable[[nn.Module], None],
        source_of: Callable[[str], str | None],
        may_read: Callable[[str], bool],
        bare_training: Callable[[], bool],
        parameters_exist: Callable[[], bool],
        place_in_graph: Callable[[nn.Module, int], tuple[str, list[tuple[str, int, str, str]], bool] | None],
        layout_of: Callable[[Any], tuple[str, int]],
        /,
    ) -> None:
        """Watches every operator from now on. Frames of `module_call` are calls of modules, those of `optimizer_step`
        steps of optimizers; files that begin with one of `nobodys_code` (up to four) are not the user's code. The
        functions are called once for each new thing. `module` is the class nn.Module."""

    def look_for_model(self, module_call: CodeType, model_may_run: Callable[[nn.Module | None, bool], None], /) -> None:
        """Until install() or end_search(): `model_may_run` is called at the operators with which the program's first
        model may run, with the outermost module, and whether the operator is of a training."""

    def end_search(self) -> None:
        """Ends look_for_model()."""

    def uninstall(self) -> None:
        """Stops watching. Waits until values of running collectives are read."""

    def frames(self) -> list[tuple[CodeType, int]]:
        """Code and line of every frame of the calling thread, innermost first, from the adapter's own walk."""

    def set_run_info(self, rank: int, device: int, host: str, command: str, world_size: int, /) -> None:
        """The identity of this process, for the journal; counts until the first step."""

    def root_forward(  # noqa: PLR0917
        self,
        module: nn.Module,
        has_parameters: bool,
        optimizer_alive: bool,
        may_train_without_grad: bool,
        trained: bool,
        evaluates: bool,
        /,
    ) -> tuple[bool, bool]:
        """A root module's forward begins: (whether operators are recorded, whether it is a forward with gradients)."""

    def modules_exist(self, with_parameters: bool, /) -> None:
        """Steps were counted by calls of modules without parameters; whether some module has any."""

    def model_tensors(self, root: torch.nn.Module, table: str, /) -> list[tuple[str, torch.Tensor]]:
        """(name, tensor) of the `_parameters` or `_buffers` of `root` and all below it: `features.0.weight`."""

    def asks_for_writers(self) -> bool:
        """The plan lets one rank write what several have."""

    def name_model(self, root: torch.nn.Module, prefix: str, writers: dict[int, int] | None, /) -> None:
        """The parameters and buffers of `root` and all below it have their names from now on; `writers` of
        replicas.py."""

    def name_optimizer(
        self,
        attributes: dict[str, object],
        models: list[tuple[torch.nn.Module, str]],
        writers: dict[int, int] | None,
        /,
    ) -> None:
        """The same for the gradients and states of an optimizer, whose `__dict__` is given; `models` with their
        prefixes."""

    def name_tensor(self, name: str, tensor: torch.Tensor, /) -> None:
        """The tensor has this name from now on."""

    def memory_written(self, tensor: object, given_away: bool, /) -> None:
        """The elements of a tensor changed without an operator; `given_away`: from now on they may do so without
        notice."""

    def storage_resized(self, storage: torch.UntypedStorage, before: int, /) -> None:
        """A storage with `before` bytes may have grown."""

    def trial(self, change: int, /) -> None:
        """A run whose results PyTorch throws away begins (1) or ends (-1); its operators have no values."""

    def leave_out(self, change: int, /) -> None:
        """A run of the program that is not to be recorded begins (1) or ends (-1)."""

    def step_requests(self, requests: list[tuple[str, int, int, int]], /) -> None:
        """(request, first row, rows, position of the first row's token) of the step that begins next."""

    def step_over(self) -> None:
        """The step of an engine is over: what runs until the next one belongs to none."""

    def memory_of(self, tensor: torch.Tensor, /) -> tuple[str, bytes | memoryview | None]:
        """(description, bytes), or (reason why it cannot be read, None)."""

    def forget_dead_storages(self) -> None:
        """Forgets the facts from memory_of() and memory_written() about freed storages."""

    def set_flags(self, targets: Mapping[int, bool], /) -> None:
        """{address of a module or code object: whether it is recorded} under `dump_mode` 2."""

    def flag_type(self, op_type: str, enabled: bool, /) -> None:
        """True if operators of a type are recorded under `dump_mode` 2."""

    def dump_scope(self, change: int, /) -> None:
        """A dump_scope() opens (1) or closes (-1) on this thread."""

    def dump_switch(self, on: bool, /) -> None:
        """From now on the switch decides what is recorded."""

    def set_step(self, step: int, /) -> None:
        """The number of the step that begins next."""

    def step(self) -> None:
        """The step ends here."""

    def scaler_update(self) -> None:
        """GradScaler.update() has returned."""

    def work_waited(self, work: object, /) -> None:
        """Work.wait() of a collective has returned."""

    def caller(self, text: str, /) -> str:
        """Collectives that this thread calls from now on are called by `text`; empty: by the program. Returns the text
        before."""

    def memory_of_caller(self, tensor: torch.Tensor, text: str, /) -> None:
        """The same for collectives on the memory of a tensor, on any thread."""

    def ddp_buckets(self, reducer: object, /) -> list[tuple[torch.Tensor, list[torch.Tensor]]]:
        """(memory, parameters) of the buckets of a torch.distributed.Reducer, which must be one."""

    def capturing(self) -> bool:
        """True if operators are being recorded."""

    def step_returned(self) -> None:
        """Optimizer.step() has returned."""

    def forget_scopes(self) -> None:
        """A module was freed: facts by addresses of modules are looked up again."""

    def take_failure(self) -> str | None:
        """The failure that was not yet reported to the user."""

    # --- compiled graphs

    def modules(self) -> tuple[nn.Module, ...]:
        """The modules that are being called on this thread, outermost first."""

    def tracing(self, change: int, /) -> None:
        """A compiler begins (1) or ends (-1) on this thread; its operators are not recorded."""

    def records_graph(self, backward: bool, grad: bool, /) -> bool:
        """True if operators of a compiled graph that runs here and now are recorded. `grad`: the program has gradients
        on."""

    def site(  # noqa: PLR0917
        self,
        op_type: str,
        scope: str,
        phase: int,
        forward_site: int,
        flagged: bool,
        trace: Sequence[tuple[str, int, str]],
        /,
    ) -> int:
        """The number of a place in the program."""

    def site_wants(self, site: int, count: int, /) -> int:
        """SONDE_WANT_* of sonde.h for any of the first `count` operators at a site; of all operators for site 0, or 0
        if that depends on the operator."""

    def op_replaced(self, site: int, by: str, /) -> bool:
        """Operators of the types in `by` ("mul, sum") compute those of this site, which do not run. True: the
        configuration selects these, and none of those. Site 0: whether it names operators at all."""

    def define_graph(self, nodes: Sequence[tuple[object, ...]], results: Sequence[tuple[int, int, int]], /) -> int:
        """The nodes of a compiled graph: (site, type, whether it is a view, whether it has a tap, inputs, outputs,
        attributes). Returns its number."""

    def begin_run(self, graph: int, backward: bool, grad: bool, resolve: Callable[[str], int] | None, /) -> None:
        """A compiled graph runs on this thread. For graph 0, `resolve` gives the number for the table in its code."""

    def end_run(self, results: object, /) -> None:
        """The run that began last has ended."""

    def memory_changed(self) -> None:
        """Compiled code without taps has run: any memory may have changed."""

    def optimizer_end(self) -> None:
        """A compiled step of an optimizer has returned."""
