"""`sonde run --npu-stand-in`: scripts for Ascend run on the CPU as they are.

The modules torch_npu and torchair are those in `modules` here, if no others are installed. `.npu()` and the device
"npu" give the tensor itself, on the CPU. One line announces each when it is first used. All of it steps back where
PyTorch has a backend named npu.
"""

import importlib.machinery
import pathlib
import sys
from collections.abc import Sequence
from types import ModuleType

from ..console import report

NAMES = ("torch_npu", "torchair")
_MODULES = str(pathlib.Path(__file__).parent / "modules")
_said: set[str] = set()


def find(name: str) -> importlib.machinery.ModuleSpec | None:
    """The spec of a module of NAMES; None if there is a real one, which then is imported."""
    if name == "torchair" and "torch_npu" not in sys.modules:
        _announce_the_real("torch_npu")  # a real torch_npu brings its devices
    if _announce_the_real(name) or a_backend_is_npu():
        return None
    said_once(name, f"{name} is Sonde's, for the CPU")
    return importlib.machinery.PathFinder.find_spec(name, [_MODULES])


def the_real_one() -> str:
    """Where an installed torch_npu is; '' if there is none."""
    return _place_of("torch_npu")


def a_backend_is_npu() -> bool:
    """True if a backend of PyTorch has the name: it is used, and one line says so."""
    torch = sys.modules.get("torch")
    if torch is None or torch._C._get_privateuse1_backend_name() != "npu":
        return False
    said_once("backend", 'PyTorch has a backend "npu", which is used')
    return True


def said_once(subject: str, text: str) -> None:
    """Announces a thing that is used instead of Ascend's."""
    if subject not in _said:
        _said.add(subject)
        report("notice", f"sonde: --npu-stand-in: {text}")


def _announce_the_real(name: str) -> bool:
    place = _place_of(name)
    if place:
        said_once(f"the real {name}", f"{name} is installed in '{place}', and is used")
    return bool(place)


def _place_of(name: str) -> str:
    """Where a module of this name is installed or lies beside the script; '' if nowhere."""
    module: ModuleType | None = sys.modules.get(name)
    spec = module.__spec__ if module is not None else importlib.machinery.PathFinder.find_spec(name, sys.path)
    places: Sequence[str | None] = () if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    place = next((one for one in places if one), "")
    return "" if place.startswith(_MODULES) else place
