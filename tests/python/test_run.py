"""`sonde run` and `sonde info`, as users see them."""

import importlib.metadata
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from processes import python


def test_a_training_runs_under_a_configuration_and_is_reported(sonde, script, config, dump):
    run = sonde("run", "--config", config(), "--", sys.executable, script())
    assert run.status == 0, run.stderr
    assert "trained" in run.stdout
    assert str(dump) in run.stderr
    assert f"sonde ls {dump}" in run.stderr
    assert (dump / "rank_0" / "Net" / "0" / "2" / "statistic.csv").exists()


def test_a_module_runs_under_options_without_a_file(sonde, script, dump):
    script(name="training.py")
    run = sonde("run", "--out", dump, "--iteration", "1", "--", sys.executable, "-m", "training")
    assert run.status == 0, run.stderr
    assert sorted(p.name for p in (dump / "rank_0" / "Net" / "0").iterdir()) == ["1"]


def test_the_two_closing_lines_of_a_training_with_evaluation_are_two_lines(sonde, script, dump):
    source = """
        import torch
        layer = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(2):
            layer(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        with torch.no_grad():
            layer.eval()(torch.ones(1, 2))
    """
    run = sonde("run", "--out", dump, "--", *python(), script(source))
    assert run.status == 0, run.stderr
    lines = [line for line in run.sonde_lines if "recorded" in line or "evaluation counts" in line]
    assert len(lines) == 2, run.stderr
    assert "\\n" not in run.stderr


@pytest.mark.parametrize("divisor", [0, 1])
def test_first_bad_is_named_where_something_is_not_finite(sonde, script, dump, divisor):
    run = sonde("run", "--out", dump, "--", *python(), script(f"import torch\ntorch.ones(2) / {divisor}\n"))
    assert run.status == 0, run.stderr
    assert (f"sonde first-bad {dump}" in run.stderr) == (divisor == 0), run.stderr
    assert ("first bad value in step 0: Default/div-op0:output.0" in run.stderr) == (divisor == 0), run.stderr


def test_masks_alone_are_no_bad_value(sonde, script, dump):
    source = """
        import torch
        mask = torch.full((4, 4), float("-inf")).triu(1)
        layer = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        (layer(torch.ones(4, 4)) + mask).softmax(-1).square().sum().backward()
        optimizer.step()
    """
    run = sonde("run", "--out", dump, "--", *python(), script(source))
    assert run.status == 0, run.stderr
    assert "no NaN or infinity that matters" in run.stderr
    assert f"sonde first-bad {dump}" not in run.stderr


def test_the_next_command_is_the_recorded_one(sonde, script, dump):
    program = script("import sys, torch\ntorch.ones(2) / int(sys.argv[1])\n")
    command = [*python(fresh=True), str(program), "0", "two words"]
    assert sonde("run", "--out", dump, "--", *command).status == 0
    said = sonde("first-bad", dump).stdout
    assert f"sonde run --config next.json -- {shlex.join(map(str, command))}\n" in said, said


@pytest.mark.parametrize("child", [False, True])
def test_without_sonde_run_the_command_is_that_of_the_process(sonde, script, config, dump, child):
    divide = "import torch\ntorch.nn.Linear(1, 1)(torch.ones(1) / 0).sum().backward()\n"
    spawned = f"""
        import multiprocessing

        def main():
            exec({divide!r})

        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=main)
            process.start()
            process.join()
        """
    command = [sys.executable, str(script(spawned if child else divide)), "-c", "two words"]
    environment = {**os.environ, "MINDSPORE_DUMP_CONFIG": str(config(saved_data="statistic"))}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    said = sonde("first-bad", dump).stdout
    assert f"sonde run --config next.json -- {shlex.join(command)}\n" in said, said


