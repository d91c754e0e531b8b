"""`sonde watch`: every condition compared with plain NumPy, on a tree like MindSpore's."""

import functools
import json
import subprocess

import numpy as np
import pytest
from processes import CLI

NOTHING, FINDING, BAD_USAGE = 0, 1, 2
TIME = 1_700_000_000_000_000


def watch(*arguments):
    return subprocess.run([CLI, "watch", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def found(dump, *conditions):
    """{(condition index, iteration, op, slot): point} of one call."""
    result = watch(dump, "--json", *(part for condition in conditions for part in ("-c", condition)))
    assert result.returncode in (NOTHING, FINDING), result.stderr
    points = {}
    for node in json.loads(result.stdout)["hits"]:
        for tensor in node["tensors"]:
            for point in tensor["watch_points"]:
                key = (point["id"] - 1, node["step"], node["op_name"], tensor["slot"])
                assert key not in points
                points[key] = point
    return points


@functools.cache
def tensors_of(step):
    random = np.random.default_rng(step)
    relu = random.normal(size=(8, 300)).astype(np.float32)
    gradient = random.normal(scale=1e-3, size=(5000,))
    weight = np.full((64, 9), 0.5, np.float32)
    weight[0, :3] = step * 0.25
    broken = random.normal(size=100).astype(np.float16)
    broken[3], broken[7] = np.nan, -np.inf
    return {
        "ReLU.Default_network_ReLU-op0": np.asfortranarray(np.maximum(relu, 0)),
        "Tanh.Default_network_Tanh-op0": np.tanh(relu.astype(np.float64) * 9),
        "MatMul.Gradients_Default_network_MatMul-op0": gradient,
        "Conv2D.Default_network_Conv2D-op0": broken,
        "Cast.Default_Cast-op0": random.integers(-(2**40), 2**40, size=(3, 7)),
        "Less.Default_Less-op0": random.random(50) < 0.3,
        "Argmax.Default_Argmax-op0": np.uint8([0, 0, 0, 0]),
        "Parameter.conv1_weight": weight,
        "Parameter.conv1_bias": np.zeros(7, np.float32),
        "Parameter.moments.conv1_weight": np.zeros(7, np.float32),
    }


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    directory = tmp_path_factory.mktemp("watch")
    for step in (0, 1, 2):
        below = directory / "rank_0" / "Net" / "0" / str(step)
        below.mkdir(parents=True)
        for i, (name, values) in enumerate(tensors_of(step).items()):
            np.save(
                below / f"{name}.0.0.{TIME + 100 * step + i}.output.0.DefaultFormat.{values.dtype.name}.npy", values
            )
    history = directory / "rank_0" / "execution_order"
    history.mkdir()
    (history / "ms_global_execution_order_graph_0.csv").write_text("0\n1\n2\n")
    return directory


CATEGORIES = {
    "weight": lambda name: name in ("Parameter.conv1_weight", "Parameter.conv1_bias"),
    "gradient": lambda name: "Gradients" in name,
    "activation": lambda name: name.startswith(("ReLU", "Tanh")),
    "tensor": lambda name: True,
}


def quantities(x):
    x = x.astype(np.float64)
    return {
        "max": x.max(),
        "min": x.min(),
        "mean": x.mean(),
        "abs_mean": np.abs(x).mean(),
        "sd": x.std(ddof=1),
        "max_min": x.max() - x.min(),
        "zero_percentage": 100 * np.count_nonzero(x == 0) / x.size,
    }


def of_statistic(quantity):
    return lambda x, before: quantities(x)[quantity]


def of_range(start, end):
    return lambda x, before: 100 * np.count_nonzero((x >= start) & (x <= end)) / x.size


def of_change(x, before):
    x, before = x.astype(np.float64), before.astype(np.float64)
    return np.abs(x - before).mean() / (np.abs(before).mean() + 1e-9)


COMPARE = {"gt": np.greater, "lt": np.less, "ge": np.greater_equal}

# condition, category, parameter that is compared, its value, its definition
COMPARED = [
    ("max_gt", "tensor", "param", 2.5, of_statistic("max")),
    ("max_lt", "tensor", "param", 0.5, of_statistic("max")),
    ("min_gt", "tensor", "param", -0.5, of_statistic("min")),
    ("min_lt", "tensor", "param", -2.5, of_statistic("min")),
    ("max_min_gt", "tensor", "param", 3.25, of_statistic("max_min")),
    ("max_min_lt", "tensor", "param", 1.0, of_statistic("max_min")),
    ("mean_gt", "tensor", "param", 0.25, of_statistic("mean")),
    ("mean_lt", "tensor", "param", 0.0, of_statistic("mean")),
    ("sd_gt", "tensor", "param", 0.5, of_statistic("sd")),
    ("sd_lt", "tensor", "param", 1e-3, of_statistic("sd")),
    *(
        (f"{target}_{word}", target, f"{statistic}_{relation}", value, of_statistic(statistic))
        for target, word, relation, values in [
            ("weight", "too_large", "gt", {"abs_mean": 0.3, "max": 0.4, "min": 0.2, "mean": 0.3}),
            ("weight", "too_small", "lt", {"abs_mean": 0.3, "max": 0.4, "min": 0.2, "mean": 0.3}),
            ("gradient", "too_large", "gt", {"abs_mean": 5e-4, "max": 1e-3, "min": -1, "mean": -1}),
            ("gradient", "vanishing", "lt", {"abs_mean": 1e-3, "max": 1, "min": 0, "mean": 1}),
            ("tensor", "too_large", "gt", {"abs_mean": 0.7, "max": 0.9, "min": -0.1, "mean": 0.4}),
            ("tensor", "too_small", "lt", {"abs_mean": 0.2, "max": 0.9, "min": -0.1, "mean": 0.1}),
        ]
        for statistic, value in values.items()
    ),
    ("weight_initialization", "weight", "zero_percentage_ge", 100, of_statistic("zero_percentage")),
    ("weight_initialization", "weight", "max_gt", 0.4, of_statistic("max")),
    ("weight_initialization", "weight", "min_lt", 0.1, of_statistic("min")),
    ("tensor_all_zero", "tensor", "zero_percentage_ge", 40, of_statistic("zero_percentage")),
    *(
        (f"{target}_range", target, f"range_percentage_{relation}", value, of_range(-0.5, 0.75))
        for target in ("activation", "tensor")
        for relation, value in [("lt", 60), ("gt", 50)]
    ),
    ("activation_range", "activation", "max_min_gt", 2.5, of_statistic("max_min")),
    ("tensor_range", "tensor", "max_min_lt", 2.5, of_statistic("max_min")),
    ("weight_change_too_large", "weight", "abs_mean_update_ratio_gt", 0.001, of_change),
    ("weight_change_too_small", "weight", "abs_mean_update_ratio_lt", 0.001, of_change),
    ("tensor_change_above_threshold", "tensor", "abs_mean_update_ratio_gt", 1.0, of_change),
    ("tensor_change_below_threshold", "tensor", "abs_mean_update_ratio_lt", 1.0, of_change),
]


def text_of(condition, parameter, value):
    support = "range_start_inclusive=-0.5,range_end_inclusive=0.75," if parameter.startswith("range_") else ""
    return f"{condition}:{support}{parameter}={value}"


def op_name(file):
    _, name = file.split(".", 1)
    return name


@pytest.fixture(scope="module")
def compared(dump):
    return found(dump, *(text_of(condition, parameter, value) for condition, _, parameter, value, _ in COMPARED))


@pytest.mark.parametrize("index", range(len(COMPARED)), ids=lambda i: "-".join(map(str, COMPARED[i][:4:2])))
def test_a_condition_fires_where_numpy_says_so(compared, index):
    condition, category, parameter, value, definition = COMPARED[index]
    changes = definition is of_change
    relation = COMPARE[parameter[-2:] if parameter != "param" else condition[-2:]]
    fired = 0
    for step in (0,) if condition == "weight_initialization" else (0, 1, 2):
        for name, values in tensors_of(step).items():
            point = compared.get((index, step, op_name(name), 0))
            if not CATEGORIES[category](name):
                assert point is None
                continue
            bits = np.isnan(values).any() + 2 * np.isinf(values).any() + (4 if changes and step == 0 else 0)
            if bits:
                assert (point["error_code"], point["hit"]) == (bits, False), name
                continue
            actual = definition(values, tensors_of(step - 1)[name] if changes else None)
            assert bool(point) == bool(relation(actual, value)), (name, actual)
            if point:
                fired += 1
                actual_values = {each["name"]: each["actual_value"] for each in point["watch_condition"]["params"]}
                assert actual_values[parameter] == pytest.approx(actual, rel=1e-12, abs=1e-300)
    assert fired > 0, "the test's own numbers never fire"


def test_overflow_is_a_nan_or_an_infinity(dump):
    conditions = ["tensor_overflow", "has_nan", "has_inf", "gradient_exploding", "weight_overflow"]
    points = found(dump, *conditions)
    assert {(conditions[key[0]], *key[1:3]) for key in points} == {
        (condition, step, "Default_network_Conv2D-op0")
        for condition in ("tensor_overflow", "has_nan", "has_inf")
        for step in (0, 1, 2)
    }
    assert all(point["error_code"] == 0 and point["nan_count"] == 1 for point in points.values())


@pytest.mark.parametrize("rtol, atol", [(1e-5, 1e-8), (0.0, 0.25), (0.5, 0.0)])
def test_unchanged_is_all_close(dump, rtol, atol):
    points = found(dump, f"tensor_unchanged:rtol={rtol},atol={atol}", "weight_not_changed")
    for step in (1, 2):
        for name, values in tensors_of(step).items():
            point = points.get((0, step, op_name(name), 0))
            if not np.isfinite(values).all():
                assert point["error_list"] == ["nan", "inf"]
                continue
            before = tensors_of(step - 1)[name].astype(np.float64)
            assert bool(point) == np.allclose(values.astype(np.float64), before, rtol=rtol, atol=atol), name
            assert not point or point["previous_step"] == step - 1
    assert {(step, name) for index, step, name, _ in points if index == 1 and step > 0} == {
        (1, "conv1_bias"),
        (2, "conv1_bias"),
    }


def test_hits_come_in_the_order_of_writing_whatever_the_number_of_threads(dump):
    runs = [watch(dump, "--recommended", "-c", "sd_gt:param=0", "--json", "--threads", n) for n in (1, 2, 16)]
    assert len({run.stdout for run in runs}) == 1
    times = [tensor["timestamp_us"] for node in json.loads(runs[0].stdout)["hits"] for tensor in node["tensors"]]
    assert times == sorted(times)


def test_the_recommended_set_is_what_finds_a_node(dump):
    report = json.loads(watch(dump, "--recommended", "--json").stdout)
    assert [point["name"] for point in report["watch_points"]] == [
        f"recommend_{name}_watchpoint"
        for name in (
            "weight_initialization",
            "weight_change_too_large",
            "gradient_vanishing",
            "operator_overflow",
            "tensor_overflow",
            "tensor_all_zero",
            "tanh_activation_range",
            "relu_activation_range",
        )
    ]


def test_without_a_history_the_next_lower_step_stands_in_and_says_so(dump, tmp_path):
    for step in (2, 7):
        below = tmp_path / "rank_0" / "Net" / "0" / str(step)
        below.mkdir(parents=True)
        np.save(below / f"Parameter.fc_bias.0.0.{TIME + step}.output.0.DefaultFormat.Float32.npy", np.ones(3))
    points = found(tmp_path, "weight_not_changed")
    assert points[0, 2, "fc_bias", 0]["error_list"] == ["no_prev_tensor", "no_history"]
    hit = points[0, 7, "fc_bias", 0]
    assert (hit["hit"], hit["previous_step"], hit["error_list"]) == (True, 2, ["no_history"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-c", "tensor_to_large:max_gt=1"], "Invalid watch condition value."),
        (["-c", "tensor_overflow:max_gt=1"], "No param is expected."),
        (["-c", "tensor_too_large:max_gt"], "Invalid param keys."),
        (["-c", "tensor_too_large:max_lt=1"], "Invalid name of parameter."),
        (["-c", "tensor_too_large:max_gt=many"], "Number param should be given."),
        (["-c", "tensor_all_zero:zero_percentage_ge=101"], "Parameter out of range."),
        (["-c", "tensor_too_large:max_gt=1,min_gt=1"], "Multiple check params."),
        (["-c", "tensor_range:range_percentage_lt=1"], "Invalid support params."),
        (["-c", "weight_overflow", "--category", "gradient"], "watches nodes of category weight, not gradient"),
        (["-c", "tensor_overflow", "--op", "("], "is not a regular expression"),
        (["-c", "tensor_overflow", "--op", "nowhere"], "nothing to watch"),
        (["-c", "tensor_overflow", "--side", "input"], "nothing to watch"),
        ([], "no condition"),
    ],
)
def test_what_cannot_be_watched_is_refused_with_the_reason(dump, arguments, message):
    result = watch(dump, *arguments)
    assert result.returncode == BAD_USAGE
    assert message in result.stderr


def test_nodes_are_chosen_by_name_category_and_pattern(dump):
    def ops(*arguments):
        result = watch(dump, "-c", "max_min_gt:param=-1", "--json", *arguments)
        return {node["op_name"] for node in json.loads(result.stdout)["hits"]}

    assert ops("--op", "(Tanh|ReLU)-op0$") == {"Default_network_ReLU-op0", "Default_network_Tanh-op0"}
    assert ops("--category", "weight") == {"conv1_weight", "conv1_bias"}
    assert ops("-s", "Less") == {"Default_Less-op0"}


def test_the_catalogue_lists_ids_numbers_and_parameters():
    listed = {row["id"]: row for row in json.loads(watch("--list", "--json").stdout)["conditions"]}
    assert len(listed) == 33  # the debugger's, and operator_without_effect
    assert listed["weight_not_changed"]["abbr"] == "WNC"
    assert listed["weight_not_changed"]["backend"] == 20
    assert [parameter["name"] for parameter in listed["weight_not_changed"]["parameters"]] == [
        "rtol",
        "atol",
        "equal_nan",
    ]
    assert "tensor_all_zero" in watch("--list").stdout
