"""Watches PyTorch: names modules, parameters and optimizer state for the adapter, and tells it where forwards begin.

The adapter (`_sonde_torch`, C++) sees every operator by itself. What it cannot know without Python is asked here, once
per thing and not per operator: which attribute a module is, which tensors are parameters, whether an optimizer exists.
"""

import contextlib
import functools
import gc
import itertools
import linecache
import os
import sys
import sysconfig
import weakref

import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from . import _core, adapter, flags, optimizers, past_operators
from .session import end_if_over, number_from, say_once, tell

# Containers that only hold modules: their level in a name is the attribute alone (`features/0-Conv2d`).
_PLAIN_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)

# Calls of modules without parameters, before any with: then it is decided whether they are steps.
_MOST_CALLS_OPEN = 8

_watch = None  # the Watch of this process while a session runs


def attach():
    """Start watching: called once a session exists and torch is imported."""
    global _watch
    _watch = Watch(adapter.load())


def step():
    """sonde.step(): the user says that the step ends here."""
    if _watch is not None:
        _watch.library.step()
        _watch.begin_names()


def dump_switch(on):
    """sonde.dump_start() and sonde.dump_stop()."""
    if _watch is not None:
        _watch.library.dump_switch(on)
        _watch.begin_names()


def set_iteration(iteration):
    """sonde.dump_set_iteration()."""
    if _watch is not None:
        _watch.library.set_iteration(iteration)


def detach():
    """Stop watching; hooks are taken off, nothing of ours stays on the user's objects."""
    global _watch
    if _watch is not None:
        _watch.close()
    _watch = None


def forked_child():
    """In a forked child: the hooks stay where they are and do nothing."""
    global _watch
    _watch = None


class RootHook:
    """The forward-pre-hook on a root module. It lives in the user's object, so it must survive what users do to models:

    copy.deepcopy(model) keeps it working on the copy; pickle and torch.save(model) leave a callable of the standard
    library that does nothing, so that the file loads where Sonde is not installed.
    """

    __name__ = "sonde_root_hook"

    def __call__(self, module, arguments):
        if torch.compiler.is_compiling():
            return  # never part of a compiled or exported graph
        if _watch is not None:
            _watch.root_called(module)
            end_if_over()

    def __deepcopy__(self, _memo):
        return self

    def __reduce__(self):
        return getattr, (contextlib.nullcontext(), "__exit__")


_root_hook = RootHook()


