"""Every kind of tensor is recorded with its value, or left out with a reason; none disturbs the program."""

import importlib.metadata
import json
import textwrap

import dumps
import numpy as np
import pytest

# One step per kind: `see` makes the tensor in the step before, prints its values by other means, and runs one operator
# on it in a separate step, whose first input is checked.
PROGRAM = """
    import hashlib, json
    import numpy as np
    import sonde
    import torch
    from torch import nn
    from torch.utils import _pytree as pytree

    torch.manual_seed(0)
    truth, order = {{}}, []


    class Wrapper(torch.Tensor):
        "A tensor around another: its own memory is null, and operators arrive at __torch_dispatch__."

        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
            inner = [a.inner if isinstance(a, Wrapper) else a for a in arguments]
            return Wrapper(function(*inner, **(keywords or {{}})))


    class Logging(torch.Tensor):
        calls = []

        @classmethod
        def __torch_function__(cls, function, types, arguments=(), keywords=None):
            cls.calls.append(function.__name__)
            return super().__torch_function__(function, types, arguments, keywords or {{}})


    class OwnParameter(nn.Parameter):
        pass


    def floats(*shape):
        return torch.arange(1, 1 + int(np.prod(shape)), dtype=torch.float32).reshape(shape)


    def digest(value):
        tensors = [t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]
        text = repr([(type(t).__name__, t.dtype, t.layout, tuple(t.shape)) for t in tensors if not t.is_nested])
        for t in tensors:
            try:
                text += str(t.detach().to_dense().tolist() if t.layout != torch.strided else t.detach().tolist())
            except Exception as error:
                text += type(error).__name__
        return hashlib.md5(text.encode()).hexdigest()


    def see(name, make, operate, value):
        tensor = make()
        order.append(name)
        if value is not None:
            truth[name] = np.asarray(value)
        sonde.step()
        try:
            result = digest(operate(tensor))
        except Exception as error:
            result = f"{{type(error).__name__}}: {{error}}"
        sonde.step()
        print(name, result)


{kinds}
    json.dump(order, open("order.json", "w"))
    np.savez("truth.npz", **truth)
"""

