"""Plug-ins for trainers never stop a training: a host that has changed, or an error of ours, is one line."""

import subprocess
import sys
import textwrap

import pytest

from sonde.plugins.loop import schedule


def execute(source, directory):
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], cwd=directory, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines(), [line for line in run.stderr.splitlines() if line]


def test_a_host_without_the_class_gives_one_line_and_its_events_do_nothing(tmp_path):
    out, lines = execute(
        """
        import sys, types
        sys.modules["transformers"] = types.ModuleType("transformers")
        from sonde.plugins.huggingface import SondeCallback
        callback = SondeCallback()
        callback.on_an_event_of_a_later_version("arguments", state="state")
        callback.on_train_begin("arguments", types.SimpleNamespace(global_step=0), "control")
        print("goes on")
        """,
        tmp_path,
    )
    assert out == ["goes on"]
    assert len(lines) == 1 and "no transformers.TrainerCallback; the training goes on" in lines[0], lines


def test_a_state_without_the_step_gives_one_line(tmp_path):
    out, lines = execute(
        """
        import sys, types
        sys.modules["transformers"] = types.ModuleType("transformers")
        sys.modules["transformers"].TrainerCallback = object
        from sonde.plugins.huggingface import SondeCallback
        callback = SondeCallback()
        callback.recording.start()
        for _ in range(3):
            callback.on_step_begin("arguments", types.SimpleNamespace(), "control")
        print("goes on")
        """,
        tmp_path,
    )
    assert out == ["goes on"]
    assert len(lines) == 1 and "has no attribute 'global_step'; the training goes on" in lines[0], lines


@pytest.mark.parametrize("place", ["'file/dump'", "config={'wrong': 1}"])
def test_a_dump_that_cannot_be_written_and_a_wrong_configuration_do_not_stop_the_loop(place, tmp_path):
    (tmp_path / "file").write_text("")
    out, lines = execute(
        f"""
        import torch
        from sonde.plugins.loop import record
        with record({place}) as recording:
            for _ in range(3):
                torch.ones(2) + 1
                recording.step({{"loss": float("nan")}})
        print("goes on", recording.report)
        """,
        tmp_path,
    )
    assert out == ["goes on None"]
    ours = [line for line in lines if line.startswith("sonde: plugins.loop: ")]
    assert len(ours) == 1 and ours[0].endswith("; the training goes on"), lines
    assert all(line.startswith("sonde: ") for line in lines)


def test_a_second_training_has_a_directory_of_its_own(tmp_path):
    out, _ = execute(
        """
        import torch
        from sonde.plugins.loop import record
        for value in (-1.0, 1.0):
            with record("dump") as recording:
                torch.ones(1).mul(value).log()
                recording.step()
            print(recording.report.is_bad, recording.report.dump.rpartition("/")[2])
        """,
        tmp_path,
    )
    assert out[1] == "False dump-2" and out[0].endswith(" dump"), out


def test_a_running_session_gets_the_steps_and_is_not_ended(tmp_path):
    out, _ = execute(
        """
        import sonde, torch
        from sonde.plugins.loop import record
        sonde.start(sonde.session.settings("whole"))
        network = torch.nn.Linear(2, 2)
        with record("other") as recording:
            for _ in range(3):
                network(torch.ones(2)).sum().backward()
                recording.step()
        print(recording.report.dump.rpartition("/")[2], sonde.session.running())
        """,
        tmp_path,
    )
    assert out == ["whole True"]


@pytest.mark.parametrize("skip_first", [0, 2])
def test_a_schedule_chooses_the_steps_that_torch_profiler_records(skip_first):
    torch = pytest.importorskip("torch")
    numbers = {"wait": 2, "warmup": 1, "active": 3, "repeat": 2, "skip_first": skip_first}
    ours, theirs = schedule(**numbers), torch.profiler.schedule(**numbers)
    recorded = (torch.profiler.ProfilerAction.RECORD, torch.profiler.ProfilerAction.RECORD_AND_SAVE)
    assert [ours(step) for step in range(20)] == [theirs(step) in recorded for step in range(20)]
    with pytest.raises(ValueError):
        schedule(active=0)
