"""Modes that keep only some operators: with an overflow, with an exception, flagged by set_dump(); and forms of
tensors."""

import json
import shutil
import subprocess

import dumps
import numpy as np
import pytest
from conftest import CLI

# A training that can overflow, throw, or neither. It prints a digest of all its results.
TRAINING = """
    import hashlib
    import sys
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    scale = 1.0


    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 4, 3)
            self.fc = nn.Linear(4 * 6 * 6, 3)

        def forward(self, x):
            y = self.conv(x).flatten(1) + 0
            y.mul_(scale)
            return self.fc(y)


    network = Small()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1, fused=True)
    {before}
    for step in range(4):
        {inside}
        optimizer.zero_grad()
        loss = network(torch.randn(2, 1, 8, 8)).square().mean()
        loss.backward()
        optimizer.step()
    digest = hashlib.md5(b"".join(p.detach().numpy().tobytes() for p in network.parameters())).hexdigest()
    print("trained", loss.item(), digest)
"""


def training(inside="pass", before=""):
    return TRAINING.replace("{inside}", inside).replace("{before}", before)


OVERFLOW = training("scale = 1e38 if step == 2 else 1.0")


def names(dump, iteration, graph=0):
    """Names of the operators that have files in a step."""
    return {name for name, _, _ in dumps.tensors(dump, iteration, graph)}


# --- op_debug_mode 3 --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def overflow(compare):
    return compare(OVERFLOW, saved_data="full", op_debug_mode=3, statistic_category=["max", "nan count"])


def test_only_ops_that_overflowed_are_recorded(overflow):
    assert dumps.steps(overflow.dump)[0] == 2
    found = names(overflow.dump, 2)
    assert "Default_network-Small_mul_-op0" not in found, "1e38 times something below one is finite"
    first = next(line for line in overflow.recorded.sonde_lines if "overflowed" in line)
    assert "square-op0" in first or "linear-op0" in first, first
    assert "train.py:" in first
    for (name, io, slot), array in dumps.tensors(overflow.dump, 2).items():
        outputs = [
            value for (n, kind, _), value in dumps.tensors(overflow.dump, 2).items() if n == name and kind == "output"
        ]
        assert any(not np.isfinite(value).all() for value in outputs), (name, io, slot, array.shape)


def test_what_overflowed_has_its_inputs_and_outputs_and_rows(overflow):
    rows = dumps.statistics(overflow.dump, 2)
    files = dumps.tensors(overflow.dump, 2)
    assert {row["IO"] for row in rows} == {"input", "output"}
    assert len(rows) == len(files)
    assert not list((overflow.dump / "rank_0" / "Net" / "0" / "2").glob("Parameter.*"))


def test_what_an_op_overwrote_is_there_as_it_was_before(train, config, dump):
    source = training(
        "scale = float('inf') if step == 1 else 1.0",
        "torch.Tensor.mul_  # the op that overflows writes its own argument",
    )
    train(source, config(saved_data="tensor", op_debug_mode=3))
    found = dumps.tensors(dump, 1)
    before = found["Default_network-Small_mul_-op0", "input", 0]
    after = found["Default_network-Small_mul_-op0", "output", 0]
    assert np.isfinite(before).all()
    assert not np.isfinite(after).all()
    assert np.array_equal(after, before * np.float32("inf"), equal_nan=True)
    assert "Default_network-Small_add-op0" not in names(dump, 1)