# name: (expression or function body that makes it, operator, value as numpy; None: it must be left out, and why)
RECORDED = {
    "one number": ("torch.tensor(2.5)", "t.neg()", "2.5"),
    "no elements in one dimension": ("torch.ones(2, 3)", "t.neg()", "[[1, 1, 1]] * 2"),
    "nine dimensions": (
        "floats(1, 2, 1, 2, 1, 2, 1, 2, 1)",
        "t.neg()",
        "np.arange(1, 17).reshape(1, 2, 1, 2, 1, 2, 1, 2, 1)",
    ),
    "expanded": ("floats(3).expand(2, 3)", "t.neg()", "[[1, 2, 3]] * 2"),
    "every other element, transposed": ("floats(4, 6)[::2, ::3].t()", "t.neg()", "[[1, 13], [4, 16]]"),
    "from the middle of its storage": ("floats(10)[4:7]", "t.neg()", "[5, 6, 7]"),
    "overlapping windows": (
        "floats(6).as_strided((4, 3), (1, 1))",
        "t.neg()",
        "[[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]",
    ),
    "flipped": ("torch.flip(floats(3), (0,))", "t.neg()", "[3, 2, 1]"),
    "channels last": (
        "floats(1, 2, 2, 2).to(memory_format=torch.channels_last)",
        "t.neg()",
        "[[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]",
    ),
    "needing a gradient": ("floats(2).requires_grad_()", "t.neg()", "[1, 2]"),
    "made in inference mode": ("inference()", "t.neg()", "[1, 2]"),
    "bool": ("torch.tensor([True, False])", "t.logical_not()", "[True, False]"),
    "int8": ("torch.tensor([-1, 2], dtype=torch.int8)", "t.neg()", "np.int8([-1, 2])"),
    "int16": ("torch.tensor([-1, 2], dtype=torch.int16)", "t.neg()", "np.int16([-1, 2])"),
    "int32": ("torch.tensor([-1, 2], dtype=torch.int32)", "t.neg()", "np.int32([-1, 2])"),
    "int64": ("torch.tensor([-1, 2])", "t.neg()", "np.int64([-1, 2])"),
    "uint8": ("torch.tensor([1, 200], dtype=torch.uint8)", "t.neg()", "np.uint8([1, 200])"),
    "uint16": ("torch.tensor([1, 60000], dtype=torch.uint16)", "t.clone()", "np.uint16([1, 60000])"),
    "uint32": ("torch.tensor([1, 4000000000], dtype=torch.uint32)", "t.clone()", "np.uint32([1, 4000000000])"),
    "uint64": ("torch.tensor([1, 2**63], dtype=torch.uint64)", "t.clone()", "np.uint64([1, 2**63])"),
    "float16": ("torch.tensor([1.5, 65504], dtype=torch.float16)", "t.neg()", "np.float16([1.5, 65504])"),
    "float64": ("torch.tensor([1.5, 1e300], dtype=torch.float64)", "t.neg()", "np.float64([1.5, 1e300])"),
    "bfloat16": ("torch.tensor([1.5, 256], dtype=torch.bfloat16)", "t.neg()", "np.float32([1.5, 256])"),
    "float8_e4m3fn": ("torch.tensor([1.5, -448]).to(torch.float8_e4m3fn)", "t.clone()", "np.float32([1.5, -448])"),
    "float8_e5m2": ("torch.tensor([1.5, -57344]).to(torch.float8_e5m2)", "t.clone()", "np.float32([1.5, -57344])"),
    "float8_e4m3fnuz": ("torch.tensor([1.5, -240]).to(torch.float8_e4m3fnuz)", "t.clone()", "np.float32([1.5, -240])"),
    "float8_e5m2fnuz": (
        "torch.tensor([1.5, -57344]).to(torch.float8_e5m2fnuz)",
        "t.clone()",
        "np.float32([1.5, -57344])",
    ),
    "float8_e8m0fnu": ("torch.tensor([0.5, 1024]).to(torch.float8_e8m0fnu)", "t.clone()", "np.float32([0.5, 1024])"),
    "complex64": ("torch.tensor([1 + 2j, 3 - 4j])", "t.neg()", "np.complex64([1 + 2j, 3 - 4j])"),
    "complex128": ("torch.tensor([1 + 2j], dtype=torch.complex128)", "t.neg()", "np.complex128([1 + 2j])"),
    "complex32": ("torch.tensor([1 + 2j, 3 - 4j]).to(torch.complex32)", "t.clone()", "np.complex64([1 + 2j, 3 - 4j])"),
    "conjugate": ("torch.tensor([1 + 2j, 3 - 4j]).conj()", "t.neg()", "np.complex64([1 - 2j, 3 + 4j])"),
    "negative bit": ("torch.tensor([1 + 2j, 3 - 4j]).conj().imag", "t.exp()", "np.float32([-2, 4])"),
    "real part of a conjugate": ("torch.tensor([1 + 2j, 3 - 4j]).conj().real", "t.exp()", "np.float32([1, 3])"),
    "quint8": ("torch.quantize_per_tensor(floats(3), 0.5, 10, torch.quint8)", "t.clone()", "np.uint8([12, 14, 16])"),
    "qint8": ("torch.quantize_per_tensor(floats(3), 0.5, -10, torch.qint8)", "t.clone()", "np.int8([-8, -6, -4])"),
    "qint32": ("torch.quantize_per_tensor(floats(3), 0.5, 10, torch.qint32)", "t.clone()", "np.int32([12, 14, 16])"),
    "quantized per channel": (
        "torch.quantize_per_channel(floats(2, 2), torch.tensor([1.0, 0.5]), torch.tensor([0, 1]), 0, torch.quint8)",
        "t.clone()",
        "np.uint8([[1, 2], [7, 9]])",
    ),
    "parameter": ("nn.Parameter(floats(2))", "t.neg()", "[1, 2]"),
    "parameter of the user's own class": ("OwnParameter(floats(2))", "t.neg()", "[1, 2]"),
    "subclass with __torch_function__": ("floats(2).as_subclass(Logging)", "t.neg()", "[1, 2]"),
    "copy on write": ("copy_on_write()", "t.neg()", "[1, 2, 3]"),
    "resized to less and back": ("resized_back()", "t.neg()", "[1, 2]"),
    "given another storage": ("set_to(floats(5)[1:])", "t.neg()", "[2, 3]"),
    "given another's data": ("data_of(floats(2) * 7)", "t.neg()", "[7, 14]"),
    "of NumPy": ("torch.from_numpy(np.float32([1, 2, 3]))", "t.neg()", "[1, 2, 3]"),
    "of NumPy, read-only": (
        "torch.frombuffer(bytearray(np.float32([1, 2])), dtype=torch.float32)",
        "t.neg()",
        "[1, 2]",
    ),
    "of DLPack": ("torch.from_dlpack(np.float32([1, 2, 3])[1:])", "t.neg()", "[2, 3]"),
    "in a mapped file": ("mapped()", "t.neg()", "[1, 2, 3]"),
    "in shared memory": ("floats(3).share_memory_()", "t.neg()", "[1, 2, 3]"),
    "of an untyped storage": (
        "torch.tensor([], dtype=torch.float32).set_(floats(3).untyped_storage())",
        "t.neg()",
        "[1, 2, 3]",
    ),
    "viewed as another type": ("torch.ones(2).view(torch.int32)", "t.neg()", "np.int32([1065353216] * 2)"),
    "a number that the call wraps": ("2.5", "torch.ops.aten.sub.Tensor(t, t)", "2.5"),
    "the inner tensor of a wrapper": ("Wrapper(floats(2))", "t.inner.neg()", "[1, 2]"),
    # The operators that an operator on a wrapper calls, on the tensors that it wraps.
    "wrapper": ("Wrapper(floats(2))", "t.neg()", "[1, 2]"),
    "wrapper of a wrapper": ("Wrapper(Wrapper(floats(2)))", "t.neg()", "[1, 2]"),
    "batched by vmap": ("floats(2, 2)", "torch.vmap(lambda u: u.neg())(t)", "[[1, 2], [3, 4]]"),
    "wrapped by grad": ("floats(2)", "torch.func.grad(lambda u: u.neg().sum())(t)", "[1, 2]"),
    "functional": ("floats(2)", "torch.func.functionalize(lambda u: u.neg())(t)", "[1, 2]"),
    "masked": ("torch.masked.masked_tensor(floats(2), torch.tensor([True, False]))", "t.neg()", "[1, 2]"),
    "nested, jagged": (
        "torch.nested.nested_tensor([floats(2), floats(3)], layout=torch.jagged)",
        "t.neg()",
        "[1, 2, 1, 2, 3]",
    ),
}

