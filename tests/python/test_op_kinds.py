"""The kinds that the engine gives to names of operators (src/read/operators/op_family.cpp), against the real operators.
A name in the wrong kind fails; so does a name that no row here calls."""

import csv
import pathlib
import re

import numpy as np
import pytest
import torch
from op_calls import CALLS
from processes import CLI, run_in

SOURCE = pathlib.Path(__file__).parents[2] / "src/read/operators/op_family.cpp"

# Types of MindSpore and CANN, or without a kernel for CPUs: PyTorch's names for the same.
CALLED_AS = {
    "expanddims": "unsqueeze",
    "padv3": "pad",
    "transposed": "transpose",
    "stridedslice": "slice",
    "flattengrad": "reshape",
    "identity": "clone",
    "load": "clone",
    "depend": "clone",
    "tensormove": "clone",
    "squeezed": "squeeze",
    "pack": "stack",
    "unpack": "unbind",
    "stackgrad": "unbind",
    "catgrad": "split",
    "arangestart": "arange",
    "gatherv2": "indexselect",
    "gathernd": "index",
    "maxpool": "maxpool2d",
    "clipbyvalue": "clamp",
    "cast": "to",
    "multidot": "linalgmultidot",
    "swish": "silu",
    "fastgelu": "silu",
    "scaleddotproductflashattention": "scaleddotproductattention",
    "scaleddotproductefficientattention": "scaleddotproductattention",
    "scaleddotproductfusedattentionoverrideable": "scaleddotproductattention",
    "flashattentionscore": "scaleddotproductattention",
    "flashattentionscoregrad": "scaleddotproductflashattentionforcpugrad",
    "biasaddgrad": "sum",
    "crossentropy": "crossentropyloss",
    "sparsesoftmaxcrossentropywithlogits": "crossentropyloss",
    "unsortedsegmentsum": "indexadd",
    "clipgradnorm": "norm",
    "cudnnbatchnorm": "batchnorm",
    "fusedbatchnorm": "batchnorm",
    "bntrainingupdate": "batchnorm",
    "l2normalize": "normalize",
    "relugrad": "thresholdgrad",
    "relu6grad": "hardtanhgrad",
    "maxpoolgrad": "maxpool2dwithindicesgrad",
    "maxpoolgradwithargmax": "maxpool2dwithindicesgrad",
    "argmaxwithvalue": "argmax",
    "quantize": "quantizepertensor",
    "ascendquant": "quantizepertensor",
    "dropoutgenmask": "bernoulli",
    "standardnormal": "randn",
    "uniformreal": "rand",
    "biasadd": "add",
    "realdiv": "div",
    "tensoradd": "add",
    "muls": "mul",
    "adds": "add",
    "wraptensorautograd": "waittensor",  # it may wait later
}
NOTHING_TO_CALL = {
    "empty": "its result was never written",
    "newempty": "its result was never written",
    "emptylike": "its result was never written",
    "transdata": "lays a tensor out for an Ascend device",
}


def table():
    text = SOURCE.read_text().split("kKindNames[] = ")[1].split("\n};")[0]
    return " ".join(re.findall(r'"([^"]*)"', text)).split()


NAMES = table()
ROWS = {name: call for calls in CALLS.values() for name, call in calls.items()}


def test_every_name_is_called_once_and_every_call_is_of_a_name():
    assert sorted(set(NAMES)) == sorted(NAMES)
    assert sorted([*ROWS, *CALLED_AS, *NOTHING_TO_CALL]) == sorted(NAMES)
    assert set(CALLED_AS.values()) <= set(ROWS)


def test_every_name_is_one_that_shared_type_can_give():
    assert [name for name in NAMES if name.startswith("native") or "backward" in name or not name.isalnum()] == []


def call_of(name):
    return ROWS[CALLED_AS.get(name, name)]


