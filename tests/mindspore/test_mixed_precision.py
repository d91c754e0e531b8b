"""Mixed precision on a CPU: MindSpore raises float16 kernels to float32, and keeps float16 as the type of their
results. The recorded values are those of the kernels: each is compared with its operator's result from its inputs."""

import collections
import csv
import json
import math

import dumps
import numpy as np
import pytest


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normalised(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-7)


def product(a, b, transpose_a, transpose_b):
    a = a.reshape(len(a), -1) if a.ndim > b.ndim else a  # the Flatten before it needs no kernel
    return (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)


# The first output of an operator from its inputs.
COMPUTED = {
    "Add": lambda a, b: a + b,
    "BatchMatMul": product,
    "BiasAdd": lambda x, b, *_: x + b.reshape(1, -1, *[1] * (x.ndim - 2)),
    "Cast": lambda x, *_: x,
    "GeLU": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "LayerNorm": lambda x, gamma, beta, *_: normalised(x) * gamma + beta,
    "MatMul": product,
    "Mul": lambda a, b: a * b,
    "ReLU": lambda x: np.maximum(x, 0),
    "Softmax": lambda x, *_: softmax(x),
    "Sub": lambda a, b: a - b,
}
LOOSE = {"float16": 2e-3, "bfloat16": 1e-2}  # relative to the largest element


@pytest.fixture(scope="module")
def trained(case):
    run = case(saved_data="full", statistic_category=["max", "min", "nan count"]).run("mixed_precision")
    assert run.status == 0, run.stderr
    return run


def places(dump):
    return [
        (int(graph.name), step) for graph in sorted(dump.glob("rank_0/Net/*")) for step in dumps.steps(dump, graph.name)
    ]


def operators(dump, graph, step):
    """{name: ({slot: input}, {slot: output}, types)}; types: of the file names, which are those of the memory."""
    found = collections.defaultdict(lambda: ({}, {}, set()))
    for path in dumps.step_directory(dump, step, graph).glob("*.npy"):
        parts = dumps.NAME.match(path.name)
        inputs, outputs, types = found[parts["type"], parts["name"]]
        array = np.load(path)
        (inputs if parts["io"] == "input" else outputs)[int(parts["slot"])] = (
            array.astype(np.float64) if array.dtype.kind == "f" else array
        )
        types.add(parts["dtype"].lower())
    return found


def test_every_result_is_that_of_its_inputs(trained):
    checked = collections.Counter()
    for graph, step in places(trained.dump):
        for (kind, name), (inputs, outputs, types) in operators(trained.dump, graph, step).items():
            if kind not in COMPUTED:
                continue
            expected = COMPUTED[kind](*[inputs[slot] for slot in sorted(inputs)])
            tolerance = max([LOOSE.get(type, 1e-4) for type in types])
            np.testing.assert_allclose(
                outputs[0].ravel(), expected.ravel(), rtol=tolerance, atol=tolerance * np.abs(expected).max() + 6e-8,
                err_msg=f"{graph} {step} {name} {types}",
            )  # fmt: skip
            checked[kind] += 1
    assert checked["Cast"] > 300
    assert checked["MatMul"] > 100
    assert checked.keys() == COMPUTED.keys()


def test_both_types_were_there(trained):
    types = {dumps.NAME.match(path.name)["dtype"] for path in trained.dump.rglob("*.npy")}
    assert {"Float16", "Float32", "BFloat16", "Float64"} <= types


def test_nothing_is_infinite_and_nothing_is_wrong(trained, sonde):
    for graph, step in places(trained.dump):
        assert all(row["NaN Count"] in ("0", "") for row in dumps.statistics(trained.dump, step, graph))
    answer = sonde("first-bad", trained.dump)
    assert answer.status == 0, answer.stdout
    assert "not read" not in answer.stdout


def test_rows_are_those_of_the_tensors(trained):
    with (trained.dump / "rank_0/Net/2/1/statistic.csv").open(newline="") as file:
        rows = {(dumps.sanitised(r["Op Name"]), r["IO"], int(r["Slot"])): r for r in csv.DictReader(file)}
    for key, array in dumps.tensors(trained.dump, 1, 2).items():
        if array.dtype.kind == "f":
            assert float(rows[key]["Max Value"]) == pytest.approx(float(array.max()), rel=1e-5)


def test_the_printed_output_is_in_the_dump(trained):
    (printed,) = [line.split()[1] for line in trained.stdout.splitlines() if line.startswith("output ")]
    last = places(trained.dump)[-1]
    assert any(
        array.tobytes().hex() == printed
        for (_, io, _), array in dumps.tensors(trained.dump, last[1], last[0]).items()
        if io == "output"
    )


def test_every_input_has_the_size_and_type_of_its_source(trained, sonde):
    """The casts that MindSpore inserts have other numbers in its graph than in its files."""
    checked = 0
    for graph, step in places(trained.dump):
        answer = sonde("graph", trained.dump, "--json", "--step", step, "--graph", graph)
        assert answer.status == 0, answer.stderr
        ops = {op["op_name"]: op for op in json.loads(answer.stdout)["ops"]}
        for name, op in ops.items():
            for entry in op["inputs"]:
                if "op_name" not in entry:
                    continue
                source = ops[entry["op_name"]]["outputs"][entry["slot"]]
                assert source["dtype"] == entry["type"]["dtype"], (graph, step, name, entry)
                assert math.prod(source["shape"]) == math.prod(entry["type"]["shape"]), (graph, step, name, entry)
                checked += 1
    assert checked > 1500


def test_a_program_computes_the_same(trained, case):
    assert case().run_bare("mixed_precision").stdout == trained.stdout
