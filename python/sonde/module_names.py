"""Names of modules and of the tensors in them, as MindSpore writes them."""

import functools
import gc
import itertools
import weakref
from collections.abc import Callable, Sequence

from torch import nn
from torch.fx import GraphModule
from torch.jit import ScriptModule
from torch.nn.utils.parametrize import ParametrizationList

from . import graph_modules
from .modules import attributes, children, has_parameters, modules_below, program_module

# Containers that only hold modules: their level in a name is the attribute alone (`features/0-Conv2d`).
_PLAIN_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_PLAIN_SCRIPT = ("Sequential", "ModuleList", "ModuleDict")  # the same, compiled by TorchScript


def class_name(module: nn.Module) -> str:
    """The class that the user wrote: of a TorchScript module and of an exported program the one that was compiled."""
    kind = type(module)
    if issubclass(kind, GraphModule):
        return graph_modules.exported_class(module) or kind.__name__
    if not issubclass(kind, ScriptModule):
        return kind.__name__
    try:
        return str(module.original_name) or kind.__name__
    except Exception:  # one that is not complete yet
        return kind.__name__


class ModuleNames:
    """Module paths in MindSpore's form: attribute and class per level, `network-Net/conv1-Conv2d`.

    Modules are known by address, so each is watched by a weak reference: when one dies, `stale` is called.
    """

    def __init__(self, stale: Callable[[], None]) -> None:
        self._stale = stale
        self._labels: dict[int, str] = {}  # id of a root -> `network-AlexNet`
        self._prefixes: dict[str, str] = {}  # label -> beginning of its parameters' names
        # class name -> labels of roots that died: a module that is recreated in each step keeps its name
        self._free: dict[str, list[str]] = {}
        self._examples: set[int] = set()  # ids of roots that only torch.jit.trace has called; their labels are free
        self._roots: list[weakref.ref[nn.Module]] = []  # in order of first call
        # id of a root that is part of an uncalled model -> that model
        self._owners: dict[int, weakref.ref[nn.Module]] = {}
        self._paths: dict[int, str] = {}  # id of a module -> its path below a root
        self._watched: dict[int, weakref.ref[nn.Module]] = {}  # by id
        self._all = Owners()
        self._count = 0

    def add_root(self, module: nn.Module, is_example: bool = False) -> None:
        """A module called by no other module: `network-…` for the first, `network1-…` for the next.

        Where it is part of a model that is not called itself (`model.encode(x)`), the model is the root. That a module
        is called as an example, by torch.jit.trace, takes no name from the models that are called later.
        """
        module = program_module(module)
        if id(module) in self._labels or id(module) in self._paths:
            return
        owner = self._all.outermost(module) if has_parameters(module) else None
        if owner is not None:
            self.add_root(owner, is_example)
            self._owners[id(module)] = weakref.ref(owner)
            if id(module) in self._paths:
                return
        kind = class_name(module)
        free = self._free.get(kind)
        if free:
            label = free.pop()
        elif issubclass(type(module), ParametrizationList):
            label = f"parametrization-{kind}"  # registered before it is part of a model
        else:
            label = f"network{self._count or ''}-{kind}"
            self._count += 1
        self._labels[id(module)] = label
        if has_parameters(module):
            self._prefixes.setdefault(label, f"{label}." if self._prefixes else "")
        self._roots.append(weakref.ref(module))
        self._watch(module)
        self._remember(module, label)
        if is_example:
            self._examples.add(id(module))
            self._free.setdefault(kind, []).append(label)

    def called(self, module: nn.Module) -> None:
        """The program calls the root `module` itself: what was an example so far has a name of its own from now on."""
        if not self._examples:
            return
        module = self.owner_of(module)
        if id(module) not in self._examples:
            return
        self._examples.discard(id(module))
        label = self._labels[id(module)]
        free = self._free[class_name(module)]
        if label in free:
            free.remove(label)
            return
        self._forget(module)
        self.add_root(module)
        self._stale()

    def _forget(self, root: nn.Module) -> None:
        """The name of `root` is another model's now."""
        del self._labels[id(root)]
        self._roots = [reference for reference in self._roots if reference() is not root]
        for _, module in modules_below(root):
            self._paths.pop(id(module), None)

    def root_modules(self) -> list[nn.Module]:
        """Roots that are alive, in order of first call."""
        self._roots = [reference for reference in self._roots if reference() is not None]
        return [module for module in (reference() for reference in self._roots) if module is not None]

    def owner_of(self, module: nn.Module) -> nn.Module:
        """The model whose parameters get their names when `module` is called: itself, in nearly every program."""
        module = program_module(module)
        owner = self._owners.get(id(module))
        return (owner() if owner is not None else None) or module

    def parameter_prefix(self, module: nn.Module) -> str:
        """Parameters have their names in the model; those of a second model begin with its label."""
        return self._prefixes.get(self._labels.get(id(module), ""), "")

    def scope_of(self, chain: Sequence[nn.Module]) -> str:
        """The scope of modules calling each other, outermost first: `network-AlexNet/features/0-Conv2d`."""
        called = [program_module(module) for module in chain]
        chain = [module for i, module in enumerate(called) if i == 0 or called[i - 1] is not module]
        first = chain[0]
        path = self._labels.get(id(first)) or self._paths.get(id(first))
        if path is None:
            self.add_root(first)
            path = self._labels.get(id(first)) or self._paths[id(first)]
        for parent, child in itertools.pairwise(chain):
            known = self._paths.get(id(child), "")
            if not known and type(child).__name__.startswith("GraphModule"):
                continue  # made by a compiler
            path = known if known.startswith(f"{path}/") else f"{path}/{self._below(parent, child)}"
        for module in chain:
            self._watch(module)
        return path

    def _below(self, parent: nn.Module, child: nn.Module) -> str:
        """The path from `parent` to the called `child`: attributes, with the containers between them, which were not
        called."""
        for path, module in modules_below(parent):
            if module is child:
                return _path(parent, path)
        return class_name(child)  # called, but not an attribute of its caller

    def _remember(self, root: nn.Module, label: str) -> None:
        for path, module in modules_below(root):
            self._paths.setdefault(id(module), f"{label}/{_path(root, path)}")
            self._watch(module)

    def _watch(self, module: nn.Module) -> None:
        if id(module) not in self._watched:
            self._watched[id(module)] = weakref.ref(module, functools.partial(self._died, id(module)))

    def _died(self, identity: int, _reference: "weakref.ref[nn.Module]") -> None:
        self._watched.pop(identity, None)
        self._owners.pop(identity, None)
        label = self._labels.pop(identity, None)
        if label is not None:
            self._roots = [reference for reference in self._roots if reference() is not None]
            if identity not in self._examples:
                self._free.setdefault(label.partition("-")[2], []).append(label)
        self._examples.discard(identity)
        self._paths.pop(identity, None)
        self._stale()