class Watch:
    """One session's view of the program's modules and optimizers."""

    def __init__(self, library):
        self.library = library
        self.names = ModuleNames(library.forget_scopes)
        self.roots = {}  # id of a root module -> handle of its hook
        self.roots_seen = False  # one with parameters
        self.training_root = None, True  # weak reference to the root that ran with gradients last; its mode then
        self.calls_without_parameters = 0
        self.closed = False
        self.optimizers = optimizers.AliveOptimizers()
        library.load(_core.api())
        self._tell_run_info()
        self.undo = [
            flags.watch(library),
            register_optimizer_step_pre_hook(self._before_optimizer_step).remove,
            register_optimizer_step_post_hook(self._after_optimizer_step).remove,
            optimizers.watch_scaler(library),
            _watch_waits(library),
            past_operators.watch(library),
            self.optimizers.close,
        ]
        _hide_hook_from_scripting()
        library.install(
            nn.Module._wrapped_call_impl.__code__,
            _optimizer_wrapper_code(),
            _nobodys_code(),
            self.scope_of,
            self.new_root,
            _source_of,
            self.optimizers.train_bare_parameters,
            self._parameters_exist,
        )

    def close(self):
        if not self.roots_seen and _is_distributed():
            self._tell_run_info()  # a program without modules: nothing has asked since the session began
        self.library.uninstall()
        for undo in self.undo:
            undo()
        self.closed = True
        for handle in list(self.roots.values()):
            handle.remove()
        self.roots.clear()

    # --- asked by the adapter, with the GIL, for things it sees the first time -----------------------------------

    def scope_of(self, chain):
        """The scope of modules calling each other, outermost first: `network-AlexNet/features/0-Conv2d`."""
        return self.names.scope_of(chain)

    def new_root(self, module):
        """A chain of calls begins with `module`. If nobody saw it before, watch where its forwards begin."""
        if self.closed or id(module) in self.roots or not issubclass(type(module), nn.Module):
            return
        self.names.add_root(module)
        if issubclass(type(module), ParametrizationList):
            return  # the value of an attribute, not a model that is called
        hooks = _attributes(module).get("_forward_pre_hooks", {})
        if any(isinstance(hook, RootHook) for hook in hooks.values()):
            return  # of a copied model: it has said that this forward begins
        # First of all hooks: what the user's compute belongs to the step that begins here.
        handle = self.roots[id(module)] = nn.Module.register_forward_pre_hook(module, _root_hook, prepend=True)
        weakref.finalize(module, self.roots.pop, id(module), None).atexit = False
        if self.closed:  # by another thread meanwhile
            handle.remove()
            return
        # This first forward has begun already; a model in training may begin it by turning gradients off itself, as one
        # with frozen layers and DistributedDataParallel do.
        self.root_called(module, may_train_without_grad=_in_training(module) and _turns_gradients_off(module))

    # --- hooks ----------------------------------------------------------------------------------------------------

    def root_called(self, module, may_train_without_grad=False):
        """A root module's forward begins: a step may begin here."""
        try:
            if not self.roots_seen:
                self._tell_run_info()
            has_parameters = next(_tensors_of(module, "_parameters"), None) is not None
            self.roots_seen = self.roots_seen or has_parameters
            if not has_parameters and not self.roots_seen:
                self._settle_after_some_calls()
            alive = self.optimizers.any()
            trained, evaluates = True, False
            if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
                trained = self.optimizers.train(module, _tensors_of) if alive else _may_train(module)
                evaluates = self._evaluates(module)
            may_train = may_train_without_grad and trained
            capturing, trains = self.library.root_forward(module, has_parameters, alive, may_train, trained, evaluates)
            if trains:
                self.training_root = weakref.ref(module), _in_training(module)
            if capturing:
                self._name_parameters(module)
            self._tell_failure()
        except RecursionError:
            return  # of the user's own: there was no room left for ours
        except Exception as error:  # never into the user's forward
            say_once(f"sonde: internal error at a module's forward: {type(error).__name__}: {error}")

    def _evaluates(self, module):
        """Without gradients: the model that trains has changed its mode since, or is `module`, not in training mode."""
        reference, mode = self.training_root
        trains = reference() if reference is not None else None
        if trains is None:
            return False
        return not _in_training(module) if trains is module else _in_training(trains) != mode

    def _settle_after_some_calls(self):
        """Modules without parameters make steps, unless they are the preamble of a model that is called later."""
        self.calls_without_parameters += 1
        if self.calls_without_parameters == _MOST_CALLS_OPEN:
            self.library.modules_exist(self._parameters_exist())

    def _parameters_exist(self):
        """Whether some module has parameters: then its first call is what the steps are counted from."""
        if _is_distributed():
            self._tell_run_info()
        modules = (o for o in gc.get_objects() if issubclass(type(o), nn.Module))
        return any(value is not None for m in modules for value in (vars(m).get("_parameters") or {}).values())

    def _before_optimizer_step(self, optimizer, _args, _kwargs):
        """Gradients and optimizer state get their names just before the optimizer reads them."""
        end_if_over()  # where no module is called, the next step of the optimizer is the first to say so
        if _watch is not self or not self.library.capturing():
            return
        try:
            self._name_optimizer(optimizer)
        except Exception as error:
            say_once(f"sonde: internal error at Optimizer.step: {type(error).__name__}: {error}")

    def _after_optimizer_step(self, _optimizer, _args, _kwargs):
        """A step that raises does not come here: it is none."""
        if _watch is self:
            self.library.step_returned()

    # --- names of tensors -----------------------------------------------------------------------------------------

    def begin_names(self):
        """After sonde.step(): parameters of all roots get their names again."""
        if self.library.capturing():
            for module in self.names.root_modules():
                self._name_parameters(module)

    def _name_parameters(self, module):
        owner = self.names.owner_of(module)
        prefix = self.names.parameter_prefix(owner)
        for table in ("_parameters", "_buffers"):
            for name, tensor in _tensors_of(owner, table):
                self.library.name_tensor(_printable(prefix + name), tensor)

    def _name_optimizer(self, optimizer):
        names = {}
        for module in self.names.root_modules():
            prefix = self.names.parameter_prefix(module)
            for name, parameter in _tensors_of(module, "_parameters"):
                names.setdefault(id(parameter), _printable(prefix + name))
        # By identity: neither hash nor comparison of the user's own parameters runs.
        states = {id(parameter): state for parameter, state in vars(optimizer).get("state", {}).items()}
        for g, group in enumerate(vars(optimizer).get("param_groups", ())):
            for i, parameter in enumerate(group["params"]):
                name = names.get(id(parameter))
                if name is None:  # not of any module: a bare parameter
                    name = f"optimizer.{g}.{i}"
                    self.library.name_tensor(name, parameter)
                if parameter.grad is not None:
                    self.library.name_tensor(f"{name}.grad", parameter.grad)
                state = states.get(id(parameter))
                for key, value in state.items() if isinstance(state, dict) else ():
                    if isinstance(value, torch.Tensor):
                        self.library.name_tensor(f"{key}.{name}", value)

    # --- telling --------------------------------------------------------------------------------------------------

    def _tell_run_info(self):
        """Who this process is; told again until the first step, since torch.distributed may come later."""
        python = ".".join(map(str, sys.version_info[:3]))
        self.library.set_run_info(
            _rank(),
            number_from("LOCAL_RANK", 0),
            f"torch {torch.__version__}, CPython {python}",
            " ".join(sys.argv),
            _world_size(),
        )

    def _tell_failure(self):
        failure = self.library.take_failure()
        if failure:
            tell("failure", failure)