def is_float(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


def with_type(inputs, dtype):
    return [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in inputs]


def shaken(inputs, by=1e-6):
    """The results of another machine, with other rounding."""
    torch.manual_seed(1)
    return [x + by * torch.randn_like(x).sgn() if is_float(x) else x for x in inputs]


def write(directory, ops):
    """A dump like MindSpore's: {name: (inputs, outputs)}."""
    step = directory / "rank_0" / "Net" / "0" / "0"
    step.mkdir(parents=True)
    for number, (name, sides) in enumerate(ops.items()):
        for side, tensors in zip(("input", "output"), sides, strict=True):
            for slot, tensor in enumerate(tensors):
                dtype = str(tensor.dtype).removeprefix("torch.")
                begin = f"{name}.Default_{name}-op0.0.0.{1_700_000_000_000_000 + number}.{side}.{slot}"
                values = tensor.detach().resolve_conj().float() if dtype == "bfloat16" else tensor.detach()
                np.save(step / f"{begin}.DefaultFormat.{dtype}.npy", values.numpy())


def compared(directory, target, golden):
    """{name: (kind, verdicts)} as `sonde compare` has them."""
    write(directory / "target", target)
    write(directory / "golden", golden)
    command = [CLI, "compare", "target", "golden", "--csv", "ops.csv"]
    run = run_in(directory, None, *command)
    assert run.status in (0, 1), run.stderr
    found = {}
    with (directory / "ops.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["op_type"], []).append(row)
    return found


def run_all(change):
    ops = {}
    for name in NAMES:
        if name in NOTHING_TO_CALL:
            continue
        call = call_of(name)
        inputs = change(call, [x.clone() for x in call.inputs])
        torch.manual_seed(0)
        outputs = [x.clone() for x in call(*inputs)]
        ops[name] = (inputs, outputs)
    return ops


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # more threads wait for each other on a busy machine
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def plain():
    return run_all(lambda call, inputs: inputs)


@pytest.fixture(scope="module")
def precise(plain, tmp_path_factory):
    """The error compared with float64."""
    golden = run_all(lambda call, inputs: inputs if call.single else with_type(inputs, torch.float64))
    return compared(tmp_path_factory.mktemp("precise"), plain, golden)


@pytest.fixture(scope="module")
def near(plain, tmp_path_factory):
    """The change of the result for inputs that differ by a millionth."""
    return compared(tmp_path_factory.mktemp("near"), plain, run_all(lambda call, inputs: shaken(inputs)))


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    one = {name: ([torch.ones(1)], [torch.ones(1)]) for name in NAMES}
    found = compared(tmp_path_factory.mktemp("kinds"), one, one)
    return {name: rows[0]["kind"] for name, rows in found.items()}


def bits(tensors):
    """Every element, as a set of the float64 values."""
    return {value for x in tensors for value in flat(x).double().tolist()}


def flat(tensor):
    tensor = tensor.detach().resolve_conj()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).flatten()


def dependence(call, inputs):
    """For each input of floats and each output: a matrix of which element of it changes with which of the input."""
    torch.manual_seed(0)
    before = [x.clone() for x in call(*inputs)]
    found = []
    for at, tensor in enumerate(inputs):
        if not is_float(tensor):
            continue
        columns = []
        for element in range(tensor.numel()):
            changed = [x.clone() for x in inputs]
            changed[at].view(-1)[element] *= 1.5
            torch.manual_seed(0)
            columns.append([(flat(x) != flat(y)) for x, y in zip(call(*changed), before, strict=True)])
        found.append([torch.stack(parts, 1) for parts in zip(*columns, strict=True)])
    return found


def is_elementwise(call, inputs):
    """Each element of an output depends on one of each input at most; of an input of its size, on that in its place."""
    for x, of_input in zip([x for x in inputs if is_float(x)], dependence(call, inputs), strict=True):
        for matrix in of_input:
            if (matrix.sum(1) > 1).any():
                return False
            if (
                matrix.shape[0] == matrix.shape[1] == flat(x).numel()
                and (matrix & ~torch.eye(len(matrix)).bool()).any()
            ):
                return False
    return True


def mixing_inputs(call, inputs):
    """How many inputs have several elements of which one of an output depends."""
    return sum(any((matrix.sum(1) > 1).any() for matrix in of_input) for of_input in dependence(call, inputs))


def moves(call, inputs):
    return bits(call(*inputs)) <= bits(inputs) | set(map(float, call.constants))


def chooses(call, inputs):
    elements = bits(inputs)
    allowed = elements | {-x for x in elements} | set(map(float, call.constants))
    return bits(x for x in call(*inputs) if is_float(x)) <= allowed


def is_conversion(call, inputs):
    (output,) = call(*inputs)
    return torch.equal(output, inputs[0].to(output.dtype))


def is_abrupt(call, inputs):
    """A millionth more or less makes another whole number, or much more than a millionth."""
    before = call(*inputs)
    for seed in range(8):
        torch.manual_seed(seed)
        changed = [inputs[0] + 1e-6 * torch.randn_like(inputs[0]).sign(), *inputs[1:]]
        for x, y in zip(before, call(*changed), strict=True):
            if x.shape != y.shape or ((flat(x).double() - flat(y).double()).abs() > 1e-3).any():
                return True
    return all(not x.is_floating_point() for x in before)


def is_random(call, inputs):
    return any(not torch.equal(x, y) for x, y in zip(call(*inputs), call(*inputs), strict=True))


IS_SO = {
    "copy": moves,
    "exact": lambda call, x: chooses(call, x) and not is_random(call, x),
    "cast": is_conversion,
    "elementwise": lambda call, x: is_elementwise(call, x) and not chooses(call, x),
    "transcendental": lambda call, x: is_elementwise(call, x) and not chooses(call, x),
    "contraction": lambda call, x: mixing_inputs(call, x) > 1 and not chooses(call, x),
    "reduction": lambda call, x: mixing_inputs(call, x) > 0 or (is_elementwise(call, x) and len(x) > 2),
    "normalization": lambda call, x: mixing_inputs(call, x) > 0 and call(*x)[0].shape == x[0].shape,
    "selection": is_abrupt,
    "random": is_random,
}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOTHING_TO_CALL])
def test_an_operator_is_of_the_kind_that_the_engine_takes_it_for(name, kinds):
    call = call_of(name)
    assert IS_SO[kinds[name]](call, [x.clone() for x in call.inputs]), f"{name} is not of the kind {kinds[name]}"


