"""Runs of compiled graphs: the step that they belong to, the form that runs, and the names of their nodes."""

import dataclasses
import functools
import sys
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import fx, nn

from .. import flags
from ..console import say_once
from ..graph_modules import is_of_optimizer
from ..modules import program_module
from . import nodes, packages, taps
from .forms import Compiled, Forms, compile_copy, copy_of
from .nodes import Line, Node, Table
from .program import Program
from .taps import Choice

# sonde.h, SONDE_WANT_*
_STRUCTURE, _INPUTS, _OUTPUTS, _CHECK = 1, 2, 4, 16

_MOST_OPEN = 64  # forwards without their backward yet


class Compilation:
    """One call of Inductor's compile_fx: a graph of Dynamo, which becomes a forward and maybe a backward."""

    def __init__(self, host: Program, model: Any, inner: Any) -> None:
        self._inner = inner
        self._family = Family(host, model)

        # Inductor wraps it, and a wrapper keeps attributes of a function only.
        @functools.wraps(inner)
        def compile_(graph_module: fx.GraphModule, example_inputs: Sequence[Any], *args: Any, **options: Any) -> Any:
            return self._compile(graph_module, example_inputs, args, options)

        compile_.sonde_forms = True  # type: ignore[attr-defined]
        self.compile = compile_

    def _compile(self, module: fx.GraphModule, example_inputs: Sequence[Any], args: Any, options: Any) -> Any:
        if taps.strip_scope_markers(module.graph):
            module.recompile()
        inner = functools.partial(_with_arguments, self._inner, args)
        host = Family.host
        if host is None:
            return inner(module, example_inputs, **options)
        with Tracing(host):  # PyTorch 2.6 compiles a backward without a word to Dynamo's callbacks
            if packages.is_packaged():
                return self._package(host, module, example_inputs, inner, options)
            forms = self._forms(host, module, example_inputs, inner, options)
            if forms is None:
                return inner(module, example_inputs, **options)
            return forms.first(self._family.choice_now(host, forms))

    def _package(self, host: Program, module: fx.GraphModule, examples: Any, inner: Any, options: Any) -> Any:
        choice = self._family.package_choice(host, module) if _is_known(module, examples) else None
        if choice is not None:
            try:
                return compile_copy(module, examples, inner, options, choice)
            except Exception as error:
                say_once(
                    f"sonde: the package that is made here has no taps, and is not recorded where it runs: {error!r}"
                )
        return compile_copy(module, examples, inner, options, None)

    def _forms(self, host: Program, module: fx.GraphModule, examples: Any, inner: Any, options: Any) -> Forms | None:
        """None: the graph is recorded as a whole. An error of ours must not end the user's compilation."""
        try:
            if not _is_known(module, examples):
                return None
            self._family.meet(module.graph, bool(options.get("is_backward")))
            forms = Forms(self._family, copy_of(module), examples, inner, options)
            self._family.add(host, forms, module.graph)
        except Exception as error:
            say_once(f"sonde: internal error at a compiled graph, which is not recorded: {error!r}")
            return None
        return forms


def _with_arguments(inner: Any, args: Any, module: fx.GraphModule, example_inputs: Any, **options: Any) -> Any:
    return inner(module, example_inputs, *args, **options)


