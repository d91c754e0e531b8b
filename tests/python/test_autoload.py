"""`import torch` with Sonde installed: nothing happens without a request, and no failure of Sonde can make it fail."""

import pathlib
import shutil
import sys

import pytest

import sonde as package
import sonde_autoload
import sonde_early

pytestmark = pytest.mark.cold

IMPORT = "import torch; print('imported', int(torch.ones(2).sum()))"
LOADED = "import sys, torch; print(sorted(m for m in sys.modules if m.split('.')[0] == 'sonde'))"


def test_without_a_variable_nothing_of_ours_is_imported(execute):
    run = execute(sys.executable, "-c", LOADED)
    assert run.stdout.strip() == "[]"
    assert run.stderr == ""


def test_an_empty_variable_is_no_variable(execute):
    run = execute(sys.executable, "-c", LOADED, MINDSPORE_DUMP_CONFIG="", SONDE_CONFIG="")
    assert run.stdout.strip() == "[]"


def test_the_entry_point_imports_only_os_until_there_is_something_to_do(execute):
    source = (
        "import os, sys; before = set(sys.modules); import sonde_autoload; sonde_autoload.start();"
        "print(sorted(set(sys.modules) - before))"
    )
    assert execute(
        sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {site()!r}); {source}"
    ).stdout == ("['sonde_autoload', 'sonde_early']\n")


def test_a_missing_configuration_is_one_line_and_training_goes_on(train, tmp_path):
    run = train(config=tmp_path / "nowhere.json")
    assert run.status == 0
    assert "trained" in run.stdout
    assert len(run.stderr.splitlines()) == 1
    assert "nowhere.json" in run.stderr


def test_all_errors_of_a_configuration_are_reported_and_nothing_is_written(train, config, dump):
    run = train(config=config(dump_mode=7, iteration="x"))
    assert run.status == 0
    assert "trained" in run.stdout
    assert "dump_mode" in run.stderr
    assert "iteration" in run.stderr
    assert not dump.exists()


@pytest.mark.parametrize("missing", ["libsonde.so", "_core*.so", "session.py", "torch.py", "adapter.py"])
def test_a_broken_installation_never_breaks_import_torch(execute, config, tmp_path, missing):
    broken = copy_of_package(tmp_path)
    for path in (broken / "sonde").glob(missing):
        path.unlink()
    run = execute(sys.executable, "-c", IMPORT, PYTHONPATH=broken, MINDSPORE_DUMP_CONFIG=config())
    assert run.stdout == "imported 2\n"
    assert run.status == 0
    assert len(run.stderr.splitlines()) == 1
    assert run.stderr.startswith("sonde: not recording: ")


def test_a_module_that_raises_at_import_never_breaks_import_torch(execute, config, tmp_path):
    broken = copy_of_package(tmp_path)
    (broken / "sonde" / "torch.py").write_text("class Odd(BaseException): pass\nraise Odd('two\\nlines')\n")
    run = execute(sys.executable, "-c", IMPORT, PYTHONPATH=broken, MINDSPORE_DUMP_CONFIG=config())
    assert run.stdout == "imported 2\n"
    assert run.stderr == "sonde: not recording: two lines (Odd)\n"


