"""The names of a model's tensors: by their places in it, as named_parameters() and named_buffers() give them."""

import collections

import pytest
import torch
from torch import nn

from sonde.modules import tensors_of

# PyTorch would rather compile than script.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")


def names_of(root, table="_parameters"):
    return [name for name, _ in tensors_of(root, table)]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = nn.Parameter(torch.ones(1))
        self.first = nn.Linear(2, 2)
        self.again = self.first
        self.rest = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2, bias=False))
        self.register_parameter("missing", None)
        self.gone = None


def test_names_are_those_of_pytorch():
    model = Model()
    assert tensors_of(model, "_parameters") == list(model.named_parameters())
    assert tensors_of(model, "_buffers") == list(model.named_buffers())
    assert names_of(model)[:3] == ["own", "first.weight", "first.bias"]


@pytest.mark.parametrize("make", [torch.jit.script, lambda net: torch.jit.trace(net, torch.ones(2, 2))])
def test_modules_of_torchscript(make):
    net = make(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    assert names_of(net) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_a_compiled_module_is_no_level_of_a_name():
    model = nn.Sequential(torch.compile(nn.Linear(2, 2)), nn.Linear(2, 2))
    assert names_of(model) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_a_cycle_ends_and_a_deep_model_is_walked_to_its_end():
    model = Model()
    model.rest._modules["up"] = model
    assert len(names_of(model)) == 6
    deep = root = nn.Module()
    for _ in range(5000):
        deep.below = deep = nn.Module()
    deep.weight = nn.Parameter(torch.ones(1))
    assert names_of(root) == ["below." * 5000 + "weight"]
    while root is not None:  # Python's own deletion of so deep a chain would be recursive
        root, above = root._modules.get("below"), root
        above._modules.clear()


def test_characters_that_no_file_name_has():
    model = nn.Module()
    model._modules["a\ud800b"] = nn.Linear(1, 1, bias=False)
    model._parameters["c\0d"] = nn.Parameter(torch.ones(1))
    model._parameters["größe"] = nn.Parameter(torch.ones(1))
    assert names_of(model) == ["c?d", "größe", "a?b.weight"]


def test_another_order_and_no_code_of_the_user():
    class Strict(nn.Module):
        def __getattribute__(self, name):
            raise AssertionError(name)

    model = nn.Sequential(collections.OrderedDict(a=nn.Linear(1, 1, bias=False), b=nn.Linear(1, 1, bias=False)))
    model._modules = collections.OrderedDict(model._modules)
    model._modules.move_to_end("a")
    assert names_of(model) == ["b.weight", "a.weight"]
    model[0].__class__ = Strict
    assert names_of(model) == ["b.weight", "a.weight"]