def _is_known(module: fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """False for a graph that cannot be recorded node by node."""
    values = [*taps.tensors(example_inputs), *taps.tensors([node.meta.get("val") for node in module.graph.nodes])]
    others = {value.device.type for value in values} - {"cpu"}
    if others:
        say_once(f"sonde: compiled graphs on {', '.join(sorted(others))} are recorded as a whole, not node by node")
    return not others


class Family:
    """The graphs of one compilation, and what is known about the modules in them."""

    host: ClassVar[Program | None] = None  # of the session that runs

    def __init__(self, host: Program, model: Any) -> None:
        self._roots: dict[str, weakref.ref[nn.Module]] = {}  # variable in the compiled function -> module
        self._forward_types: dict[int, str] = {}
        self._scoped: set[int] = set()  # sequence numbers inside a sonde.dump_scope()
        # Of forwards: the modules that called them. They must not live longer because of it.
        self._open: list[tuple[weakref.ref[nn.Module], ...]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}  # of defined graphs
        # Dynamo compiles a function for one mode; Inductor's code runs with gradients off.
        self._grad = torch.is_grad_enabled()
        self._steps = False  # the graph has an optimizer's step
        self._owner: weakref.ref[nn.Module] | None = None
        parameters = [one for one in _real_inputs(model) if isinstance(one, nn.Parameter)]
        if parameters and not host.library.modules():
            owner = _owner_of(parameters[0])
            self._owner = weakref.ref(owner) if owner is not None else None

    def meet(self, graph: fx.Graph, backward: bool) -> None:
        """The backward of what is inside a sonde.dump_scope() is inside, too."""
        for node in graph.nodes:
            sequence = node.meta.get("seq_nr")
            if sequence is None:
                continue
            if backward and sequence in self._scoped:
                node.meta["sonde_scoped"] = True
            elif not backward and node.meta.get("sonde_scoped"):
                self._scoped.add(sequence)

    def add(self, host: Program, forms: Forms, graph: fx.Graph) -> None:
        """A graph is compiled for the first time."""
        self._steps = self._steps or any(map(is_of_optimizer, graph.nodes))
        if forms.backward:
            forms.forward_types = self._forward_types
        else:
            self._forward_types.update(nodes.forward_types_of(nodes.read_table(graph, backward=False)))
        self._find_roots(graph)
        if not forms.backward:
            self._count_root(host)

    # --- a call -----------------------------------------------------------------------------------------------------

    def run(self, forms: Forms, inputs: list[Any]) -> Any:
        """The program calls the graph: the form that runs depends on whether the step is recorded."""
        host = Family.host
        if host is None or host.closed:
            return forms.plain_form()(inputs)
        form = self._begin(host, forms)
        results = None
        try:
            results = form(inputs)
        finally:
            self._end(host, forms, form, results)
        return results

    def _begin(self, host: Program, forms: Forms) -> Compiled:
        """Counts the step, chooses the form, and begins its run."""
        try:
            if forms.called and not forms.backward:
                self._count_root(host)
            forms.called = True
            if not host.left_out and host.library.records_graph(forms.backward, self._grad):
                return self._begin_recorded(host, forms)
        except Exception as error:  # no exception of ours may reach the user's program
            say_once(f"sonde: internal error at a call of a compiled graph: {error!r}")
        return self._plain(host, forms)

    def _begin_recorded(self, host: Program, forms: Forms) -> Compiled:
        chain = self._chain(host, forms)
        with Tracing(host):
            form = forms.tapped_form(lambda: self._choice(host, chain))
        if form is None:
            return self._plain(host, forms)
        key = (id(forms), id(host), host.scope_of(chain) if chain else "", flags.version())
        # Of a compiled Optimizer.step the graph knows PyTorch's lines alone.
        lines = nodes.lines_of_program() if self._steps and key not in self._numbers else []
        define = functools.partial(self._define, host, chain, key, lines)
        host.library.begin_run(self._numbers.get(key, 0), forms.backward, self._grad, define)
        return form

    def _plain(self, host: Program, forms: Forms) -> Compiled:
        """Nothing inside is recorded, rather than the few calls of a library that are seen by chance."""
        with Tracing(host):
            form = forms.any_form() if host.left_out else forms.plain_form()
        host.library.begin_run(0, forms.backward, self._grad, None)
        return form

    def _end(self, host: Program, forms: Forms, form: Compiled, results: Any) -> None:
        host.library.end_run(results)
        if form is forms.plain:
            host.library.memory_changed()

    def _chain(self, host: Program, forms: Forms) -> tuple[nn.Module, ...]:
        """The modules around a call; those of the forward for its backward, which runs in the reverse order."""
        if forms.backward:
            return _alive(self._open.pop()) if self._open else ()
        chain = tuple(map(program_module, host.library.modules()))
        self._open.append(tuple(map(weakref.ref, chain)))
        del self._open[:-_MOST_OPEN]
        return chain

    # --- steps ------------------------------------------------------------------------------------------------------

    def _count_root(self, host: Program) -> None:
        """A forward begins: of a module whose hook does not see it, since its call is compiled too."""
        if self._steps:
            return
        chain = host.library.modules()
        with torch.set_grad_enabled(self._grad):
            if chain:
                host.compiled_root(chain[0], _is_resumed())
                return
            owner = self._owner() if self._owner is not None and not _is_resumed() else None
            if owner is not None:
                host.compiled_owner(owner)

    # --- names ------------------------------------------------------------------------------------------------------

    def _find_roots(self, graph: fx.Graph) -> None:
        wanted: dict[str, tuple[int, tuple[str, ...]]] = {}
        for node in graph.nodes:
            for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items():
                root, names = nodes.module_place(str(path))
                identity = str(key).partition("@")[0]
                # A module whose __call__ is its own is not in the stack, but modules inside it are.
                is_nearest = root not in wanted or len(names) < len(wanted[root][1])
                if root and root not in self._roots and identity.isdigit() and is_nearest:
                    wanted[root] = int(identity), names
        for module in _all_modules() if wanted else ():
            for root, (inner, names) in wanted.items():
                if id(_inside(module, names)) == inner:
                    self._roots[root] = weakref.ref(module)

    def _prefix(self, host: Program, chain: tuple[nn.Module, ...], root: str) -> str:
        """The scope of the module in the variable `root`."""
        reference = self._roots.get(root)
        module = reference() if reference is not None else None
        if module is None and root and not chain and self._owner is not None:
            owner = self._owner()
            module = host.names.owner_of(owner) if owner is not None else None
        if module is not None and (not chain or chain[-1] is not module):
            chain = (*chain, module)
        return host.scope_of(chain) if chain else ""

    def _site(self, host: Program, chain: tuple[nn.Module, ...], table: Table, node: Node) -> int:
        library = host.library
        prefix = self._prefix(host, chain, node.root)
        scope = f"{prefix}/{node.scope}" if prefix and node.scope else prefix or node.scope
        trace = table.traces[node.trace]
        flagged = node.scoped or flags.is_flagged(self._modules_around(chain, node), trace)
        phase = node.phase
        if phase == nodes.OPTIMIZER:
            scope = host.optimizers.name_of_any()
        elif phase == nodes.FORWARD and not scope:
            phase = nodes.OUTSIDE
        forward = 0
        if phase == nodes.BACKWARD and node.forward_type:
            of = nodes.FORWARD if scope else nodes.OUTSIDE
            forward = library.site(node.forward_type, scope, of, 0, flagged, trace)
        return library.site(node.op_type, scope, phase, forward, flagged, trace)

    def _modules_around(self, chain: tuple[nn.Module, ...], node: Node) -> list[nn.Module]:
        """The modules that contain a node, innermost first."""
        reference = self._roots.get(node.root)
        start = (reference() if reference is not None else None) or (chain[-1] if chain else None)
        inner: list[nn.Module] = []
        for name, _ in node.path if start is not None else ():
            child = start.__dict__.get("_modules", {}).get(name)
            if child is None:
                break
            start = program_module(child)
            inner.append(start)
        return [*reversed(inner), *reversed(chain)]

    def _define(
        self, host: Program, chain: tuple[nn.Module, ...], key: tuple[Any, ...], caller: list[Line], text: str
    ) -> int:
        """Called by the compiled code with the table that it carries: gives its nodes their names."""
        try:
            number = self._numbers[key] = self._defined(host, chain, caller, text)
        except Exception as error:
            say_once(f"sonde: internal error at the names of a compiled graph, which is not recorded: {error!r}")
            return 0
        return number

    def _defined(self, host: Program, chain: tuple[nn.Module, ...], caller: list[Line], text: str) -> int:
        table = Table.from_json(text)
        if caller:
            table.traces = [caller if all(nodes.is_pytorch(line[0]) for line in one) else one for one in table.traces]
        rows = []
        for node in table.nodes:
            site = self._site(host, chain, table, node)
            rows.append((site, node.op_type, node.is_view, node.tapped, *nodes.facts_of(table, node)))
        self._say_what_is_replaced(host, chain, table)
        return host.library.define_graph(rows, table.results)

    def _say_what_is_replaced(self, host: Program, chain: tuple[nn.Module, ...], table: Table) -> None:
        """The configuration chooses an operator that decomposition replaced, and none of those that compute it."""
        if not host.library.op_replaced(0, ""):
            return
        types = {node.op_type for node in table.nodes}
        parts: dict[tuple[str, str, str, int], list[Node]] = {}
        for node in table.nodes:
            for name in node.part_of:
                parts.setdefault((name, node.root, node.scope, node.phase), []).append(node)
        for (name, *_), group in parts.items():
            if name in types:
                continue
            by = ", ".join(dict.fromkeys(node.op_type for node in group))
            site = self._site(host, chain, table, dataclasses.replace(group[0], op_type=name))
            if host.library.op_replaced(site, by):
                say_once(
                    f"sonde: '{name}' is chosen, but a compiled graph computes it by {by}; choose one of these, or its "
                    "module"
                )

    # --- selection --------------------------------------------------------------------------------------------------

    def choice_now(self, host: Program, forms: Forms) -> Choice | None:
        """The choice for a form that is compiled before its first call; None for the one without taps."""
        if host.closed or not (host.left_out or host.library.records_graph(forms.backward, self._grad)):
            return None
        if forms.backward and self._open:
            return self._choice(host, _alive(self._open[-1]))
        return self._choice(host, tuple(map(program_module, host.library.modules())))

    def _choice(self, host: Program, chain: tuple[nn.Module, ...]) -> Choice:
        everything = host.library.site_wants(0, 0)
        if everything == _STRUCTURE:
            return Choice(_tap_none, False, "none")
        if everything:
            by_value = bool(everything & _CHECK) or not everything & _OUTPUTS
            return Choice(_tap_all, by_value, f"all-{by_value}")
        return Choice(functools.partial(self._choose, host, chain), True, host.plan_key + repr(list(map(type, chain))))

    def package_choice(self, host: Program, module: fx.GraphModule) -> Choice:
        """The nodes of a package that get a tap: those that the configuration selects, in whatever step. All of them if
        it selects by name and no step has begun: the layout of the dump, which makes the names, is not known then."""
        root = packages.root_of(module.graph)

        def wants(table: Table) -> None:
            for node in table.nodes:
                scope = f"{root}/{node.scope}" if node.scope else root
                trace = table.traces[node.trace]
                site = host.library.site(node.op_type, scope, nodes.FORWARD, 0, node.scoped, trace)
                node.tapped = bool(host.library.site_wants(site, len(table.nodes)) & (_INPUTS | _OUTPUTS))

        return Choice(wants, by_value=True, key=f"package-{host.plan_key}", package=root)

    def _choose(self, host: Program, chain: tuple[nn.Module, ...], table: Table) -> None:
        wanted = [
            host.library.site_wants(self._site(host, chain, table, node), len(table.nodes)) for node in table.nodes
        ]
        for node, bits in zip(table.nodes, wanted, strict=True):
            node.tapped = bool(bits & (_INPUTS | _OUTPUTS))
        for node, bits in zip(table.nodes, wanted, strict=True):
            for one in node.inputs if bits & _INPUTS else ():
                if one.maker is not None:
                    table.nodes[one.maker].tapped = True


def _tap_all(table: Table) -> None:
    for node in table.nodes:
        node.tapped = True


def _tap_none(table: Table) -> None:
    for node in table.nodes:
        node.tapped = False


def _alive(chain: Sequence[weakref.ref[nn.Module]]) -> tuple[nn.Module, ...]:
    return tuple(module for module in (reference() for reference in chain) if module is not None)


class Tracing:
    """The compiler runs: its operators are not the program's."""

    def __init__(self, host: Program) -> None:
        self._tracing = host.library.tracing

    def __enter__(self) -> None:
        self._tracing(1)

    def __exit__(self, *_: object) -> None:
        self._tracing(-1)


def _real_inputs(model: Any) -> list[Any]:
    """The tensors with which the program called the function that Dynamo compiles, as far as they are known."""
    found: list[Any] = []
    for node in getattr(getattr(model, "graph", None), "nodes", ()):
        argument = node.meta.get("grapharg") if node.op == "placeholder" else None
        try:
            found.append(argument.example if argument is not None else None)
        except Exception:  # it was freed
            continue
    return found


def _all_modules() -> list[nn.Module]:
    import gc

    return [one for one in gc.get_objects() if issubclass(type(one), nn.Module)]


def _inside(module: nn.Module, names: Sequence[str]) -> nn.Module | None:
    """The module at this path in `module`, without a call of the program's code."""
    found: nn.Module | None = module
    for name in names:
        found = vars(found).get("_modules", {}).get(name) if found is not None else None
    return found


def _owner_of(parameter: nn.Parameter) -> nn.Module | None:
    for module in _all_modules():
        if any(one is parameter for one in vars(module).get("_parameters", {}).values()):
            return module
    return None


def _is_resumed() -> bool:
    """True if the calling code continues a function after a graph break."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name.startswith("torch_dynamo_resume_in_"):
            return True
        if not nodes.is_pytorch(code.co_filename) and "/sonde/" not in code.co_filename:
            return False
        frame = frame.f_back  # type: ignore[assignment]
    return False
