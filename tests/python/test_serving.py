"""Engines that serve requests: warm-up runs are left out, a step is the engine's. The one here has vLLM's names."""

import json
import sys
import textwrap

import pytest
from processes import CLI

import sonde

RUNNER = """
    from types import SimpleNamespace

    import torch
    from torch import nn


    class Draft(nn.Module):
        def __init__(self):
            super().__init__()
            self.guess = nn.Linear(4, 4)

        def forward(self, x):
            return self.guess(x)


    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(4, 4)

        def forward(self, x):
            return torch.log(self.up(x).abs() + OFFSET)


    class GPUModelRunner:
        def __init__(self, compiled):
            torch.manual_seed(0)
            self.model = torch.compile(Model()) if compiled else Model()
            self.draft = Draft()
            self.input_batch = SimpleNamespace(req_ids=["first"], num_computed_tokens_cpu=[0, 0])

        def _prepare_inputs(self, scheduler_output, counts):
            return torch.ones(1), None, 1

        @torch.inference_mode()
        def _dummy_run(self, rows):
            return self.model(torch.full((rows, 4), float("nan")))

        def profile_run(self):
            return self._dummy_run(3)

        @torch.inference_mode()
        def execute_model(self, rows):
            if not rows:
                return self._dummy_run(1)
            batch = self.input_batch
            scheduled = {"first": 1, "second": rows - 1} if "second" in batch.req_ids else {"first": rows}
            self._prepare_inputs(SimpleNamespace(num_scheduled_tokens=scheduled), list(scheduled.values()))
            for place, count in enumerate(scheduled.values()):
                batch.num_computed_tokens_cpu[place] += count
            batch.req_ids = ["first", "second"]
            self.draft(torch.ones(rows, 4))
            return self.model(torch.arange(4.0 * rows).view(rows, 4))
""".replace("OFFSET", "1")

SERVE = """
    import sys
    import torch
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    torch.set_num_threads(1)
    runner = GPUModelRunner("compiled" in sys.argv)
    runner.profile_run()
    for rows in (3, 2, 0, 2):
        last = runner.execute_model(rows)
    print("served", last.sum().item())
"""


def write_engine(place):
    """The program `serve.py`; `packages` has an engine for it, with vLLM's module and methods."""
    worker = place / "packages/vllm/v1/worker"
    worker.mkdir(parents=True)
    (worker / "gpu_model_runner.py").write_text(textwrap.dedent(RUNNER))
    program = place / "serve.py"
    program.write_text(textwrap.dedent(SERVE))
    return program


@pytest.fixture
def serve(tmp_path, execute):
    """serve(*arguments, recorded=…, options=…, **environment): an engine with vLLM's module and methods."""
    program = write_engine(tmp_path)

    def run(*arguments, recorded=None, options=(), **environment):
        command = [sys.executable, program, *arguments]
        if recorded is not None:
            command = [CLI, "run", "--out", recorded, *options, "--", *command]
        return execute(*command, PYTHONPATH=tmp_path / "packages", **environment)

    return run


def ops_of_steps(dump):
    """{(graph, step): operator types}"""
    steps = {}
    for op in sonde.open(dump).ops:
        if not op.is_parameter:
            steps.setdefault((op.graph, op.step), []).append(op.op_type)
    return steps


@pytest.mark.cold
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_warm_up_runs_are_left_out_and_each_batch_is_a_step(serve, execute, tmp_path, mode):
    bare, recorded = serve(mode), serve(mode, recorded=tmp_path / "run")
    assert recorded.stdout.splitlines()[0] == bare.stdout.splitlines()[0], recorded.stderr
    steps = ops_of_steps(tmp_path / "run")
    assert sorted(steps) == [(1, 0), (1, 1), (1, 2)]
    for types in steps.values():
        assert types.count("log") == 1 and types.count("linear") + types.count("addmm") == 2
    assert recorded.stderr.count("2 warm-up runs of vLLM with made-up tokens were left out") == 1
    assert execute(CLI, "first-bad", tmp_path / "run").status == 0