def test_an_interrupt_while_starting_is_the_users(monkeypatch):
    def interrupted(_framework):
        raise KeyboardInterrupt

    monkeypatch.setattr(sonde_early, "waiting", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sonde_autoload.start()


def test_a_closed_stderr_does_no_harm(execute, tmp_path):
    run = execute("sh", "-c", f'"{sys.executable}" -c "{IMPORT}" 2>&-', MINDSPORE_DUMP_CONFIG=tmp_path / "none.json")
    assert run.stdout == "imported 2\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_started_by_multiprocessing_begin_no_session_without_a_model(train, config, dump, method):
    run = train(
        f"""
        import multiprocessing, sys

        def loaded(_):
            import torch
            torch.nn.ReLU()(torch.ones(100)).sum()
            return sys.modules["sonde"].session.running()

        if __name__ == "__main__":
            with multiprocessing.get_context("{method}").Pool(1) as pool:
                print("in the worker:", pool.map(loaded, [0]))
        """,
        config=config(),
    )
    assert run.stdout == "in the worker: [False]\n", run.stderr
    assert run.status == 0 and not dump.exists() and not run.sonde_lines


def test_the_launcher_of_a_distributed_training_is_left_alone(execute, script, config, dump):
    path = script("import os, sys, torch; print(os.environ['RANK'], 'sonde' in sys.modules)")
    alone = execute(sys.executable, "-X", "importtime", path, MINDSPORE_DUMP_CONFIG=config(), RANK="0")
    assert "sonde.session" in imported(alone)
    launcher = [sys.executable, "-X", "importtime", "-m", "torch.distributed.run", "--nproc-per-node=1", path]
    run = execute(*launcher, MINDSPORE_DUMP_CONFIG=config())
    assert run.stdout == "0 True\n"
    assert "torch" in imported(run)
    assert "sonde.session" not in imported(run)
    assert not dump.exists()


def imported(run):
    """The modules that -X importtime saw; workers of a launcher are started without it."""
    return {line.split("|")[-1].strip() for line in run.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("python train.py --lr 1", "train.py"),
        ("python -u -W ignore /usr/bin/torchrun train.py", "torchrun"),
        ("python -m torch.distributed.run train.py", "torch.distributed.run"),
        ("python -um torch.distributed.run train.py", "torch.distributed.run"),
        ("python -Xdev -Wdefault -mtorch.distributed.run", "torch.distributed.run"),
        ("python -c print(1) torchrun", ""),
        ("python - torchrun", ""),
        ("python", ""),
    ],
)
def test_the_program_is_found_behind_the_interpreters_options(command, program):
    assert sonde_early.program_of(command.split()) == program


def test_a_compile_worker_of_inductor_is_left_alone(monkeypatch):
    worker = "/lib/torch/_inductor/compile_worker/__main__.py"
    monkeypatch.setattr(sys, "orig_argv", ["python", worker, "--kind=fork"])
    assert sonde_early.not_the_training() == "a compile worker of Inductor"


def test_a_check_of_the_processor_by_inductor_is_left_alone(monkeypatch):
    # PyTorch 2.6, torch/_inductor/cpu_vec_isa.py
    check = '\nimport torch\nfrom ctypes import cdll\ncdll.LoadLibrary("/tmp/isa.so")\n'
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", check])
    assert sonde_early.not_the_training() == "a check of the processor by Inductor"
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "import torch\nimport train\n"])
    assert sonde_early.not_the_training() is None


@pytest.mark.parametrize(
    "command",
    [
        "python /bin/accelerate launch train.py",
        "python /bin/accelerate-launch --num_processes 2 train.py",
        "python -m accelerate.commands.launch train.py",
        "python -m accelerate.commands.accelerate_cli launch train.py",
        "python /bin/torchrun --nproc-per-node 2 train.py",
        "python -m torch.distributed.run train.py",
        "python /bin/fabric run train.py",
        "python -m lightning.fabric.cli run train.py",
        "python /bin/deepspeed train.py",
        "python -m deepspeed.launcher.launch train.py",
        "python /bin/composer -n 2 train.py",
    ],
)
def test_launchers_are_left_alone_and_what_they_launch_is_not(command, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("RANK_ID", raising=False)
    monkeypatch.setattr(sys, "orig_argv", command.split())
    assert sonde_early.not_the_training() == "the launcher of a distributed training"
    monkeypatch.setattr(sys, "orig_argv", ["python", "-u", "train.py"])
    assert sonde_early.not_the_training() is None


def test_a_training_is_not_taken_for_a_helper(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "train.py"])
    assert sonde_early.not_the_training() is None


def site():
    return str(pathlib.Path(sonde_autoload.__file__).parent)


def copy_of_package(tmp_path):
    """The installed package, without the adapter's library, in a directory for PYTHONPATH."""
    copy = tmp_path / "copy"
    installed = pathlib.Path(package.__file__).parent
    shutil.copytree(installed, copy / "sonde", ignore=shutil.ignore_patterns("__pycache__"))
    for module in (sonde_autoload, sonde_early):
        shutil.copy(module.__file__, copy)
    return copy
