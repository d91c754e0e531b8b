"""The record of a real training run, compared with torch itself."""

import json
import sys
import textwrap

import dumps
import numpy as np
import pytest
from processes import run_in, settings_of

# Trains one step by hand and saves the values of every interesting tensor, to be compared with the dump.
REFERENCE = """
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.manual_seed(0)


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 3, 3)
            self.norm = nn.BatchNorm2d(3)

        def forward(self, x):
            return F.relu(self.norm(self.conv(x)), inplace=True)  # the block's line


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(Block(), nn.Flatten())
            self.fc = nn.Linear(3 * 6 * 6, 4)

        def forward(self, x):
            return self.fc(self.features(x))


    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    kept = {}
    batch = torch.randn(2, 2, 8, 8)
    kept["batch"] = batch.clone()
    kept["weight_before"] = net.fc.weight.detach().clone()
    loss = net(batch).square().mean()
    loss.backward()
    kept["loss"] = loss.detach()
    kept["weight_grad"] = net.fc.weight.grad.clone()
    kept["bias_grad"] = net.fc.bias.grad.clone()
    kept["conv_grad"] = net.features[0].conv.weight.grad.clone()
    optimizer.step()
    kept["weight_after"] = net.fc.weight.detach().clone()
    import numpy
    numpy.savez("kept.npz", **{k: v.numpy() for k, v in kept.items()})
"""