def test_a_second_run_into_a_directory_is_warned_of_and_never_mixed_with_the_first(sonde, script, dump):
    other = ("--saved-data", "tensor", "--iteration", "0")
    first, second = (sonde("run", "--out", dump, *plan, "--", *python(), script()) for plan in ((), other))
    assert "warning" not in first.stderr
    assert f"warning: '{dump}' contains an earlier run; this one is added to it" in second.stderr
    assert second.status == 0
    runs = f"'{dump}' contains the same steps of 2 runs: run 0 (statistic, 3 steps), run 1 (tensor, 1 step)"
    for verb in ("ls", "stats", "first-bad"):
        asked = sonde(verb, dump)
        assert asked.status == 0 and runs in asked.stderr, asked.stderr
    table = sonde("stats", dump, "--step", "0").stdout.splitlines()
    assert table[0].split()[0] == "run" and {line.split()[0] for line in table[1:]} == {"0", "1"}
    tensors = json.loads(sonde("stats", dump, "--step", "0", "--json").stdout)["tensors"]
    assert {tensor.get("run", 0) for tensor in tensors} == {0, 1}
    compared = sonde("compare", dump, dump)
    assert compared.status == 0 and runs in compared.stderr, compared.stderr
    assert "only run 1, the last, is compared" in compared.stderr


def test_kernels_choose_operators(sonde, script, dump):
    run = sonde("run", "--out", dump, "--kernels", "linear", "--kernels", "relu", "--", *python(), script())
    assert run.status == 0, run.stderr
    rows = (dump / "rank_0" / "Net" / "0" / "0" / "statistic.csv").read_text().splitlines()[1:]
    types = {row.split(",")[0] for row in rows}
    assert {"linear", "relu"} <= types
    assert "conv2d" not in types


@pytest.mark.parametrize("status", [0, 1, 7])
def test_the_status_of_the_command_is_passed_on(sonde, dump, status):
    assert sonde("run", "--out", dump, "--", "sh", "-c", f"exit {status}").status == status


def test_arguments_of_the_command_are_left_alone(sonde, dump):
    source = "import sys; print(sys.argv[1:])"
    run = sonde(
        "run", "--out", dump, "--", sys.executable, "-c", source, "--out", "x", "--json", "--", "-h", "[1,2]", "[]", ""
    )
    assert run.stdout == "['--out', 'x', '--json', '--', '-h', '[1,2]', '[]', '']\n"


def test_a_bad_configuration_stops_before_the_command(sonde, config, tmp_path):
    run = sonde("run", "--config", config(dump_mode=5, net_name="a b"), "--", "touch", tmp_path / "launched")
    assert run.status == 2
    assert "dump_mode" in run.stderr
    assert "net_name" in run.stderr
    assert not (tmp_path / "launched").exists()


def test_without_anything_to_record_it_says_what_to_give(sonde):
    run = sonde("run", "--", "true")
    assert run.status == 2
    assert "--config FILE or --out DIRECTORY" in run.stderr


def test_a_configuration_in_the_environment_is_used(sonde, script, config, dump):
    run = sonde("run", "--", *python(), script(), MINDSPORE_DUMP_CONFIG=config())
    assert run.status == 0, run.stderr
    assert (dump / "rank_0").is_dir()


def test_a_command_that_does_not_exist_is_named(sonde, dump):
    run = sonde("run", "--out", dump, "--", "no-such-command")
    assert run.status == 127
    assert "no-such-command" in run.stderr


def test_a_program_that_never_imports_torch_is_named_in_the_report(sonde, dump):
    run = sonde("run", "--out", dump, "--", sys.executable, "-c", "print('done')")
    assert run.status == 0
    assert run.stdout == "done\n"
    assert "nothing was recorded" in run.stderr
    assert "when PyTorch is imported" in run.stderr
    assert not dump.exists()


def test_a_failing_training_keeps_its_status_and_what_was_recorded(sonde, script, dump):
    source = """
        import torch
        layer = torch.nn.Linear(2, 2)
        layer(torch.ones(1, 2))
        layer(torch.ones(1, 2))
        raise ValueError("the training's own")
    """
    run = sonde("run", "--out", dump, "--", *python(), script(source))
    assert run.status == 1
    assert "the training's own" in run.stderr
    assert "exited with status 1" in run.stderr
    assert (dump / "rank_0" / "Net").is_dir()


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_signals_go_through_to_the_command(tmp_path, sonde, dump, number):
    del sonde  # checked that the command is there
    number = signal.Signals[number]
    waiting = f"""
import os, signal, sys, time
def received(number, frame):
    print("received", number, flush=True)
    sys.exit(5)
signal.signal({int(number)}, received)
os.write(1, b"ready\\n")  # unlike print(), which a print() of the handler must not interrupt
for _ in range(600):
    time.sleep(0.1)  # one that begins just after the signal does not see it
"""
    from conftest import CLI

    command = [CLI, "run", "--out", str(dump), "--", sys.executable, "-c", waiting]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert out == f"received {int(number)}\n"
    assert process.returncode == 5, err