def test_a_dump_says_that_only_overflows_were_kept_without_its_configuration(overflow, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(overflow.dump, copy)
    for file in copy.rglob(".dump_metadata/*.json"):
        file.unlink()
    answers = []
    for dump in (overflow.dump, copy):
        command = [CLI, "watch", dump, "--condition", "operator_overflow"]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 1
        found = subprocess.run([CLI, "first-bad", dump, "--json"], capture_output=True, text=True, check=False)
        answers.append(found.stdout.replace(str(dump), "DUMP"))
    assert answers[0] == answers[1] != ""


def test_a_training_that_overflows_computes_the_same(overflow):
    assert overflow.bare.stdout == overflow.recorded.stdout


def test_nothing_overflowed_is_said_and_no_error(compare):
    run = compare(training(), saved_data="tensor", op_debug_mode=3)
    assert run.bare.stdout == run.recorded.stdout
    assert run.recorded.status == 0
    assert any("ops of 4 steps looked at, none overflowed" in line for line in run.recorded.sonde_lines)
    assert not list(run.dump.rglob("*.npy"))


OVERFLOWS_ONCE = """
import torch
import sonde

for step in range(2):
    s = torch.exp(torch.full((3, 4), 100.0 if step else 1.0))
    print((s / (1 + s)).sum().item())
    sonde.step()
"""


def test_overflow_number_ends_the_look(train, config, dump):
    run = train(OVERFLOW, config(saved_data="tensor", op_debug_mode=3, overflow_number=2))
    assert sum(len(names(dump, step)) for step in dumps.steps(dump)) == 2
    assert any("overflow_number 2 was reached" in line for line in run.sonde_lines)


def test_an_overflow_whose_readers_were_not_looked_at_any_more_is_not_healthy(train, config, dump):
    train(OVERFLOWS_ONCE, config(saved_data="tensor", op_debug_mode=3, overflow_number=1))
    for indexed in (False, True):
        if indexed:
            subprocess.run([CLI, "index", dump], capture_output=True, check=True)
        found = subprocess.run([CLI, "first-bad", dump], capture_output=True, text=True, check=False)
        assert found.returncode == 1, found.stdout
        assert found.stdout.startswith("first bad: Default/exp-op0"), found.stdout


def test_overflow_honours_iteration(train, config, dump):
    run = train(OVERFLOW, config(saved_data="tensor", op_debug_mode=1, iteration="0-1"))
    assert any("ops of 2 steps looked at, none overflowed" in line for line in run.sonde_lines)


# --- op_debug_mode 4 --------------------------------------------------------------------------------------------------

THROWERS = {
    "an operator": (
        "if step == 2: network.fc = nn.Linear(3, 3)",
        "",
        "Default_network-Small_fc-Linear_linear-op0",
        3,
        2,
    ),
    "a custom operator": (
        "if step == 2: torch.ops.mine.bad(torch.ones(3), torch.zeros(2))",
        """torch.library.define("mine::bad", "(Tensor a, Tensor b) -> Tensor")
    def bad(a, b):
        raise ValueError("no such thing")
    torch.library.impl("mine::bad", "CPU", bad)""",
        "Default_bad-op0",
        2,
        1,  # before the model is called: the step that is ending
    ),
    "the forward of a Function": (
        "if step == 2: Bad.apply(torch.ones(3, requires_grad=True))",
        """class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            raise ValueError("no such thing")""",
        "Default_Bad-op0",
        1,
        1,  # before the model is called: the step that is ending
    ),
    "the backward of a Function": (
        "if step == 2: (Bad.apply(torch.ones(3, requires_grad=True)) * 3).sum().backward()",
        """class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("no such thing")""",
        "Gradients_Default_Grad_Bad_BadBackward-op0",
        1,
        1,  # before the model is called: the step that is ending
    ),
}


@pytest.mark.parametrize("what", THROWERS)
def test_the_inputs_of_what_threw_are_on_disk_before_the_error_is_seen(what, train, config, dump):
    inside, before, name, inputs, step = THROWERS[what]
    # The process ends as soon as the error is seen: nothing can be written afterwards.
    source = training(inside, before)
    source = source.replace(
        "    for step in", "    import os\n    sys.excepthook = lambda *_: os._exit(7)\n    for step in"
    )
    run = train(source, config(saved_data="tensor", op_debug_mode=4))
    assert run.status == 7, run.stderr
    assert dumps.steps(dump) == [step]
    found = dumps.tensors(dump, step)
    assert {name for name, _, _ in found} == {name}
    assert [(io, slot) for _, io, slot in sorted(found)] == [("input", slot) for slot in range(inputs)]


@pytest.fixture(params=["op_debug_mode", "lite_exception"])
def exception_config(request, config, tmp_path, dump):
    """The two configurations that record the operator that throws."""
    if request.param == "op_debug_mode":
        return config(saved_data="tensor", op_debug_mode=4)
    dump.mkdir()
    path = tmp_path / "acl.json"
    path.write_text(json.dumps({"dump": {"dump_path": str(dump), "dump_scene": request.param}}))
    return path


@pytest.mark.parametrize(
    "case",
    [
        ("torch.matmul(torch.ones(2, 3), torch.ones(2, 3))", "Default/matmul-op0"),
        ("torch.ones(3).index_select(0, torch.tensor([5]))", "Default/index_select-op0"),
    ],
)
def test_the_first_operator_of_a_program_without_modules_may_throw(case, exception_config, sonde, dump, train):
    line, name = case
    run = train(f"import torch\n{line}\n", exception_config)
    assert run.status == 1
    assert any(f"{name} (" in text and "train.py:2) threw an exception" in text for text in run.sonde_lines)
    ops = json.loads(sonde("ls", dump, "--ops", "--json").stdout)["ops"]
    assert [(op["op_name"], op["tensors"]) for op in ops if op["tensors"] > 0] == [(name, 2)]


def test_the_closing_line_names_op_line_and_error(train, config):
    inside, before, *_ = THROWERS["an operator"]
    run = train(training(inside, before), config(saved_data="tensor", op_debug_mode=4))
    assert run.status == 1
    assert any(
        "linear-op0" in line and "train.py:" in line and "threw an exception" in line for line in run.sonde_lines
    )
    assert any("RuntimeError: mat1 and mat2 shapes cannot be multiplied" in line for line in run.sonde_lines)


def test_an_op_that_fails_half_way_shows_what_it_overwrote_as_it_was(train, config, dump):
    before = "x = torch.arange(6.0)"
    inside = """
        if step == 1:
            try:
                x.index_add_(0, torch.tensor([0, 1, 99]), torch.ones(3))
            except (RuntimeError, IndexError):
                print("caught")"""
    run = train(training(inside, before), config(saved_data="tensor", op_debug_mode=4))
    assert run.status == 0 and "caught" in run.stdout and "trained" in run.stdout
    found = dumps.tensors(dump, 0) if 0 in dumps.steps(dump) else dumps.tensors(dump, 1)
    assert np.array_equal(found["Default_index_add_-op0", "input", 0], np.arange(6.0))
    assert found["Default_index_add_-op0", "input", 1].tolist() == [0, 1, 99]


def test_nothing_threw_is_said_and_leaves_no_file(compare):
    run = compare(training(), saved_data="tensor", op_debug_mode=4)
    assert run.bare.stdout == run.recorded.stdout
    assert any("ops of 4 steps ran, none threw" in line for line in run.recorded.sonde_lines)
    assert not [path for path in run.dump.rglob("*") if path.is_file()]


def test_ops_of_threads_that_throw_are_all_found(train, config, dump):
    source = """
        import threading
        import torch
        import sonde
        torch.set_num_threads(1)

        def work(rows):
            for i in range(50):
                try:
                    torch.mm(torch.ones(rows, 2), torch.ones(3, rows))
                except RuntimeError:
                    pass

        threads = [threading.Thread(target=work, args=(rows,)) for rows in (4, 5)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    """
    train(source, config(sonde_settings={"step": "manual"}, saved_data="tensor", op_debug_mode=4))
    found = dumps.tensors(dump, 0)
    shapes = [array.shape for (name, _, slot), array in found.items() if "_mm-op" in name and slot == 0]
    assert sorted(shapes) == [(4, 2)] * 50 + [(5, 2)] * 50


# --- dump_mode 2 ------------------------------------------------------------------------------------------------------

FLAGGED = """
    import torch
    from torch import nn
    import sonde

    torch.manual_seed(0)
    torch.set_num_threads(1)


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.b = nn.Linear(4, 4)

        def forward(self, x):
            return torch.relu(self.b(self.a(x))) - 1


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Block()
            self.second = Block()

        def forward(self, x):
            return helper(self.second(self.first(x)))


    def helper(x):
        return deeper(x) * 2


    def deeper(x):
        return torch.tanh(x)


    net = Net()
    for step in range(3):
        {flags}
        net(torch.randn(2, 4)).sum().backward()
        with torch.no_grad():
            torch.sin(torch.ones(2))
"""


def flagged(train, config, dump, flags):
    run = train(FLAGGED.replace("{flags}", flags), config(dump_mode=2, saved_data="tensor"))
    assert run.status == 0, run.stderr
    return run, {step: names(dump, step) for step in dumps.steps(dump)}


def test_a_flagged_module_is_recorded_forward_and_backward_with_what_is_in_it(train, config, dump):
    _, found = flagged(train, config, dump, "if step == 0: sonde.set_dump(net.second)")
    scope = "Default_network-Net_second-Block"
    assert {
        f"{scope}_a-Linear_linear-op0",
        f"{scope}_b-Linear_linear-op0",
        f"{scope}_relu-op0",
        f"{scope}_sub-op0",
    } <= found[1]
    assert any(name.startswith(f"Gradients_{scope}_a-Linear_") for name in found[1])
    assert all(scope in name for name in found[1]), found[1]


def test_flags_can_be_taken_away_inside_and_later(train, config, dump):
    flags = "step == 0 and (sonde.set_dump(net), sonde.set_dump(net.first, False)); "
    flags += "step == 2 and sonde.set_dump(net, False)"
    _, found = flagged(train, config, dump, flags)
    assert any("second-Block" in name for name in found[1])
    assert not any("first-Block" in name for name in found[1])
    assert 2 not in found or not found[2]


def test_a_flagged_function_is_what_is_called_inside_it(train, config, dump):
    _, found = flagged(train, config, dump, "sonde.set_dump(helper)")
    forward = {name for name in found[1] if not name.startswith("Gradients")}
    assert forward == {"Default_network-Net_tanh-op0", "Default_network-Net_mul-op0"}
    assert any("tanh_backward" in name for name in found[1])


def test_a_flagged_type_is_its_ops_and_their_backward(train, config, dump):
    _, found = flagged(train, config, dump, "sonde.set_dump('Tanh')")
    assert {name.rsplit("_", 1)[-1].split("-")[0] for name in found[1]} == {"tanh", "backward"}


def test_a_type_can_be_said_in_several_ways():
    import torch

    from sonde import flags

    for target in ("Tanh", torch.ops.aten.tanh, torch.ops.aten.tanh.default, torch.tanh, torch.Tensor.tanh):
        assert flags._operator_name(target) == "tanh"
    assert flags._operator_name(torch.nn.functional.conv2d) == "conv2d"


def test_a_dump_scope_flags_what_runs_inside(train, config, dump):
    source = FLAGGED.replace(
        "return deeper(x) * 2", "with sonde.dump_scope():\n            y = x + 3\n        return y * 2"
    )
    run = train(source.replace("{flags}", "pass"), config(dump_mode=2, saved_data="tensor"))
    assert run.status == 0, run.stderr
    assert {name for name in names(dump, 1) if not name.startswith("Gradients")} == {"Default_network-Net_add-op0"}


def test_nothing_flagged_is_reported(train, config, dump):
    run, _ = flagged(train, config, dump, "pass")
    assert any("nothing was recorded" in line and "sonde.set_dump()" in line for line in run.sonde_lines)


def test_set_dump_refuses_what_it_cannot_flag():
    import sonde

    for target in (3, None, "", object(), int):
        with pytest.raises(ValueError, match=r"target must be a torch\.nn\.Module, a function or an operator"):
            sonde.set_dump(target)
    with pytest.raises(ValueError, match="enabled must be a bool, but got int"):
        sonde.set_dump("conv2d", 1)


# --- forms of tensors -------------------------------------------------------------------------------------------------

FORMS = """
    import torch
    import sonde
    torch.set_num_threads(1)
    with torch.no_grad():
        x = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
        last = x.to(memory_format=torch.channels_last)
        torch.neg(last)
        torch.abs(x)
        torch.sin(x.transpose(1, 3))
        torch.cos(torch.ones(3))
        torch.exp(torch.zeros(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d))
"""


def test_a_sample_is_the_first_elements_in_c_order(train, config, dump):
    settings = config({"enable": True, "sample_mode": 1, "sample_num": 7}, {"step": "manual"}, saved_data="full")
    train(FORMS, settings)
    found = dumps.tensors(dump, 0)
    x = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    for name, whole in (("neg", -x), ("abs", x), ("sin", np.sin(x.transpose(0, 3, 2, 1)))):
        array = found[f"Default_{name}-op0", "output", 0]
        assert array.shape == (7,)
        np.testing.assert_allclose(array, whole.reshape(-1)[:7].astype(np.float32), rtol=1e-6)
    assert found["Default_cos-op0", "output", 0].shape == (3,), "not more than sample_num elements"
    row = next(
        row for row in dumps.statistics(dump, 0) if row["Op Name"] == "Default/abs-op0" and row["IO"] == "output"
    )
    assert (row["Shape"], row["Data Size"], row["Max Value"]) == ("[7]", "28", "6")


def test_channels_last_tensors_lie_in_the_file_as_in_memory_without_trans_flag(train, config, dump):
    train(FORMS, config({"enable": True, "trans_flag": False}, {"step": "manual"}, saved_data="tensor"))
    found = dumps.tensors(dump, 0)
    x = np.arange(2 * 3 * 4 * 5.0, dtype=np.float32).reshape(2, 3, 4, 5)
    assert np.array_equal(found["Default_neg-op0", "output", 0], -x.transpose(0, 2, 3, 1))
    assert np.array_equal(found["Default_abs-op0", "output", 0], x)
    assert found["Default_sin-op0", "input", 0].shape == (2, 5, 4, 3), "neither the one nor the other: C order"
    assert found["Default_exp-op0", "output", 0].shape == (2, 4, 5, 6, 3)


# --- run-time control -------------------------------------------------------------------------------------------------


def test_switching_records_what_runs_between_whatever_iteration_says(train, config, dump):
    source = training("step == 1 and sonde.dump_start(); step == 3 and sonde.dump_stop()", "import sonde")
    train(source, config(iteration="0"))
    assert dumps.steps(dump) == [0, 1, 2]
    source = training("step == 2 and sonde.dump_start()", "import sonde; sonde.dump_stop()")
    assert train(source, config(iteration="0", net_name="Late")).status == 0
    assert dumps.steps(dump, net="Late") == [1, 2, 3], "what is left of the step that was open, and all later ones"


def test_a_part_of_a_step_can_be_recorded(train, config, dump):
    source = FLAGGED.replace("{flags}", "step == 0 and sonde.dump_stop()").replace(
        "return deeper(x) * 2", "sonde.dump_start(); y = x + 3; sonde.dump_stop(); return y * 2"
    )
    train(source, config(saved_data="tensor"))
    assert {step: names(dump, step) for step in dumps.steps(dump)}[1] == {"Default_network-Net_add-op0", "data-0"}


def test_steps_are_numbered_on_from_where_the_user_says(train, config, dump):
    train(training("step == 2 and sonde.dump_set_iteration(100)", "import sonde"), config())
    assert dumps.steps(dump) == [0, 1, 100, 101]


def test_initial_iteration_is_the_number_of_the_first_step(train, config, dump):
    train(training(), config(initial_iteration=7, iteration="8|10"))
    assert dumps.steps(dump) == [8, 10]


# --- acl.json ---------------------------------------------------------------------------------------------------------


def test_a_watcher_finds_who_writes_what_was_not_theirs(train, tmp_path, dump):
    source = """
        import torch
        from torch import nn

        torch.set_num_threads(1)


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(4))

            def forward(self, x):
                y = x * 2
                z = y + 1
                y.numpy()[0] = 50  # PyTorch does not see it
                z = z - 3
                y[1:].fill_(7)
                return (z * self.weight).sum()


        net = Net()
        for step in range(2):
            net(torch.arange(4.0)).backward()
    """
    dump.mkdir()
    config = tmp_path / "acl.json"
    entry = {"watcher_nodes": ["Default/network-Net/mul-op0"]}
    settings = {"dump_list": [entry], "dump_path": str(dump), "dump_mode": "output", "dump_scene": "watcher"}
    config.write_text(json.dumps({"dump": settings}))
    run = train(source, config)
    changes = [line for line in run.sonde_lines if "changed in step 0" in line]
    assert len(changes) == 2, run.stderr
    assert "sub-op0" in changes[0] and "train.py:17" in changes[0]
    assert "fill_-op0" in changes[1] and "train.py:18" in changes[1]
    files = [path.name for path in dump.rglob("mul.*")]
    own = [name for name in files if "_To_" not in name]
    assert len(own) == 2, "of each step the watched operator's own"
    for reader in ("add", "sub", "slice", "fill_", "mul-op1"):
        name = reader if "-op" in reader else f"{reader}-op0"
        pair = f"mul.Default_network-Net_{name}_To_Default_network-Net_mul-op0."
        assert sum(file.startswith(pair) for file in files) == 2, (pair, files)


def test_the_life_cycle_of_cann_wants_its_order(train, config, dump):
    source = f"""
        import torch
        from sonde import Error, acl


        def refused(call, *arguments):
            try:
                call(*arguments)
            except Error as error:
                return str(error)


        assert refused(acl.set_dump, "x.json") == "EP0008: aclmdlInitDump must be executed before aclmdlSetDump"
        assert refused(acl.finalize_dump) == "EP0008: aclmdlInitDump must be executed before aclmdlFinalizeDump"
        acl.init_dump()
        assert refused(acl.init_dump) == "EP0008: This API cannot be called repeatedly"
        assert "/nowhere/acl.json" in refused(acl.set_dump, "/nowhere/acl.json")
        acl.set_dump({str(config())!r})
        assert refused(acl.set_dump, {str(config())!r}) == "EP0008: This API cannot be called repeatedly"
        layer = torch.nn.Linear(2, 2)
        layer(torch.ones(1, 2)).sum().backward()
        assert "recorded" in acl.finalize_dump()
        acl.init_dump()
        acl.finalize_dump()
        print("in order")
    """
    run = train(source)
    assert run.stdout == "in order\n", run.stderr
    assert dumps.steps(dump) == [0]


def test_the_life_cycle_refuses_with_the_same_texts_in_python_and_in_c(train, config):
    source = f"""
        import ctypes
        import pathlib

        import sonde
        from sonde import acl

        library = ctypes.CDLL(str(pathlib.Path(sonde.__file__).with_name("libsonde.so")))
        library.sonde_dump_message.restype = ctypes.c_char_p
        path = {str(config())!r}
        refused = set()


        def refuse_alike(name, *arguments):
            in_c = [argument.encode() for argument in arguments]
            assert getattr(library, f"sonde_{{name}}")(*in_c) != 0
            try:
                getattr(acl, name)(*arguments)
            except sonde.Error as error:
                refused.add(str(error))
                assert str(error) == library.sonde_dump_message().decode()
            else:
                assert False, name


        refuse_alike("set_dump", path)
        refuse_alike("finalize_dump")
        acl.init_dump(), library.sonde_init_dump()
        refuse_alike("init_dump")
        acl.finalize_dump(), library.sonde_finalize_dump()
        sonde.start(path)
        refuse_alike("init_dump")
        assert len(refused) == 4
        print("alike")
    """
    run = train(source)
    assert run.stdout == "alike\n", run.stderr
