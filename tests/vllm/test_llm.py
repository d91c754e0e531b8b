"""`LLM(…)` in a script: its workers are recorded, eager and compiled; a planted NaN of one request is found."""

import json
import pathlib

import pytest

import sonde as sonde_python

FAULTS = pathlib.Path(__file__).resolve().parent / "faults/planted.py"
LINE = 1 + next(n for n, text in enumerate(FAULTS.read_text().splitlines()) if "# the planted line" in text)
LAYER = "network-LlamaForCausalLM/model-LlamaModel/layers/1-LlamaDecoderLayer"
FIRST_BAD_POSITION = 6  # of planted.py; the long request has eight tokens, the short one three
MODES = ["eager", "compiled"]


@pytest.fixture(scope="module")
def run(generate, place):
    """run(mode): the recorded run with the fault."""
    runs = {}

    def of(mode):
        if mode not in runs:
            runs[mode] = generate(mode, out=place / mode, fault="nan", options=("--saved-data", "full"))
            assert runs[mode].status == 0, runs[mode].stderr[-4000:]
        return runs[mode]

    return of


@pytest.mark.parametrize("mode", MODES)
def test_a_planted_nan_is_named_with_operator_line_and_request(run, sonde, mode):
    found = sonde("first-bad", run(mode).dump, "--json")
    assert found.status == 1, found.stderr
    first = json.loads(found.stdout)["first"]
    assert first["op_type"] == "log" and f"/{LAYER}/log-op" in first["op_name"], first
    assert (pathlib.Path(first["code"]["source_file"]), first["code"]["source_line"]) == (FAULTS, LINE)
    evidence = " ".join(first["evidence"])
    assert "in rows of request 1-" in evidence and f"position {FIRST_BAD_POSITION}, 7" in evidence, evidence
    assert "not in those of the other 1 of 2 requests" in evidence, evidence


@pytest.mark.parametrize("mode", MODES)
def test_steps_are_the_engines_and_know_their_requests(run, steps_of, mode):
    """Two requests of three and eight tokens, three new ones each; the engine may begin with the first alone."""
    steps = steps_of(run(mode).dump)
    assert {step["graph"] for step in steps} == {1}
    assert [step["step"] for step in steps] == list(range(len(steps)))
    positions = {}
    for step in steps:
        for part in step["requests"]:
            rows = range(part["position"], part["position"] + part["rows"])
            positions.setdefault(part["request"].partition("-")[0], []).extend(rows)
    assert positions == {"0": list(range(5)), "1": list(range(10))}
    assert run(mode).stderr.count("of vLLM with made-up tokens") == (mode == "compiled")  # it warms up to compile


@pytest.mark.parametrize("mode", MODES)
def test_every_step_has_the_operators_of_all_layers(run, mode):
    steps = {}
    for op in sonde_python.open(run(mode).dump).ops:
        if op.op_type == "onednn_mm" and "/layers/" in op.op_name:
            steps.setdefault(op.step, set()).add(op.op_name.split("/model-LlamaModel/layers/")[1])
    assert len(steps) >= 3
    projections = (
        "self_attn-LlamaAttention/qkv_proj-QKVParallelLinear",
        "self_attn-LlamaAttention/o_proj-RowParallelLinear",
        "mlp-LlamaMLP/gate_up_proj-MergedColumnParallelLinear",
        "mlp-LlamaMLP/down_proj-RowParallelLinear",
    )
    expected = {f"{layer}-LlamaDecoderLayer/{name}/onednn_mm-op0" for layer in (0, 1) for name in projections}
    assert all(names == expected for names in steps.values()), steps


def test_the_tokens_are_those_of_a_bare_run_and_vllm_says_nothing_else(run, generate):
    """Also after vLLM has filled its compile cache."""
    bare = generate("compiled", fault="nan")
    recorded = run("compiled")
    assert recorded.tokens == bare.tokens and len(bare.tokens) == 1
    assert "unable to save AOT compiled function" not in recorded.stderr + recorded.stdout