class ModuleNames:
    """Module paths as MindSpore writes them: attribute and class per level, `network-Net/conv1-Conv2d`.

    Modules are known by address, so each is watched by a weak reference: when one dies, `stale` is called.
    """

    def __init__(self, stale):
        self._stale = stale
        self._labels = {}  # id of a root -> `network-AlexNet`
        self._prefixes = {}  # label -> what its parameters' names begin with
        self._free = {}  # class name -> labels of roots that died: a module made anew in each step keeps its name
        self._roots = []  # weak references, in order of first call
        self._owners = {}  # id of a root that is part of a model nobody calls -> weak reference to that model
        self._paths = {}  # id of a module -> its path below a root
        self._watched = {}  # id -> weak reference
        self._all = Owners()
        self._count = 0

    def add_root(self, module):
        """A module called by no other module: `network-…` for the first, `network1-…` for the next.

        Where it is part of a model that is not called itself (`model.encode(x)`), the model is the root.
        """
        if id(module) in self._labels or id(module) in self._paths:
            return
        owner = self._all.outermost(module) if next(_tensors_of(module, "_parameters"), None) is not None else None
        if owner is not None:
            self.add_root(owner)
            self._owners[id(module)] = weakref.ref(owner)
            if id(module) in self._paths:
                return
        free = self._free.get(type(module).__name__)
        if free:
            label = free.pop()
        elif issubclass(type(module), ParametrizationList):
            label = f"parametrization-{type(module).__name__}"  # before it is part of a model: when it is registered
        else:
            label = f"network{self._count or ''}-{type(module).__name__}"
            self._count += 1
        self._labels[id(module)] = label
        if next(_tensors_of(module, "_parameters"), None) is not None:
            self._prefixes.setdefault(label, f"{label}." if self._prefixes else "")
        self._roots.append(weakref.ref(module))
        self._watch(module)
        self._remember(module, label)

    def root_modules(self):
        self._roots = [reference for reference in self._roots if reference() is not None]
        return [module for module in (reference() for reference in self._roots) if module is not None]

    def owner_of(self, module):
        """The model whose parameters get their names when `module` is called: itself, in nearly every program."""
        owner = self._owners.get(id(module))
        return (owner() if owner is not None else None) or module

    def parameter_prefix(self, module):
        """Parameters are called as in the model; those of a second model begin with its label."""
        return self._prefixes.get(self._labels.get(id(module)), "")

    def scope_of(self, chain):
        first = chain[0]
        path = self._labels.get(id(first)) or self._paths.get(id(first))
        if path is None:
            self.add_root(first)
            path = self._labels.get(id(first)) or self._paths[id(first)]
        for parent, child in itertools.pairwise(chain):
            known = self._paths.get(id(child), "")
            path = known if known.startswith(f"{path}/") else f"{path}/{self._below(parent, child)}"
        for module in chain:
            self._watch(module)
        return path

    def _below(self, parent, child):
        """The path from `parent` to `child`, which it called: attributes, with containers nobody called between."""
        for path, module in _modules_below(parent):
            if module is child:
                return _path(parent, path)
        return f"{type(child).__name__}"  # called, but no attribute of its caller

    def _remember(self, root, label):
        for path, module in _modules_below(root):
            self._paths.setdefault(id(module), f"{label}/{_path(root, path)}")
            self._watch(module)

    def _watch(self, module):
        if id(module) not in self._watched:
            self._watched[id(module)] = weakref.ref(module, functools.partial(self._died, id(module)))

    def _died(self, identity, _reference):
        self._watched.pop(identity, None)
        self._owners.pop(identity, None)
        label = self._labels.pop(identity, None)
        if label is not None:
            self._roots = [reference for reference in self._roots if reference() is not None]
            self._free.setdefault(label.partition("-")[2], []).append(label)
        self._paths.pop(identity, None)
        self._stale()