FC = "Default_network-Net_fc-Linear_linear-op0"
CONV = "Default_network-Net_features_0-Block_conv-Conv2d_conv2d-op0"


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The recorded run, the values that it kept, and the tensors of its dump; nobody changes them."""
    directory = tmp_path_factory.mktemp("reference")
    dump = directory / "dump"
    (directory / "train.py").write_text(textwrap.dedent(REFERENCE))
    common = {"saved_data": "full", "statistic_category": ["max", "min", "avg", "l2norm"]}
    config = directory / "data_dump.json"
    config.write_text(json.dumps(settings_of(dump, None, None, common)))
    run = run_in(directory, dump, sys.executable, "train.py", MINDSPORE_DUMP_CONFIG=config)
    assert run.status == 0, run.stderr
    return run, np.load(directory / "kept.npz"), dumps.tensors(dump)


def test_forward_inputs_and_outputs_are_the_tensors_torch_computed(reference):
    _, kept, found = reference
    np.testing.assert_array_equal(found[CONV, "input", 0], kept["batch"])
    np.testing.assert_array_equal(found[FC, "input", 1], kept["weight_before"])
    output = found[FC, "output", 0]
    np.testing.assert_allclose(
        output, found[FC, "input", 0] @ kept["weight_before"].T + found[FC, "input", 2], rtol=1e-4, atol=1e-5
    )
    assert np.square(output).mean() == pytest.approx(kept["loss"], rel=1e-6)


def test_gradients_parameters_and_data_have_their_names(reference):
    _, kept, found = reference
    np.testing.assert_array_equal(found["fc_weight", "output", 0], kept["weight_before"])
    np.testing.assert_array_equal(found["fc_weight_grad", "output", 0], kept["weight_grad"])
    np.testing.assert_array_equal(found["fc_bias_grad", "output", 0], kept["bias_grad"])
    np.testing.assert_array_equal(found["data-0", "output", 0], kept["batch"])


def test_backward_ops_live_under_their_forward_ops_scope(reference):
    run, kept, found = reference
    scope = "Gradients_Default_network-Net_features_0-Block_conv-Conv2d_Grad_conv2d"
    np.testing.assert_array_equal(found[f"{scope}_convolution_backward-op0", "output", 1], kept["conv_grad"])
    assert any(
        name.startswith("Gradients/Default/network-Net/fc-Linear/Grad_linear/")
        for name in dumps.execution_order(run.dump)
    )


def test_the_optimizer_reads_the_old_weight_and_writes_the_new_one(reference):
    _, kept, found = reference
    before = [v for (name, io, _), v in found.items() if "optimizer-SGD" in name and io == "input"]
    after = [v for (name, io, _), v in found.items() if "optimizer-SGD" in name and io == "output"]
    assert any(np.array_equal(v, kept["weight_before"]) for v in before)
    assert any(np.array_equal(v, kept["weight_after"]) for v in after)


def test_an_in_place_op_shows_its_input_before_it_ran(reference):
    _, _, found = reference
    name = "Default_network-Net_features_0-Block_relu_-op0"
    before, after = found[name, "input", 0], found[name, "output", 0]
    assert before.min() < 0
    np.testing.assert_array_equal(after, np.maximum(before, 0))


def test_statistics_are_numpys(reference):
    run, _, found = reference
    rows = dumps.statistics(run.dump)
    checked = 0
    for row in rows:
        name = row["Op Name"].translate(str.maketrans("/.", "__"))
        value = found[name, row["IO"], int(row["Slot"])].astype(np.float64)
        assert row["Shape"] == str(list(value.shape)).replace(" ", "")
        for column, expected in [
            ("Max Value", value.max()), ("Min Value", value.min()), ("Avg Value", value.mean()),
            ("L2Norm Value", np.sqrt(np.square(value).sum())),
        ]:  # fmt: skip
            assert float(row[column]) == pytest.approx(expected, rel=1e-5, abs=1e-9), (name, column)
        checked += 1
    assert checked == len(found)


def test_source_lines_lead_to_the_users_code(reference, sonde):
    run, _, _ = reference
    listed = [json.loads(line) for line in sonde("ls", run.dump, "--ops", "--jsonl").stdout.splitlines()]
    by_name = {op["op_name"]: op for op in listed}
    lines = (run.dump.parent / "train.py").read_text().splitlines()
    block_line = next(i for i, text in enumerate(lines, 1) if "# the block's line" in text)
    scope = "network-Net/features/0-Block"
    for name in (
        f"Default/{scope}/relu_-op0",
        f"Default/{scope}/conv-Conv2d/conv2d-op0",
        f"Gradients/Default/{scope}/conv-Conv2d/Grad_conv2d/convolution_backward-op0",
    ):
        assert (by_name[name]["source_file"].rsplit("/", 1)[-1], by_name[name]["source_line"]) == (
            "train.py",
            block_line,
        ), name


def test_equal_tensors_are_one_file_under_two_names(reference):
    run, _, _ = reference
    directory = dumps.step_directory(run.dump)
    produced = next(directory.glob("*conv-Conv2d_conv2d-op0.*.output.0.*"))
    consumed = next(directory.glob("*norm-BatchNorm2d_batch_norm-op0.*.input.0.*"))
    assert produced.stat().st_ino == consumed.stat().st_ino


OPTIMIZERS = {
    "adam": "torch.optim.Adam(net.parameters(), lr=1e-2)",
    "adam_foreach": "torch.optim.Adam(net.parameters(), lr=1e-2, foreach=True)",
    "adamw": "torch.optim.AdamW(net.parameters(), lr=1e-2, foreach=False)",
    "adamw_foreach": "torch.optim.AdamW(net.parameters(), lr=1e-2, foreach=True)",
    "adamw_fused": "torch.optim.AdamW(net.parameters(), lr=1e-2, fused=True)",
    "sgd_momentum": "torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)",
}

TWO_STEPS = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    optimizer = {optimizer}
    saved = {{}}
    for step in range(2):
        optimizer.zero_grad()
        net(torch.ones(3, 4) * (step + 1)).square().sum().backward()
        saved[f"before{{step}}"] = net[0].weight.detach().clone().numpy()
        saved[f"grad{{step}}"] = net[0].weight.grad.clone().numpy()
        for key, value in optimizer.state.get(net[0].weight, {{}}).items():
            if isinstance(value, torch.Tensor):
                saved[f"{{key}}{{step}}"] = value.clone().numpy()
        optimizer.step()
        saved[f"after{{step}}"] = net[0].weight.detach().clone().numpy()
    import numpy
    numpy.savez("kept.npz", **saved)
"""


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_form_of_an_optimizer_is_seen_with_its_state(name, train, config, tmp_path):
    run = train(TWO_STEPS.format(optimizer=OPTIMIZERS[name]), config(saved_data="tensor"))
    assert run.status == 0, run.stderr
    kept = np.load(tmp_path / "kept.npz")
    found = dumps.tensors(run.dump, 1)
    optimizer_ops = {k: v for k, v in found.items() if "_optimizer-" in k[0]}
    outputs = [v for k, v in optimizer_ops.items() if k[1] == "output"]
    assert any(v.shape == kept["after1"].shape and np.array_equal(v, kept["after1"]) for v in outputs)
    np.testing.assert_array_equal(found["0_weight", "output", 0], kept["before1"])
    np.testing.assert_array_equal(found["0_weight_grad", "output", 0], kept["grad1"])
    for key in ("exp_avg", "exp_avg_sq", "momentum_buffer"):
        if f"{key}1" in kept:
            np.testing.assert_array_equal(found[f"{key}_0_weight", "output", 0], kept[f"{key}1"])


NETWORKS = {
    "transformer": """
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        inputs = (torch.randn(2, 5, 8),)
    """,
    "lstm": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(4, 6, batch_first=True)
                self.out = nn.Linear(6, 2)
            def forward(self, x):
                return self.out(self.lstm(x)[0])
        net = Net()
        inputs = (torch.randn(2, 5, 4),)
    """,
    "gru_cell": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(4, 6)
            def forward(self, x):
                h = x.new_zeros(2, 6)
                for i in range(3):
                    h = self.cell(x[:, i], h)
                return h
        net = Net()
        inputs = (torch.randn(2, 3, 4),)
    """,
}

