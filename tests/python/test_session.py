"""sonde.start, stop, step and capture: the functions for notebooks."""

import sys

import pytest

import sonde

TRAIN = """
    import torch
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        layer(torch.ones(1, 2)).sum().backward()
        optimizer.step()
"""


def test_importing_sonde_imports_no_framework(execute):
    run = execute(sys.executable, "-c", "import sys, sonde; print('torch' in sys.modules, 'numpy' in sys.modules)")
    assert run.stdout == "False False\n"


@pytest.mark.parametrize("before", [True, False])
def test_start_works_before_and_after_torch_is_imported(train, config, dump, before):
    start = f"import sonde\nsonde.start({str(config())!r})\n"
    source = (start + "import torch\n" if before else "import torch\n" + start) + dedented(TRAIN)
    run = train(source + "print(sonde.stop())\n")
    assert run.status == 0, run.stderr
    assert (dump / "rank_0" / "Net" / "0" / "1" / "statistic.csv").exists()
    assert str(dump) in run.stdout


def test_start_raises_with_every_error_of_the_configuration(config, dump):
    with pytest.raises(sonde.Error) as raised:
        sonde.start(config(dump_mode=9, saved_data="everything"))
    assert "dump_mode" in str(raised.value)
    assert "saved_data" in str(raised.value)
    assert not dump.exists()


def test_a_second_start_is_refused(train, config):
    run = train(f"import sonde\nsonde.start({str(config())!r})\nsonde.start({str(config())!r})")
    assert run.status == 1
    assert "one is running; call sonde.stop() first" in run.stderr


def test_stop_without_start_does_nothing():
    assert sonde.stop() == ""


def test_a_step_that_ends_before_the_session_starts_is_not_counted(train, config, dump):
    source = f"""
        import sonde
        sonde.step()
        sonde.step()
        sonde.start({str(config(sonde_settings={"step": "manual"}))!r})
    """
    run = train(dedented(source) + dedented(TRAIN))
    assert run.status == 0, run.stderr
    assert [path.name for path in (dump / "rank_0" / "Net" / "0").iterdir()] == ["0"]


def test_a_session_can_follow_a_session(train, config, tmp_path):
    (tmp_path / "second").mkdir()
    source = dedented(f"""
        import sonde
        for name in ("first", "second"):
            sonde.start(sonde.session.settings({str(tmp_path)!r} + "/" + name))
    """)
    run = train(source + indented(TRAIN) + "    sonde.stop()\n")
    assert run.status == 0, run.stderr
    for name in ("first", "second"):
        assert (tmp_path / name / "rank_0" / "Net" / "0" / "0" / "statistic.csv").exists()


def test_capture_records_the_block_and_says_where(train, dump):
    source = f"import sonde\nwith sonde.capture(out={str(dump)!r}, kernels='linear') as session:\n"
    run = train(source + indented(TRAIN) + "print(session.path)\nprint(session.summary)\n")
    assert run.status == 0, run.stderr
    assert run.stdout.splitlines()[0] == str(dump)
    assert (dump / "rank_0").is_dir()


def test_capture_takes_either_a_configuration_or_a_directory():
    with pytest.raises(sonde.Error, match="either"), sonde.capture():
        pass


def test_without_autoload_start_still_works_before_torch(train, config, dump):
    source = f"import sonde\nsonde.start({str(config())!r})\n" + dedented(TRAIN)
    run = train(source, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert run.status == 0, run.stderr
    assert (dump / "rank_0").is_dir()


def test_a_forked_child_without_a_model_leaves_the_session_to_its_parent(train, config, dump):
    fork = """
        import os
        pid = os.fork()
        if pid == 0:
            torch.nn.ReLU()(torch.ones(100, 2))
            raise SystemExit(0)
        print("child", os.waitpid(pid, 0)[1])
    """
    run = train(dedented(TRAIN) + dedented(fork), config=config())
    assert run.stdout == "child 0\n"
    assert run.status == 0
    assert len([line for line in run.sonde_lines if str(dump) in line]) == 1


def dedented(source):
    lines = source.strip("\n").split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[margin:] for line in lines).rstrip() + "\n"


def indented(source):
    return "".join("    " + line + "\n" for line in dedented(source).splitlines())