# name: (expression, operator, the reason a user reads)
LEFT_OUT = {
    "no elements": ("torch.ones(0, 3)", "t.neg()", "empty tensor"),
    "meta": ("torch.ones(2, device='meta')", "t.neg()", "meta tensor"),
    "fake": ("fake()", "in_fake_mode(t)", "tensor subclass or fake tensor"),
    "sparse": ("floats(2, 2).to_sparse()", "t.neg()", "sparse tensor"),
    "compressed rows": ("floats(2, 2).to_sparse_csr()", "t.neg()", "compressed sparse tensor"),
    "compressed columns": ("floats(2, 2).to_sparse_csc()", "t.neg()", "compressed sparse tensor"),
    "compressed blocks": ("floats(4, 4).to_sparse_bsr((2, 2))", "t.clone()", "compressed sparse tensor"),
    "mkldnn": ("floats(2, 2).to_mkldnn()", "t.relu()", "opaque MKLDNN tensor"),
    "nested, strided": ("torch.nested.nested_tensor([floats(2), floats(3)])", "t.neg()", "nested tensor"),
    "storage resized to nothing": ("resized()", "t.detach() is None", "storage resized to less than the tensor needs"),
    "bits8": (
        "torch.tensor([1, 2], dtype=torch.uint8).view(torch.bits8)",
        "t.view(torch.uint8)",
        "element type not supported",
    ),
    "bits16": (
        "torch.tensor([1, 2], dtype=torch.int16).view(torch.bits16)",
        "t.view(torch.int16)",
        "element type not supported",
    ),
    "float4": (
        "torch.tensor([1, 2], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)",
        "t.view(torch.uint8)",
        "element type not supported",
    ),
    "quint4x2": (
        "torch.quantize_per_channel(floats(2, 2), torch.ones(2), torch.zeros(2), 0, torch.quint4x2)",
        "t.clone()",
        "element type not supported",
    ),
}
HELPERS = """
    def inference():
        with torch.inference_mode():
            return floats(2)

    lazy = []

    def copy_on_write():
        lazy[:] = floats(3), None
        lazy[1] = torch._lazy_clone(lazy[0])
        return lazy[1]

    def resized():
        tensor = floats(2)
        tensor.untyped_storage().resize_(0)
        return tensor

    def resized_back():
        tensor = floats(2)
        tensor.untyped_storage().resize_(0)
        tensor.untyped_storage().resize_(8)
        return tensor.copy_(floats(2))

    def set_to(other):
        return torch.zeros(2).set_(other.untyped_storage(), 1, (2,))

    def data_of(other):
        tensor = torch.zeros(2)
        tensor.data = other
        return tensor

    def mapped():
        np.float32([1, 2, 3]).tofile("mapped.bin")
        return torch.from_file("mapped.bin", shared=True, size=3)

    from torch._subclasses.fake_tensor import FakeTensorMode
    mode = FakeTensorMode()

    def fake():
        return mode.from_tensor(floats(2))

    def in_fake_mode(tensor):
        with mode:
            return tensor.neg()
"""