class Owners:
    """The children of each module, found in all live modules; that is slow, so done rarely."""

    def __init__(self) -> None:
        self._looks_left = 32
        # id of a module -> (the module, the one that contains it or None)
        self._alive: dict[int, tuple[weakref.ref[nn.Module], weakref.ref[nn.Module] | None]] = {}

    def outermost(self, module: nn.Module) -> nn.Module | None:
        """The outermost module that contains `module`, None if there is none."""
        if not self._knows(module) and self._looks_left > 0 and _may_be_child(module):
            self._looks_left -= 1
            self._look()
        seen, owner = {id(module)}, None
        while self._knows(module):
            reference = self._alive[id(module)][1]
            parent = reference() if reference is not None else None
            if parent is None or id(parent) in seen:
                break
            seen.add(id(parent))
            owner = module = parent
        return owner

    def _knows(self, module: nn.Module) -> bool:
        known = self._alive.get(id(module))
        return known is not None and known[0]() is module

    def _look(self) -> None:
        modules = [o for o in gc.get_objects() if issubclass(type(o), nn.Module) and program_module(o) is o]
        self._alive = {id(module): (weakref.ref(module), None) for module in modules}
        for parent in modules:
            for _, child in children(parent):
                if child is not None:
                    self._alive[id(child)] = weakref.ref(child), weakref.ref(parent)


def _may_be_child(module: nn.Module) -> bool:
    """False if no dictionary of modules contains it: then it is the child of none. This takes a third of the time of a
    look at all modules."""
    dictionaries = (referrer for referrer in gc.get_referrers(module) if issubclass(type(referrer), dict))
    # The values() of dict: a user's class may have its own.
    values = (dict.values(dictionary) for dictionary in dictionaries)
    return any(all(value is None or issubclass(type(value), nn.Module) for value in each) for each in values)


def _path(root: nn.Module, names: Sequence[str]) -> str:
    """`("features", "0")` below `root` as `features/0-Conv2d`."""
    parts: list[str] = []
    module = root
    for name in names:
        module = program_module(attributes(module)["_modules"][name])
        compiled = issubclass(type(module), ScriptModule) and class_name(module) in _PLAIN_SCRIPT
        plain = type(module) in _PLAIN_CONTAINERS or compiled
        parts.append(name if plain else f"{name}-{class_name(module)}")
    return printable("/".join(parts))


def printable(name: str) -> str:
    """Attribute names may contain any characters; those that a file name cannot contain become `?`."""
    return name.replace("\0", "?").encode(errors="replace").decode()