# Between two batches, in the preparation of one, and after its forward.
SAMPLED = {
    "return torch.ones(1), None, 1": "return torch.ones(1).cos(), None, 1",
    "return self.model(torch.arange": "self.logits = self.model(torch.arange",
    "def profile_run(self)": "def sample_tokens(self):\n        return self.logits.tanh()\n\n    def profile_run(self)",
}
SERVE_SAMPLED = """
    import torch
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner = GPUModelRunner(False)
    runner.profile_run()
    for rows in (3, 2, 2):
        torch.ones(1).sin()
        assert runner.execute_model(rows) is None
        last = runner.sample_tokens()
    print("served", last.sum().item())
"""


def test_a_step_is_from_the_preparation_of_a_batch_to_its_tokens(serve, tmp_path):
    module = tmp_path / "packages/vllm/v1/worker/gpu_model_runner.py"
    text = module.read_text()
    for old, new in SAMPLED.items():
        assert old in text
        text = text.replace(old, new)
    module.write_text(text)
    (tmp_path / "serve.py").write_text(textwrap.dedent(SERVE_SAMPLED))
    run = serve(recorded=tmp_path / "run")
    assert run.stdout.startswith("served"), run.stderr
    steps = ops_of_steps(tmp_path / "run")
    assert sorted(steps) == [(1, 0), (1, 1), (1, 2)]
    for types in steps.values():
        assert [types.count(name) for name in ("cos", "log", "tanh", "sin")] == [1, 1, 1, 0], types


def test_steps_are_chosen_by_the_requests_they_work_on(serve, execute, tmp_path, config):
    run = serve("compiled", recorded=tmp_path / "run", options=("--request", "second"))
    assert run.stdout.startswith("served"), run.stderr
    assert sorted(ops_of_steps(tmp_path / "run")) == [(1, 1), (1, 2)]
    run = serve(recorded=tmp_path / "none", options=("--request", "third", "--request", "fourth"))
    assert "no chosen step worked on request third, fourth (evaluation steps 0-2 ran)" in run.stderr
    one = config(saved_data="statistic", iteration="0-1")
    settings = json.loads(one.read_text())
    settings["sonde_settings"] = {"requests": ["second", "fourth"]}
    one.write_text(json.dumps(settings))
    serve(MINDSPORE_DUMP_CONFIG=one)
    assert sorted(ops_of_steps(settings["common_dump_settings"]["path"])) == [(1, 1)]