def findings(of, names):
    said = ("verdict", "kind", "slot", "dtype", "rms_error", "max_error", "rounding_max", "propagated_max", "reason")
    return [
        [name] + [row[column] for column in said]
        for name in names
        for row in of[name]
        if row["verdict"] == "introduced"
    ]


def repeatable(kinds):
    return [name for name in NAMES if kinds[name] != "random" and name not in NOTHING_TO_CALL]


def test_float32_is_as_near_to_float64_as_the_kind_says(precise, kinds):
    assert findings(precise, repeatable(kinds)) == []
    assert set(NAMES) - set(precise) == set(NOTHING_TO_CALL)


def test_inputs_that_differ_by_rounding_explain_what_differs(near, kinds):
    assert findings(near, repeatable(kinds)) == []


def test_a_value_that_differs_explains_how_many_are_taken(tmp_path):
    def taken(x):
        mask = x > 0
        ops = {"maskedselect": x.masked_select(mask), "index": x[mask], "nonzero": x.clamp_min(0).nonzero()}
        return {name: ([x, mask], [output]) for name, output in ops.items()}

    x = torch.tensor([0.0, 1.0, 2.0])
    found = compared(tmp_path, taken(x + 1e-6), taken(x))
    assert {name: rows[0]["verdict"] for name, rows in found.items()} == dict.fromkeys(found, "propagated")
    same = compared(tmp_path / "same", {"maskedselect": ([x], [x])}, {"maskedselect": ([x], [x[:2]])})
    assert same["maskedselect"][0]["verdict"] == "introduced"