def test_a_command_ended_by_a_signal_is_reported_as_a_shell_would(sonde, dump):
    run = sonde("run", "--out", dump, "--", "sh", "-c", "kill -KILL $$")
    assert run.status == 128 + signal.SIGKILL
    assert "ended by signal 9" in run.stderr


def test_nothing_is_left_in_the_temporary_directory(sonde, dump, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    sonde("run", "--out", dump, "--", "true", TMPDIR=temporary)
    assert os.listdir(temporary) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user: runs as root")
@pytest.mark.parametrize("case", ["a directory of another user", "a link of another user", "a link in one of theirs"])
def test_the_temporary_directory_is_not_where_another_user_could_exchange_it(sonde, dump, tmp_path, case):
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir()
    theirs.mkdir()
    (theirs / "link").symlink_to(mine)
    os.lchown(theirs / "link", 65534, 65534)
    if case != "a link of another user":
        os.chown(theirs, 65534, 65534)
    chosen = theirs if case == "a directory of another user" else theirs / "link"
    show = ["sh", "-c", "echo $SONDE_CONFIG"]
    config = sonde("run", "--out", dump, "--", *show, TMPDIR=chosen).stdout
    assert "theirs" not in config and config.startswith("/tmp/" if chosen == theirs else f"{mine}/"), config


def test_info_shows_build_machine_and_python(sonde):
    run = sonde("info", "--json", "--python", sys.executable, SONDE_KERNEL="scalar", CXX="some compiler")
    info = json.loads(run.stdout)
    assert info["kernel"] == "scalar"
    assert info["cores"] == len(os.sched_getaffinity(0))
    assert info["python"]["torch"] == importlib.metadata.version("torch")
    assert {name: info["environment"][name] for name in ("SONDE_KERNEL", "CXX")} == {
        "SONDE_KERNEL": "scalar",
        "CXX": "some compiler",
    }


def test_info_explains_variables(sonde):
    run = sonde("info", SONDE_KERNEL="scalar")
    lines = run.stdout.splitlines()
    place = next(i for i, line in enumerate(lines) if line.split() == ["SONDE_KERNEL", "scalar"])
    assert "forces one kernel" in lines[place + 1]
    assert any(line.split() == ["kernel", "scalar"] for line in lines)


@pytest.mark.parametrize("off", ["1", "0"])
def test_info_shows_no_plan_where_the_environment_turns_sonde_off(sonde, config, off):
    info = json.loads(sonde("info", "--json", SONDE_CONFIG=str(config()), SONDE_OFF=off).stdout)
    assert (info["plan"] is None) == (off == "1")
    assert info["environment"]["SONDE_OFF"] == off


def test_a_run_that_the_environment_turns_off_says_why_nothing_was_recorded(sonde, dump):
    run = sonde("run", "--out", dump, "--", sys.executable, "-c", "import torch", SONDE_OFF="1")
    assert run.status == 0
    assert "SONDE_OFF is set" in run.stderr
    assert not dump.exists()


def test_info_names_a_python_that_is_not_there(sonde):
    run = sonde("info", "--python", "/no/such/python")
    assert run.status == 0
    assert "cannot run '/no/such/python'" in run.stdout


def test_a_report_waits_for_no_grandchild(sonde, dump):
    started = time.monotonic()
    run = sonde("run", "--out", dump, "--", "sh", "-c", "sleep 30 >/dev/null 2>&1 & exit 4")
    assert run.status == 4
    assert time.monotonic() - started < 25