def _modules_below(root):
    """(path, module) of every module below `root`, once, in the order of named_modules(). Runs no code of the user's,
    as the methods of nn.Module would that they may have overridden; any depth, also in circles."""
    seen = {id(root)}
    levels = [((), iter(_children(root)))]
    while levels:
        path, children = levels[-1]
        for name, child in children:
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                below = (*path, name)
                yield below, child
                levels.append((below, iter(_children(child))))
                break
        else:
            levels.pop()


def _children(module):
    return list(_attributes(module).get("_modules", {}).items())


def _in_training(module):
    return _attributes(module).get("training") is True


_GRADIENT_MODES = {"no_grad", "inference_mode", "set_grad_enabled", "_set_grad_enabled"}


def _turns_gradients_off(module):
    """Whether some function between the running line and the call of `module` names what turns gradients off."""
    frame = sys._getframe(1)
    found = False
    while frame is not None:
        code = frame.f_code
        if code is nn.Module._wrapped_call_impl.__code__ and frame.f_locals.get("self") is module:
            return found
        found = found or not _GRADIENT_MODES.isdisjoint(code.co_names) or code.co_name == "decorate_context"
        frame = frame.f_back
    return found


def _may_train(module):
    return any(tensor.requires_grad for _, tensor in _tensors_of(module, "_parameters"))


def _attributes(module):
    """`module.__dict__`, whatever the user's class makes of attributes."""
    return object.__getattribute__(module, "__dict__")


def _tensors_of(root, table):
    """(name, tensor) of the `_parameters` or `_buffers` of `root` and all below it: `features.0.weight`."""
    for path, module in itertools.chain([((), root)], _modules_below(root)):
        for name, tensor in list(_attributes(module).get(table, {}).items()):
            if issubclass(type(tensor), torch.Tensor):
                yield ".".join((*path, name)), tensor