TRAIN_ANY = """
    import torch
    from torch import nn
    torch.manual_seed(0)
{network}
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(2):
        optimizer.zero_grad()
        net(*inputs).square().mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("name", NETWORKS)
def test_other_kinds_of_network_are_recorded_whole(name, train, config):
    import textwrap

    network = textwrap.indent(textwrap.dedent(NETWORKS[name]), "    ")
    run = train(
        TRAIN_ANY.format(network=network), config(saved_data="statistic", statistic_category=["max", "nan count"])
    )
    assert run.status == 0, run.stderr
    assert dumps.steps(run.dump) == [0, 1]
    order = dumps.execution_order(run.dump)
    assert any(n.startswith("Default/network-") for n in order)
    assert any(n.startswith("Gradients/Default/network-") for n in order)
    assert any(n.startswith("Default/optimizer-AdamW/") for n in order)
    rows = dumps.statistics(run.dump)
    assert {r["Op Name"] for r in rows if r["Op Type"] != "Parameter"} <= set(order)
    assert len(order) == len(set(order))


def test_op_names_are_the_same_in_every_step_and_run(train, config):
    first = train(config=config(saved_data="statistic", statistic_category=["max"]))
    # Operators after the optimizer (the next batch, the last print) close the step and may differ.
    names = [
        [n for n in (row["Op Name"] for row in dumps.statistics(first.dump, step)) if not n.startswith(CLOSING)]
        for step in (1, 2)
    ]
    assert names[0] == names[1]
    assert "Default/network-Small/conv-Conv2d/conv2d-op0" in names[0]


CLOSING = ("Default/randn-", "Default/item-", "data-")

AUTOCAST = """
    import torch
    from torch import nn
    net = nn.Linear(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = net(torch.ones(2, 4))
    out.float().sum().backward()
"""


def test_under_autocast_the_cast_computation_is_the_op(train, config):
    run = train(AUTOCAST, config(saved_data="tensor"))
    assert run.status == 0, run.stderr
    names = {p.name for p in dumps.step_directory(run.dump).glob("Default_*")} | {
        p.name for p in dumps.step_directory(run.dump).glob("linear.*")
    }
    linear = [n for n in names if n.startswith("linear.")]
    assert linear and all("BFloat16" in n for n in linear), linear
    assert any(n.startswith("to.") for n in (p.name for p in dumps.step_directory(run.dump).iterdir()))


CUSTOM_OPS = """
    import sonde, torch


    def define(name):
        @torch.library.custom_op(f"capture::{name}", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return (x + x).clone()

        twice.register_autograd(lambda context, grad: grad + grad)
        return twice


    def are_direct(*operators):  # called without the C++ dispatcher
        return [getattr(operator._opoverload, "_pyobj_dispatcher", None) is not None for operator in operators]


    before = define("before")
    bare = are_direct(before)
    settings = sonde.session.settings("dump")
    settings["common_dump_settings"]["net_name"] = "Net"
    sonde.start(settings)
    x = torch.ones(2, requires_grad=True)
    inside = define("inside")
    inside(before(x)).sum().backward()
    sonde.stop()
    assert are_direct(before, inside, define("after")) == bare * 3
    print(x.grad.tolist())
"""


def test_an_operator_written_in_python_is_one_op_wherever_it_was_defined(train, tmp_path):
    run = train(CUSTOM_OPS)
    assert run.status == 0, run.stderr
    assert "[4.0, 4.0]" in run.stdout
    names = [row["Op Name"] for row in dumps.statistics(tmp_path / "dump", 0)]
    forward = list(dict.fromkeys(name for name in names if not name.startswith("Gradients")))
    assert forward[:4] == [f"Default/{op}-op0" for op in ("ones", "before", "inside", "sum")], names
    assert {"Gradients/Default/Grad_before/add-op0", "Gradients/Default/Grad_inside/add-op0"} <= set(names)


@pytest.mark.parametrize("guard", ["torch.no_grad()", "torch.inference_mode()"])
def test_evaluation_is_graph_one(guard, train, config):
    run = train(
        f"""
        import torch
        net = torch.nn.Linear(2, 2)
        with {guard}:
            for i in range(3):
                net(torch.ones(1, 2) * i)
        """,
        config(saved_data="tensor", iteration="0|2"),
    )
    assert run.status == 0, run.stderr
    assert dumps.steps(run.dump, graph=1) == [0, 2]
    assert dumps.steps(run.dump, graph=0) == []
    np.testing.assert_array_equal(
        dumps.tensors(run.dump, 2, graph=1)["Default_network-Linear_linear-op0", "input", 0], [[2, 2]]
    )
