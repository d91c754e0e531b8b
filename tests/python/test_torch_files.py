"""Files of the real torch.save, read without PyTorch: bit for bit, in place, and without executing their pickles."""

import json
import os
import subprocess

import numpy as np
import pytest
import torch
from processes import CLI

import sonde

UNREADABLE = 3


def bits_of(tensor):
    """The elements in C order, as unsigned integers."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if plain.is_quantized:
        plain = plain.int_repr()
    return plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else np.zeros(0, np.uint8)


def tensors():
    torch.manual_seed(3)
    wide = torch.randn(4, 6)
    wide[0, :3] = torch.tensor([float("nan"), float("inf"), -0.0])
    floats = "float16 bfloat16 float32 float64 complex64 complex128 float8_e4m3fn float8_e5m2"
    made = {name: (wide * 10).to(getattr(torch, name)) for name in floats.split()}
    whole = torch.arange(24).reshape(4, 6)
    integers = "bool uint8 int8 int16 int32 int64 uint16 uint32"
    made |= {name: whole.to(getattr(torch, name)) for name in integers.split()}
    return made | {
        "scalar": torch.tensor(2.5),
        "empty": torch.empty(0, 3),
        "transposed": wide.t(),
        "columns": wide[:, ::2],
        "row": wide[2],
        "expanded": wide[:1].expand(3, 6),
        "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "conjugate": torch.randn(3, dtype=torch.complex64).conj(),
        "parameter": torch.nn.Parameter(torch.randn(2, 2)),
        "seven_dimensions": torch.randn(1, 2, 1, 2, 1, 2, 3),
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("torch_files")
    expected = tensors()
    for name, tensor in expected.items():
        torch.save(tensor, directory / f"{name}.pt")
    torch.save(expected["float32"], directory / "before_1_6.pt", _use_new_zipfile_serialization=False)
    expected["before_1_6"] = expected["float32"]
    torch.save({"a": expected["int8"], "list": [expected["row"], 3, "text"]}, directory / "several.pt")
    layer = torch.nn.Linear(3, 2)
    torch.save(layer.state_dict(), directory / "state.pt")
    expected["state.weight"], expected["state.bias"] = layer.weight, layer.bias
    return directory, expected


def test_every_type_and_order_of_elements_is_read_bit_for_bit(saved):
    directory, expected = saved
    dump = sonde.open(directory)
    assert not list(dump.problems)
    found = {tensor.op.op_name: tensor for tensor in dump.tensors if tensor.op.op_name not in ("several", "state")}
    assert set(found) == {name for name in expected if "." not in name}
    for name, tensor in found.items():
        values, dtype = tensor.bits()
        assert values.shape == tuple(expected[name].shape), name
        assert dtype == str(expected[name].dtype).removeprefix("torch."), name
        assert np.array_equal(np.ascontiguousarray(values).reshape(-1).view(np.uint8), bits_of(expected[name])), name


def test_of_a_dictionary_and_a_state_every_tensor_is_an_output(saved):
    directory, expected = saved
    dump = sonde.open(directory)
    several = [tensor for tensor in dump.tensors if tensor.op.op_name == "several"]
    assert [tensor.shape for tensor in several] == [(4, 6), (6,)]
    assert several[1].numpy().tobytes() == expected["row"].numpy().tobytes()
    state = [tensor for tensor in dump.tensors if tensor.op.op_name == "state"]
    assert [tensor.numpy().tobytes() for tensor in state] == [
        expected["state.weight"].detach().numpy().tobytes(),
        expected["state.bias"].detach().numpy().tobytes(),
    ]


class Hostile:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def test_a_pickle_that_calls_costs_one_problem_and_calls_nothing(tmp_path):
    marker = tmp_path / "called"
    tree = tmp_path / "tree"
    tree.mkdir()
    torch.save(torch.ones(2), tree / "good.pt")
    torch.save([torch.ones(1), Hostile(str(marker))], tree / "bad.pt")
    listed = subprocess.run([CLI, "ls", "--json", tree], capture_output=True, text=True, timeout=60, check=False)
    assert listed.returncode == UNREADABLE  # bad.pt was not read
    (problem,) = json.loads(listed.stdout)["problems"]
    assert problem["path"].endswith("bad.pt")
    assert "calls posix.mkdir, which is not allowed" in problem["message"]
    shown = subprocess.run([CLI, "show", tree / "bad.pt"], capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == UNREADABLE
    assert "posix.mkdir" in shown.stderr
    assert not marker.exists()