class Owners:
    """Which module holds which, found by looking at all modules that are alive; that takes a while, so seldom."""

    def __init__(self):
        self._looks_left = 32
        self._alive = {}  # id of a module -> (weak reference to it, weak reference to the one that holds it or None)

    def outermost(self, module):
        """The outermost module that holds `module`, None when no other does."""
        if not self._knows(module) and self._looks_left > 0:
            self._looks_left -= 1
            self._look()
        seen, owner = {id(module)}, None
        while self._knows(module):
            parent = self._alive[id(module)][1]
            module = parent() if parent is not None else None
            if module is None or id(module) in seen:
                break
            seen.add(id(module))
            owner = module
        return owner

    def _knows(self, module):
        known = self._alive.get(id(module))
        return known is not None and known[0]() is module

    def _look(self):
        modules = [o for o in gc.get_objects() if issubclass(type(o), nn.Module)]
        self._alive = {id(module): (weakref.ref(module), None) for module in modules}
        for parent in modules:
            for _, child in _children(parent):
                if child is not None:
                    self._alive[id(child)] = weakref.ref(child), weakref.ref(parent)


def _path(root, names):
    """`("features", "0")` below `root` as `features/0-Conv2d`."""
    parts, module = [], root
    for name in names:
        module = _attributes(module).get("_modules", {}).get(name)
        kind = type(module)
        parts.append(name if kind in _PLAIN_CONTAINERS or module is None else f"{name}-{kind.__name__}")
    return _printable("/".join(parts))


def _printable(name):
    """Attribute names may hold anything; what no file can hold becomes `?`."""
    return name.replace("\0", "?").encode(errors="replace").decode()


def _optimizer_wrapper_code():
    """The code of the function around every Optimizer.step."""
    for constant in Optimizer.profile_hook_step.__code__.co_consts:
        if getattr(constant, "co_name", None) == "wrapper":
            return constant
    return Optimizer.profile_hook_step.__code__


def _nobodys_code():
    """Paths of what is not the user's line: torch, Sonde, the standard library, the wrapper of deprecated functions."""
    torch_directory = os.path.dirname(torch.__file__)
    ours = os.path.dirname(os.path.abspath(__file__))
    standard = sysconfig.get_path("stdlib")
    wrapper = getattr(sys.modules.get("typing_extensions"), "__file__", None)
    directories = tuple(os.path.join(directory, "") for directory in (torch_directory, ours, standard))
    return directories + ((wrapper,) if wrapper else ())


def _source_of(file):
    """The text of a source that is no file, as a notebook keeps its cells; None for all others."""
    entry = linecache.cache.get(file)
    if entry is None or len(entry) != 4 or entry[1] is not None:  # a time of change: it was read from a file
        return None
    return "".join(entry[2])


def _watch_waits(library):
    """Some works (gloo's receives) are done when Work.wait() returns, and say so to nobody; returns what undoes it."""
    if not torch.distributed.is_available():
        return lambda: None
    from torch.distributed import Work

    original = Work.wait

    @functools.wraps(original)
    def wait(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        if _watch is not None:
            library.work_waited(self)
        return result

    Work.wait = wait

    def undo():
        if Work.wait is wait:
            Work.wait = original

    return undo


@functools.cache
def _hide_hook_from_scripting():
    """torch.jit.script compiles the hooks of a module, which ours is not made for. For good: copies keep their hook."""
    from torch.jit import _recursive

    original = _recursive.get_hook_stubs

    @functools.wraps(original)
    def get_hook_stubs(module):
        hooks = getattr(module, "_forward_pre_hooks", {})
        ours = {key: hook for key, hook in hooks.items() if isinstance(hook, RootHook)}
        for key in ours:
            del hooks[key]
        try:
            return original(module)
        finally:
            hooks.update(ours)

    _recursive.get_hook_stubs = get_hook_stubs


def _is_distributed():
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _rank():
    if _is_distributed():
        return torch.distributed.get_rank()
    return number_from("RANK", number_from("RANK_ID", 0))


def _world_size():
    if _is_distributed():
        return torch.distributed.get_world_size()
    return number_from("WORLD_SIZE", number_from("RANK_SIZE", 1))