def test_vllms_plugins_start_the_recording_where_pytorch_loads_none(serve, tmp_path, config):
    program = tmp_path / "serve.py"
    load = """
    from importlib import metadata

    for plugin in metadata.entry_points(group="vllm.general_plugins"):
        plugin.load()()
    """
    program.write_text(textwrap.dedent(load) + program.read_text())
    one = config(saved_data="statistic")
    dump = json.loads(one.read_text())["common_dump_settings"]["path"]
    for autoload in ("0", "1"):
        run = serve(MINDSPORE_DUMP_CONFIG=one, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
        assert run.stdout.startswith("served"), run.stderr
        assert run.stderr.count("sonde: recorded") == 1, run.stderr
    assert sorted(ops_of_steps(dump)) == [(1, 0), (1, 1), (1, 2)]


def test_warm_up_runs_are_recorded_where_the_user_asks_for_them(serve, tmp_path):
    recorded = serve(recorded=tmp_path / "run", SONDE_WARM_UP="1")
    assert "left out" not in recorded.stderr
    assert sum(types.count("log") for types in ops_of_steps(tmp_path / "run").values()) == 5


def test_chosen_steps_are_those_of_the_engine(serve, config):
    run = serve(MINDSPORE_DUMP_CONFIG=config(saved_data="statistic", iteration="1"))
    assert run.stdout.startswith("served"), run.stderr
    dump = json.loads(config().read_text())["common_dump_settings"]["path"]
    assert sorted(ops_of_steps(dump)) == [(1, 1)]


def test_a_session_after_one_that_ended_in_a_warm_up_run_records(tmp_path, serve):
    program = """
    import sonde
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    class Runner(GPUModelRunner):
        def _dummy_run(self, rows):
            super()._dummy_run(rows)
            sonde.stop()

    sonde.start(sonde.session.settings("first"))
    Runner(False).profile_run()
    sonde.start(sonde.session.settings("second"))
    GPUModelRunner(False).execute_model(2)
    sonde.stop()
    """
    (tmp_path / "serve.py").write_text(textwrap.dedent(program))
    run = serve()
    assert run.status == 0, run.stderr
    assert run.stderr.count("1 warm-up run of vLLM with made-up tokens was left out") == 1
    assert sorted(ops_of_steps(tmp_path / "second")) == [(1, 0)]


def test_an_engine_that_has_moved_its_methods_is_said(tmp_path, serve):
    module = tmp_path / "packages/vllm/v1/worker/gpu_model_runner.py"
    text = module.read_text()
    for name in ("_dummy_run", "profile_run", "execute_model"):
        text = text.replace(name, f"new_{name}")
    module.write_text(text)
    (tmp_path / "serve.py").write_text((tmp_path / "serve.py").read_text().replace("runner.", "runner.new_"))
    run = serve(recorded=tmp_path / "run")
    assert "served" in run.stdout
    assert run.stderr.count("has no model runner that Sonde knows: its warm-up runs are recorded too") == 1


def test_an_engine_whose_module_is_another_is_said(tmp_path, serve):
    worker = tmp_path / "packages/vllm/v1/worker"
    (worker / "gpu_model_runner.py").rename(worker / "new_model_runner.py")
    program = tmp_path / "serve.py"
    program.write_text(program.read_text().replace("gpu_model_runner", "new_model_runner"))
    run = serve(recorded=tmp_path / "run")
    assert run.stdout.startswith("served"), run.stderr
    assert run.stderr.count("Sonde does not know vllm.v1.worker.new_model_runner: warm-up runs are recorded too") == 1
    assert "does not know" not in serve(recorded=tmp_path / "without", SONDE_OFF="1").stderr


@pytest.mark.parametrize("users", [None, "0"])
def test_graphs_are_not_taken_from_vllms_cache_and_those_that_were_are_said(tmp_path, serve, users):
    """As vLLM does: it reads the variable, and counts what it loads."""
    compilation = tmp_path / "packages/vllm/compilation"
    compilation.mkdir()
    (compilation / "counter.py").write_text(
        "import os, types\n"
        "loads = os.environ.get('VLLM_DISABLE_COMPILE_CACHE', '0') == '0'\n"
        "compilation_counter = types.SimpleNamespace(num_aot_artifacts_loaded=int(loads))\n"
        "print('loads' if loads else 'compiles')\n"
    )
    program = tmp_path / "serve.py"
    program.write_text(program.read_text().replace("torch.set_num", "import vllm.compilation.counter\ntorch.set_num"))
    variables = {"VLLM_DISABLE_COMPILE_CACHE": users} if users else {}
    run = serve(recorded=tmp_path / "run", **variables)
    assert run.stdout.startswith("loads" if users else "compiles"), run.stderr
    said = "sonde: vLLM took compiled graphs from its cache: they have no taps and are not recorded node by node; "
    assert run.stderr.count(said + "VLLM_DISABLE_COMPILE_CACHE=1 compiles them anew") == (1 if users else 0)
    assert serve().stdout.startswith("loads")


TWO_ENGINES = """
    import torch
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    one, other = GPUModelRunner(False), GPUModelRunner(False)
    other.input_batch.req_ids = ["third"]
    for rows in (3, 2):
        one.execute_model(rows)
        other.execute_model(rows + 2)
        other.input_batch.req_ids = ["third"]  # it has no second request
    print("served")
"""


def test_two_engines_in_one_process_have_steps_and_requests_of_their_own(tmp_path, serve, execute):
    module = tmp_path / "packages/vllm/v1/worker/gpu_model_runner.py"
    text = module.read_text()
    by_name = 'scheduled = {"first": 1, "second": rows - 1} if "second" in batch.req_ids else {batch.req_ids[0]: rows}'
    old = 'scheduled = {"first": 1, "second": rows - 1} if "second" in batch.req_ids else {"first": rows}'
    assert old in text
    module.write_text(text.replace(old, by_name))
    (tmp_path / "serve.py").write_text(textwrap.dedent(TWO_ENGINES))
    run = serve(recorded=tmp_path / "run")
    assert run.stdout.startswith("served"), run.stderr
    listed = json.loads(execute(CLI, "ls", tmp_path / "run", "--json").stdout)["ranks"][0]["steps"]
    assert [[one["request"] for one in step["requests"]] for step in listed] == [
        ["first"],
        ["third"],
        ["first", "second"],
        ["third"],
    ]
    assert all(types.count("log") == 1 for types in ops_of_steps(tmp_path / "run").values())
    models = {op.step: op.op_name.split("/")[1] for op in sonde.open(tmp_path / "run").ops if op.op_type == "log"}
    assert models[0] == models[2] != models[1] == models[3], models


def test_the_rows_of_a_batch_belong_to_requests(serve, execute, tmp_path):
    dump = tmp_path / "run"
    serve(recorded=dump)

    def steps_of(*options):
        listed = execute(CLI, "ls", dump, *options, "--json")
        return {step["step"]: step["requests"] for step in json.loads(listed.stdout)["ranks"][0]["steps"]}

    def rows(request, row, count, position):
        return {"request": request, "row": row, "rows": count, "position": position}

    all_steps = {
        0: [rows("first", 0, 3, 0)],
        1: [rows("first", 0, 1, 3), rows("second", 1, 1, 0)],
        2: [rows("first", 0, 1, 4), rows("second", 1, 1, 1)],
    }
    assert steps_of() == all_steps
    assert steps_of("--request", "second") == {step: all_steps[step] for step in (1, 2)}
    text = execute(CLI, "ls", dump).stdout
    assert [line.split() for line in text.splitlines()[-2:]] == [
        ["0", "first", "0-2", "5", "5"],
        ["0", "second", "1,", "2", "2", "2"],
    ]
    assert {row["step"] for row in rows_of(execute(CLI, "stats", dump, "--request", "second", "--jsonl"))} == {1, 2}
    unknown = execute(CLI, "first-bad", dump, "--request", "third")
    assert unknown.status == 2 and "no step of request 'third'; there is first, second" in unknown.stderr
    assert execute(CLI, "index", dump).status == 0
    assert steps_of("--request", "second") == {step: all_steps[step] for step in (1, 2)}


def rows_of(run):
    """The rows of an answer that has one on each line."""
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_a_finding_names_the_requests_of_its_rows(serve, execute, tmp_path, config, dump):
    module = tmp_path / "packages/vllm/v1/worker/gpu_model_runner.py"
    bad_row = "torch.log(self.up(x).abs() + 1 - 1e9 * (x[:, :1] == 4))"  # the second row of each batch
    module.write_text(module.read_text().replace("torch.log(self.up(x).abs() + 1)", bad_row))
    assert bad_row in module.read_text()
    serve(MINDSPORE_DUMP_CONFIG=config(saved_data="full", iteration="2"))
    found = execute(CLI, "first-bad", dump)
    assert found.status == 1 and "in rows of request second: position 1" in found.stdout, found.stdout
    assert "not in those of the other 1 of 2 requests" in found.stdout, found.stdout


def test_an_engine_whose_batch_is_another_serves_and_a_line_says_what_the_dump_lacks(serve, tmp_path):
    module = tmp_path / "packages/vllm/v1/worker/gpu_model_runner.py"
    module.write_text(module.read_text().replace("=scheduled)", "=len(scheduled))"))
    run = serve(recorded=tmp_path / "run")
    assert run.stdout.startswith("served"), run.stderr
    assert run.stderr.count("this vLLM does not say which rows belong to which request") == 1
