"""Two implementations of one network, which `sonde compare` relates by values: a few pairs of tests/relations."""

import json
import pathlib
import subprocess
import sys

from processes import CLI

RUN = pathlib.Path(__file__).parents[1] / "relations" / "run.py"
PAIRS = ("attention", "lstm", "vit", "other_weights", "unrelated")
NAMED_FIRST = {
    ("attention", "scale"),
    ("attention", "norm_before_sum"),
    ("lstm", "activation"),
    ("lstm", "gate_order"),
    ("lstm", "one_bias"),
    ("lstm", "other_bias"),
    ("vit", "epsilon"),  # digits in the names of its norms do not number layers
    ("vit", "pooled"),
    ("vit", "keys_for_values"),
    ("vit", "keys_for_queries"),
}


def test_healthy_pairs_are_clean_and_faults_are_named(tmp_path):
    pairs = (part for pair in PAIRS for part in ("--pair", pair))
    command = [sys.executable, str(RUN), "--json", "--keep", str(tmp_path), *pairs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    results = json.loads(done.stdout)
    by_case = {(result["pair"], result["fault"]): result for result in results}
    healthy = {pair: by_case[pair, ""]["outcome"] for pair in PAIRS}
    assert healthy == dict(zip(PAIRS, ("clean", "clean", "clean", "said", "nothing claimed"), strict=True)), results
    # Its results are so near the golden ones that they correspond to those; nothing explains the error.
    assert by_case["vit", "scale"]["outcome"] != "silent"
    wrong = {case: by_case[case]["said"] for case in NAMED_FIRST if by_case[case]["outcome"] != "first"}
    assert not wrong
    # The number beside the culprit is its own; what it reads is not called an output.
    assert "is like it: relative error " in by_case["lstm", "activation"]["said"]
    assert "what it reads differs, too" in by_case["vit", "scale"]["said"]
    dumps = tmp_path / "lstm" / "tensors"
    asked = [CLI, "compare", str(dumps / "activation"), str(dumps / "golden")]
    report = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False).stdout
    assert "  input.0 (4,16): relative error" in report and "  output." not in report