# Types that older versions of PyTorch lack.
SINCE = {"float8_e8m0fnu": (2, 7), "float4": (2, 8)}
TORCH = tuple(map(int, importlib.metadata.version("torch").split(".")[:2]))
for kind in (name for name, version in SINCE.items() if version > TORCH):
    RECORDED.pop(kind, None)
    LEFT_OUT.pop(kind, None)


def program():
    lines = [textwrap.indent(textwrap.dedent(HELPERS), "    ")]
    for name, (make, operate, value) in RECORDED.items():
        lines.append(f"    see({name!r}, lambda: {make}, lambda t: {operate}, {value})")
    for name, (make, operate, _) in LEFT_OUT.items():
        lines.append(f"    see({name!r}, lambda: {make}, lambda t: {operate}, None)")
    lines.append("    print('still lazy', [torch._C._is_cow_tensor(t) for t in lazy], Logging.calls)")
    return PROGRAM.format(kinds="\n".join(lines))


@pytest.fixture(scope="module")
def kinds(compare):
    run = compare(program(), saved_data="tensor", sonde_settings={"step": "manual"})
    assert run.bare.status == 0, run.bare.stderr
    assert run.recorded.status == 0, run.recorded.stderr
    order = json.loads((run.directory / "order.json").read_text())
    run.steps = {name: 2 * i + 1 for i, name in enumerate(order)}
    run.truth = np.load(run.directory / "truth.npz")
    run.rows = run.stats()
    return run


def first_input(run, name):
    """The row of `sonde stats` for the first input of the first operator of a kind's step."""
    return next(r for r in run.rows if r["step"] == run.steps[name] and r["side"] == "input" and r["slot"] == 0)


def test_no_kind_of_tensor_changes_a_result_or_raises_a_complaint(kinds):
    assert kinds.bare.stdout == kinds.recorded.stdout
    assert "still lazy [True, True]" in kinds.recorded.stdout
    assert "RecordFunction" not in kinds.recorded.stderr
    assert len(kinds.recorded.sonde_lines) == 1 and "recorded" in kinds.recorded.sonde_lines[0]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_with_its_value(name, kinds):
    op = first_input(kinds, name)["op_name"].replace("/", "_")
    found = dumps.tensors(kinds.dump, kinds.steps[name])
    assert found[op, "input", 0].shape == kinds.truth[name].shape
    np.testing.assert_array_equal(found[op, "input", 0], kinds.truth[name])
    assert (op, "output", 0) in found


@pytest.mark.parametrize("name", LEFT_OUT)
def test_left_out_with_its_reason(name, kinds):
    row = first_input(kinds, name)
    assert row["skipped"] == LEFT_OUT[name][2]
    files = dumps.tensors(kinds.dump, kinds.steps[name])
    assert (row["op_name"].replace("/", "_"), "input", 0) not in files
