"""Two implementations of one network, which `sonde compare` relates by values: a few pairs of tests/relations."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from processes import CLI

RUN = pathlib.Path(__file__).parents[1] / "relations" / "run.py"
# All faults of the sets below, not only those that a rule was made for: minutes.
WHOLE = os.environ.get("SONDE_WHOLE_SETS") == "1"
PAIRS = ("attention", "lstm", "vit", "micro_batches", "other_weights", "unrelated")
NAMED_FIRST = {
    ("attention", "scale"),
    ("attention", "norm_before_sum"),
    ("attention", "heads_exchanged"),
    ("lstm", "activation"),
    ("lstm", "gate_order"),
    ("lstm", "one_bias"),
    ("lstm", "other_bias"),
    ("vit", "epsilon"),  # digits in the names of its norms do not number layers
    ("vit", "pooled"),
    ("vit", "scale"),
    ("vit", "keys_for_values"),
    ("vit", "keys_for_queries"),
    ("micro_batches", "first_labels"),  # rows of the whole batch have other labels
    ("micro_batches", "shifted"),
    ("micro_batches", "sum_for_mean"),
}


def not_clean_the_other_way(kept, pairs, evidence, known):
    """Fails unless just these of the healthy pairs are not clean with their sides exchanged."""
    found = set()
    for pair in pairs:
        sides = [str(kept / pair / evidence / side) for side in ("golden", "healthy")]
        asked = subprocess.run([CLI, "compare", *sides], capture_output=True, text=True, timeout=60, check=False)
        if asked.returncode != 0:
            found.add(pair)
    assert found == known, evidence


def test_healthy_pairs_are_clean_and_faults_are_named(tmp_path):
    pairs = (part for pair in PAIRS for part in ("--pair", pair))
    command = [sys.executable, str(RUN), "--json", "--keep", str(tmp_path), *pairs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    results = json.loads(done.stdout)
    by_case = {(result["pair"], result["fault"]): result for result in results}
    healthy = {pair: by_case[pair, ""]["outcome"] for pair in PAIRS}
    assert healthy == dict(zip(PAIRS, (*["clean"] * 4, "said", "nothing claimed"), strict=True)), results
    wrong = {case: by_case[case]["said"] for case in NAMED_FIRST if by_case[case]["outcome"] != "first"}
    assert not wrong
    # The number beside the culprit is its own; what it reads is not called an output.
    assert "is like it: relative error " in by_case["vit", "pooled"]["said"]
    assert "scales by 0.1768, and the golden attention by 0.3536" in by_case["attention", "scale"]["said"]
    assert "lstm.py:22: if it computes tanh, the result of sigmoid " in by_case["lstm", "activation"]["said"]
    assert ", of which the golden run first computes add " in by_case["attention", "norm_before_sum"]["said"]
    assert "two that are one axis of it are exchanged" in by_case["attention", "heads_exchanged"]["said"]
    # One attention of the golden run: the numbers of its steps decide.
    assert "scales by 0.25, and the golden attention by 0.3536" in by_case["vit", "scale"]["said"]
    dumps = tmp_path / "lstm" / "tensors"
    asked = [CLI, "compare", str(dumps / "activation"), str(dumps / "golden")]
    report = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False).stdout
    assert "  input.0 (4,16): relative error" in report and "  output." not in report
    not_clean_the_other_way(tmp_path, ("attention", "lstm", "vit", "micro_batches"), "tensors", set())


def test_statistics_show_joins_of_whole_tensors(tmp_path):
    pairs = (part for pair in ("attention", "lstm", "decoding", "vit") for part in ("--pair", pair))
    command = [sys.executable, str(RUN), "--json", "--evidence", "statistics", "--keep", str(tmp_path), *pairs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    outcomes = {(result["pair"], result["fault"]): result["outcome"] for result in json.loads(done.stdout)}
    for pair in ("attention", "lstm", "decoding", "vit"):
        assert outcomes[pair, ""] == "clean", pair
    not_clean_the_other_way(tmp_path, ("attention", "lstm", "decoding", "vit"), "statistics", set())
    for case in (
        ("attention", "scale"),  # one attention of the golden run: its numbers decide
        ("attention", "norm_before_sum"),
        ("lstm", "one_bias"),
        ("lstm", "other_bias"),
        ("vit", "keys_for_values"),
        ("vit", "epsilon"),
        ("vit", "scale"),  # what follows has nearly the golden sums
        ("lstm", "activation"),  # of the golden run, only its result is known
        ("lstm", "forget_bias"),
        ("lstm", "no_tanh"),
        ("lstm", "stale_state"),
        ("decoding", "stale_value"),  # one token has no counterpart, all of them have one
        ("decoding", "stale_cache"),
        ("decoding", "window"),
        ("decoding", "position_off"),
        ("decoding", "old_weights"),
    ):
        assert outcomes[case] == "first", case
    dumps = tmp_path / "attention" / "statistics"
    rows = compare(dumps, "healthy", "--relations").stdout
    assert "a part of golden self_attn.in_proj_weight" in rows


def test_other_members_of_the_kinds_are_named_too(tmp_path):
    evidence = ("--evidence", "tensors", "--evidence", "statistics")
    command = [sys.executable, str(RUN), "--from", "members", "--json", "--keep", str(tmp_path), *evidence]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    results = json.loads(done.stdout)
    assert len(results) > 2 * 20
    wrong = [result for result in results if result["outcome"] != ("first" if result["fault"] else "clean")]
    assert not wrong
    for kind in ("tensors", "statistics"):
        not_clean_the_other_way(tmp_path, sorted({result["pair"] for result in results}), kind, set())


NAMED_OF_STRANGERS = {
    "tensors": [
        ("t5", "gelu"),  # its call shows it, and no result is beyond rounding
        ("t5", "no_final"),  # the golden network goes on
        ("t5", "eps"),
        ("mamba", "decay_late"),  # a later sum hides it
        ("packed", "relu"),
        ("detector", "patch_order"),  # in another order of the weight's axes the product is golden
        ("detector", "levels_exchanged"),
        ("conformer", "causal"),  # the golden convolution pads otherwise
        ("mamba", "centred"),
        ("clip", "no_exp"),  # the number is multiplied behind the product
        ("unet", "other_groups"),
        ("swin", "bias_transposed"),  # windows have a layout of their own
        ("swin", "shift_ahead"),
        ("clip", "one_way"),  # the golden run adds another loss
    ],
    "statistics": [
        ("channels_last", "kernel_transposed"),  # behind patches, and the lines are right in another layer
        ("detector", "patch_order"),
        ("detector", "levels_exchanged"),  # the last result is joined in another order
        ("grouped_queries", "norms_exchanged"),  # a golden norm of the same data reads another weight
        ("unet", "skip_first"),
        ("mamba", "centred"),
        ("clip", "no_exp"),
        ("gru", "head_rows"),  # a golden product of the same numbers has another result
        ("both_ways", "not_turned_back"),  # what joins the data, rather than the weight
        ("both_ways", "ways_exchanged"),
        ("clip", "one_way"),
    ],
}


def chosen_faults(named):
    """Options of run.py: those that a rule names, unless all are asked for."""
    if WHOLE:
        return []
    asked = {fault for cases in named.values() for _, fault in cases}
    return [word for fault in ("healthy", *sorted(asked)) for word in ("--fault", fault)]


def missed_of(named, results):
    """The answers that named something else, by evidence, pair and fault."""
    of = {(r["evidence"], r["pair"], r["fault"]): r for r in results}
    cases = [(kind, *case) for kind, list_of_kind in named.items() for case in list_of_kind]
    return {case: of[case]["said"] for case in cases if of[case]["outcome"] != "first"}


@pytest.mark.long
def test_implementations_that_no_rule_was_made_for_are_clean_and_most_of_their_faults_are_named(tmp_path):
    options = ["--evidence", "tensors", "--evidence", "statistics", *chosen_faults(NAMED_OF_STRANGERS)]
    command = [sys.executable, str(RUN), "--from", "strangers", "--json", "--keep", str(tmp_path), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    results = json.loads(done.stdout)
    healthy = {(r["pair"], r["evidence"]): r["outcome"] for r in results if not r["fault"]}
    # Statistics of rows without padding are of other sizes than those with it.
    assert healthy.pop(("packed", "statistics")) == "not compared"
    assert set(healthy.values()) == {"clean"}, healthy
    pairs = sorted({result["pair"] for result in results})
    not_clean_the_other_way(tmp_path, pairs, "tensors", set())
    not_clean_the_other_way(tmp_path, pairs, "statistics", {"packed"})
    faults = {(r["pair"], r["fault"], r["evidence"]): r["outcome"] for r in results if r["fault"]}
    assert not missed_of(NAMED_OF_STRANGERS, results)
    outcomes = [outcome for (_, _, evidence), outcome in faults.items() if evidence == "tensors"]
    by_statistics = [outcome for (_, _, evidence), outcome in faults.items() if evidence == "statistics"]
    assert not WHOLE or (outcomes.count("first") >= 100 and by_statistics.count("first") >= 88)
    assert "silent" not in outcomes
    wrong = {(pair, fault) for (pair, fault, _), outcome in faults.items() if outcome in ("wrong", "listed")}
    assert not wrong
    dumps, saved = tmp_path / "t5" / "tensors", tmp_path / "map.json"
    assert compare(dumps, "healthy", "--save-map", saved).returncode == 0
    for fault in ("gelu", "no_final"):
        assert compare(dumps, fault, "--map", saved).stdout == compare(dumps, fault).stdout, fault


# Pairs that were written after the rules, by a rule that names their fault.
NAMED_OF_NEWCOMERS = {
    "tensors": [
        ("dlrm", "no_relu"),  # the golden run first computes something of what is read
        ("latent", "no_kv_norm"),
        ("latent", "key_not_turned"),  # a part of a sum is like the sum
        ("latent", "heads_reversed"),
        ("latent", "scale"),  # beside a mask
        ("dlrm", "tables_exchanged"),  # joined in another order than their numbers
        ("mobilenet", "stale_mean"),  # a weight that was left as it began
        ("mobilenet", "kernel_flipped"),  # the other lines give golden results in another layer
        ("translate", "gate_turned"),  # inside of a cell
        ("vae", "bias_halves"),  # the weight beside it is in another order
        ("vae", "not_halved"),  # a golden result, but not the one that is wanted
        ("vae", "mean_of_all"),  # a sum with the other sign
    ],
    "statistics": [
        ("dlrm", "no_relu"),
        ("dlrm", "order_of_parts"),
        ("latent", "no_kv_norm"),  # the sums of a mask hide those of the scores
        ("latent", "key_not_turned"),
        ("mobilenet", "stale_mean"),
        ("mobilenet", "variance_not_rooted"),
        ("translate", "head_order"),  # what the parts are shows their order
        ("translate", "gate_turned"),
        ("dlrm", "mean_of_bag"),  # many golden tables are one
    ],
}
NAMED_OF_LATECOMERS = {
    "tensors": [
        ("codebook", "farthest"),  # it gave the indices of rows
        ("codebook", "half_a_book"),  # some rows of the weight
        ("dense", "kernel_turned"),  # the golden name numbers the layers
        ("dense", "no_relu"),  # behind patches
        ("decoder", "not_normed"),  # another operator reads it as it is, as the golden one does
        ("graph", "slope"),  # a number that only one of the two has
        ("kernel", "keys_as_they_are"),  # the same number is in the golden run
        ("kernel", "values_first"),  # the bias beside it is in the golden order
        ("mixer", "bias_not_loaded"),
        ("mixer", "columns_first"),  # two golden axes are one, in another order
        ("points", "stale_spread"),
        ("graph", "over_sources"),  # over the other axis all is golden
        ("points", "turned_back"),
    ],
    "statistics": [
        ("decoder", "not_normed"),
        ("graph", "slope"),
        ("mixer", "bias_not_loaded"),
        ("points", "stale_spread"),
        ("kernel", "values_first"),  # its parts are golden weights of the same data
        ("decoder", "smoothing"),
        ("dense", "newest_first"),  # joined one after the other
    ],
}
# By statistics two functions are alike.
SILENT = set()
NAMED_OF_VISITORS = {
    "tensors": [
        ("fourier", "plus"),  # the sums of both show the sign
        ("fourier", "one_axis"),  # the number of one run alone is elsewhere in the other
        ("gemma", "heads_in_turn"),  # the factor is multiplied at another place
        ("gemma", "norm_without_one"),  # distances are not like a mask, and a mask may say what is seen
        ("gemma", "scale"),
        ("gemma", "residual_order"),
        ("qwen", "norms_exchanged"),  # the golden norm is written out
        ("retention", "sigmoid"),  # inside of a golden function
        ("segformer", "kernel_transposed"),  # in another order of its axes the product is golden
        ("speech", "kernel_norm"),  # what it is read with was cut before
        ("tagger", "moves_turned"),  # transposed, as its name does not say
        ("tagger", "ahead"),  # the golden convolution pads otherwise
    ],
    "statistics": [
        ("fourier", "one_axis"),
        ("gemma", "heads_in_turn"),
        ("qwen", "norms_exchanged"),
        ("retention", "sigmoid"),
        ("speech", "kernel_norm"),
        ("tagger", "ahead"),
        ("gemma", "window"),  # no golden mask hides so many scores
    ],
}


NAMED_OF_TRAVELLERS = {
    "tensors": [
        ("cohere", "logits_as_they_are"),  # the golden run goes on, although without weights
        ("cohere", "up_first"),  # neither weight has a name
        ("cohere", "one_ahead"),  # no golden mask hides so many scores
        ("tiny", "edges_repeated"),  # a convolution puts zeros there
    ],
    "statistics": [
        ("cohere", "logits_as_they_are"),
        ("cohere", "one_ahead"),
        ("opt", "epsilon"),  # the golden run scales before its attention, too
        ("tiny", "edges_repeated"),
        ("tiny", "tiled"),
        ("tiny", "kernel_turned"),  # behind a pad
    ],
}

NAMED_OF_SETTLERS = {
    "tensors": [
        ("heads", "over_queries"),  # queries, keys and values are parts of one golden weight
        ("heads", "out_by_width"),
        ("flow", "halves"),
        ("flow", "not_halved"),
        ("separable", "bounded_by_one"),
    ],
    "statistics": [
        ("heads", "over_queries"),
        ("heads", "out_by_width"),
        ("flow", "halves"),
        ("flow", "not_halved"),
    ],
}

NAMED_OF_ARRIVALS = {
    "tensors": [
        ("by_hand", "tanh_slope"),  # gradients that are written out
        ("by_hand", "norm_as_constant"),  # a variance and a small number are near the variance
        ("by_hand", "last_one_wins"),
        ("dino", "stale_teacher"),  # a weight as it was
        ("dino", "same_view"),  # the second loss follows from the gradients of the first
        ("falcon", "one_after_other"),  # rows without those of padding
        ("falcon", "not_causal"),  # keys that all heads share
        ("long_filter", "sine_turned"),
        ("long_filter", "no_skip"),
        ("xlnet", "other_side"),  # with its inputs exchanged all is golden
    ],
    "statistics": [
        ("long_filter", "no_skip"),
        ("slots", "over_inputs"),
        ("spatial", "halves"),
        ("triangle", "unbiased"),
    ],
}
NAMED_OF_WAYFARERS = {
    "tensors": [
        ("dora", "sum_of_outputs"),  # a program without modules, all of whose forward pass is right but the loss
        ("dora", "quick"),
        ("bart", "keys_for_values"),  # another layer shows that its mask is right
        ("nemotron", "norm_without_one"),  # the golden norm reads one more than the weight
        ("molecules", "one_sided"),  # counts of neighbours, of data in a layout of their own
        ("molecules", "sum_for_mean"),  # what computes golden rows reads the right values
        ("molecules", "root_of_neighbours"),
    ],
    "statistics": [
        ("dora", "quick"),
        ("bart", "padding_seen"),
    ],
}
NAMED_OF_SOJOURNERS = {
    "tensors": [
        ("beit", "bias_turned"),  # two axes that are equally long
        ("flux", "rope_base"),  # the golden run raises another number to the same powers
        ("flux", "gelu"),  # a table of angles of its own, which another layer shows to be right
        ("flux", "gate_left_out"),
        ("flux", "shift_for_scale"),
        ("phi", "stale_cache"),  # right in the step before
        ("phi", "rope_base"),
        ("regnet", "stride"),  # many operators have the same names in both
        ("regnet", "pad"),
        ("roberta", "loss_sum"),  # the first step of a training
    ],
    "statistics": [
        ("beit", "bias_turned"),
        ("flux", "gate_left_out"),
        ("flux", "shift_for_scale"),  # numbers in names that do not count layers
        ("phi", "gelu"),  # a later norm hides it
        ("phi", "rope_base"),
        ("regnet", "stride"),
        ("regnet", "pad"),
        ("roberta", "padding_seen"),
    ],
}
NAMED_OF_BOARDERS = {
    "tensors": [
        ("olmo", "keys_not_normed"),  # many operators have the same names in both
        ("olmo", "norm_of_sum"),
        ("olmo", "exchanged"),  # in all layers
        ("olmo", "positions"),  # a table that the golden run computes
        ("gptj", "rope_base"),
        ("gptj", "in_halves"),
        ("gptj", "mask"),  # made before it is negated
        ("gptj", "not_normed"),  # rows that are right where they were looked up
        ("whisper", "scale"),  # of queries and keys
        ("whisper", "pad"),
        ("resnet", "relu_first"),  # weights with their norms
        ("resnet", "no_shortcut"),
        ("resnet", "twice"),  # behind the last golden result
        ("resnet", "norm_not_folded"),
        ("distilbert", "padding_counts"),
        ("distilbert", "keys_first"),
    ],
    "statistics": [
        ("olmo", "keys_not_normed"),
        ("olmo", "exchanged"),
        ("gptj", "rope_base"),
        ("gptj", "mask"),
        ("resnet", "twice"),
        ("resnet", "norm_not_folded"),
        ("distilbert", "padding_counts"),
        ("distilbert", "keys_first"),
    ],
}
NAMED_OF_LODGERS = {
    "tensors": [("deit", "no_norm"), ("starcoder", "rope_base"), ("stages", "not_carried")],
    "statistics": [("deit", "no_norm"), ("starcoder", "rope_base"), ("stages", "not_carried")],
}
NAMED_OF_PILGRIMS = {
    "tensors": [
        ("mpnet", "padding_seen"),  # scores behind a mask of large numbers
        ("mpnet", "layers_exchanged"),
        ("siglip", "pixels_turned"),
        ("mobilevit", "columns_first"),
        ("translator", "not_shifted"),
        ("granite", "late_values"),
    ],
    "statistics": [
        ("mpnet", "padding_seen"),
        ("mpnet", "layers_exchanged"),
        ("granite", "residual"),
        ("mobilevit", "running_var"),
        ("translator", "not_itself"),
    ],
}
NAMED_OF_RAMBLERS = {
    "tensors": [
        ("squeeze", "places_reversed"),  # rows looked up by reversed numbers
        ("squeeze", "heads_last"),
        ("stablelm", "not_shifted"),  # whole numbers
        ("taesd", "convs_exchanged"),
    ],
    "statistics": [("squeeze", "bias_forgotten"), ("stablelm", "rope_base"), ("taesd", "half")],
}
# One of each two is of transformers, diffusers, torch_geometric or peft.
OF_LIBRARIES = {
    "visitors",
    "travellers",
    "nomads",
    "arrivals",
    "wayfarers",
    "sojourners",
    "boarders",
    "lodgers",
    "pilgrims",
    "ramblers",
    "drifters",
    "emigrants",
}
# The sets that are older than the last two are asked by one kind of evidence, unless all is asked for.
EVIDENCE = {
    "emigrants": "tensors",
    "drifters": "tensors",
    "lodgers": "tensors",
    "boarders": "statistics",
    "sojourners": "tensors",
    "wayfarers": "statistics",
    "arrivals": "tensors",
    "settlers": "statistics",
    "nomads": "tensors",
    "travellers": "statistics",
    "visitors": "tensors",
    "newcomers": "tensors",
    "latecomers": "statistics",
}
# By statistics rows without padding are not related to those of padded sentences, nor is the gradient of one row
# related to that of a table.
NOT_COMPARED = {("statistics", "falcon"), ("statistics", "roformer")}
NOT_CLEAN_THE_OTHER_WAY = {"tensors": set(), "statistics": {"falcon"}}

NAMED_OF_NOMADS = {
    "tensors": [
        ("deberta", "two_parts"),  # the golden run scales before the product
        ("deberta", "places_as_they_are"),
        ("sinks", "no_sink"),  # complex numbers, and scores hidden by the least number beside -inf
        ("sinks", "down_exchanged"),
        ("ssd", "relu"),  # gives zeros, which a later sum hides
        ("ssd", "kernel_reversed"),  # read behind a view
        ("deberta", "turned"),  # whole numbers, with rows and columns exchanged
        ("shuffle", "hard_labels"),
        ("shuffle", "mean_pool"),
        ("sinks", "in_halves"),  # experts for all tokens
        ("sinks", "unbounded"),
        ("sinks", "silu"),
    ],
    "statistics": [
        ("deberta", "two_parts"),
        ("deberta", "tanh_gelu"),  # a later norm hides it
        ("messages", "squares"),
        ("shuffle", "not_shuffled"),  # taken apart as it was joined
        ("shuffle", "hard_labels"),
        ("sinks", "unbounded"),  # a golden number that is lacking
        ("sinks", "silu"),
        ("ssd", "relu"),  # one number everywhere
    ],
}


NAMED_OF_DRIFTERS = {
    "tensors": [
        ("cvt", "by_head"),  # by the golden result in its place
        ("roformer", "kind_left_out"),  # its rows are looked up in the golden run, too
    ],
    "statistics": [],
}


# Healthy ones hold the norms of a block in a list, weights that are near what they were a step before, the gates of
# all cells in an order of their own, and sums of gradients of which one is nearly 0.
NAMED_OF_EMIGRANTS = {
    "tensors": [
        ("gemma2", "scale"),
        ("modernbert", "one_base"),  # a table that is another golden one
        ("olmoe", "gain_not_paired"),  # rows of the product beside it are in another order
    ],
    "statistics": [],
}


@pytest.mark.parametrize(
    ("folder", "named", "least"),
    [
        ("emigrants", NAMED_OF_EMIGRANTS, {"tensors": 24, "statistics": 22}),
        ("drifters", NAMED_OF_DRIFTERS, {"tensors": 18, "statistics": 13}),
        pytest.param("ramblers", NAMED_OF_RAMBLERS, {"tensors": 15, "statistics": 11}, marks=pytest.mark.long),
        pytest.param("pilgrims", NAMED_OF_PILGRIMS, {"tensors": 28, "statistics": 21}, marks=pytest.mark.long),
        ("lodgers", NAMED_OF_LODGERS, {"tensors": 15, "statistics": 15}),
        pytest.param("boarders", NAMED_OF_BOARDERS, {"tensors": 29, "statistics": 25}, marks=pytest.mark.long),
        pytest.param("sojourners", NAMED_OF_SOJOURNERS, {"tensors": 28, "statistics": 23}, marks=pytest.mark.long),
        pytest.param("wayfarers", NAMED_OF_WAYFARERS, {"tensors": 23, "statistics": 17}, marks=pytest.mark.long),
        pytest.param("arrivals", NAMED_OF_ARRIVALS, {"tensors": 27, "statistics": 16}, marks=pytest.mark.long),
        pytest.param("settlers", NAMED_OF_SETTLERS, {"tensors": 9, "statistics": 7}, marks=pytest.mark.long),
        pytest.param("nomads", NAMED_OF_NOMADS, {"tensors": 29, "statistics": 21}, marks=pytest.mark.long),
        pytest.param("travellers", NAMED_OF_TRAVELLERS, {"tensors": 18, "statistics": 14}, marks=pytest.mark.long),
        pytest.param("visitors", NAMED_OF_VISITORS, {"tensors": 33, "statistics": 25}, marks=pytest.mark.long),
        pytest.param("newcomers", NAMED_OF_NEWCOMERS, {"tensors": 29, "statistics": 25}, marks=pytest.mark.long),
        pytest.param("latecomers", NAMED_OF_LATECOMERS, {"tensors": 33, "statistics": 28}, marks=pytest.mark.long),
    ],
)
def test_of_pairs_that_were_written_last_most_faults_are_named(tmp_path, folder, named, least):
    python = pathlib.Path(sys.executable)
    if folder in OF_LIBRARIES:
        python = RUN.parents[2] / ".venv-frameworks" / "bin" / "python"
        if not python.exists():
            pytest.skip("no .venv-frameworks: scripts/setup --frameworks")
    kinds = (EVIDENCE[folder],) if folder in EVIDENCE and not WHOLE else ("tensors", "statistics")
    options = [*(word for kind in kinds for word in ("--evidence", kind)), *chosen_faults(named)]
    named = {kind: named[kind] for kind in kinds}
    command = [str(python), str(RUN), "--from", folder, "--json", "--keep", str(tmp_path), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    results = json.loads(done.stdout)
    healthy = {(r["evidence"], r["pair"]): r["outcome"] for r in results if not r["fault"]}
    assert {case for case, outcome in healthy.items() if outcome != "clean"} == NOT_COMPARED & healthy.keys()
    of = {(r["evidence"], r["pair"], r["fault"]): r for r in results if r["fault"]}
    assert not missed_of(named, results)
    for kind in named:
        first = [r for r in of.values() if r["evidence"] == kind and r["outcome"] == "first"]
        assert not WHOLE or len(first) >= least[kind]
    silent = {(kind, *case) for (kind, *case), r in of.items() if r["outcome"] == "silent"}
    assert silent <= SILENT, silent - SILENT
    for kind in kinds:
        pairs = {pair for _, pair, _ in of}
        not_clean_the_other_way(tmp_path, sorted(pairs), kind, NOT_CLEAN_THE_OTHER_WAY[kind] & pairs)
    if folder == "newcomers":
        # Where each table begins is a number that one side keeps and the other needs not.
        assert "dlrm.py:48: if it adds up, the result of " in of["tensors", "dlrm", "mean_of_bag"]["said"]
        # Keys and values of each head are rows of one golden weight, and two weights here.
        for fault in ("no_kv_norm", "key_not_turned", "scale"):
            assert not of["tensors", "latent", fault]["said"].startswith("step 0, parameter"), fault


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """Dumps of both sides: `golden`, `healthy`, and `pooled`, which differs at its end."""
    kept = tmp_path_factory.mktemp("vit")
    command = [sys.executable, str(RUN), "--json", "--keep", str(kept), "--pair", "vit"]
    for fault in ([], ["--fault", "pooled"]):
        subprocess.run([*command, *fault], capture_output=True, timeout=300, check=False)
    return kept / "vit" / "tensors"


def compare(dumps, target, *options):
    command = [CLI, "compare", str(dumps / target), str(dumps / "golden"), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def saved(vit):
    saved = vit / "map.json"
    assert compare(vit, "healthy", "--save-map", saved).returncode == 0
    return saved


def edited(saved, tmp_path, edit):
    """A copy of the map; `edit` gets its entries by the names of parameters and of operators."""
    content = json.loads(saved.read_text())
    edit({entry.get("parameter") or entry["op_name"]: entry for entry in content["tensors"]})
    copy = tmp_path / "edited.json"
    copy.write_text(json.dumps(content))
    return copy


def test_a_saved_map_gives_the_answer_of_the_search(vit, saved):
    searched, mapped = compare(vit, "healthy", "--relations"), compare(vit, "healthy", "--relations", "--map", saved)
    assert (mapped.returncode, mapped.stdout) == (0, searched.stdout)
    assert mapped.stderr == ""


def test_what_differs_with_a_map_is_named_as_without(vit, saved):
    found = compare(vit, "pooled", "--map", saved)
    assert found.returncode == 1
    assert "mean Default/network-Target/mean-op0" in found.stdout.splitlines()[0]
    # The operator that it replaces, and what follows from it.
    assert "the map has an entry for Default/network-Target/select-op0: the target has no such tensor" in found.stderr
    assert "1 entry of the map besides: the values differ" in found.stderr


def test_values_that_contradict_the_map_are_said_and_count(vit, saved, tmp_path):
    def exchange(entries):
        one, other = entries["blocks.0.attention.wq"], entries["blocks.1.attention.wq"]
        one["parts"], other["parts"] = other["parts"], one["parts"]

    found = compare(vit, "healthy", "--map", edited(saved, tmp_path, exchange))
    lines = [line for line in found.stderr.splitlines() if "the map says" in line]
    assert found.returncode == 0, found.stdout
    assert [line.partition("the map says ")[2].split(" = ")[0] for line in lines] == [
        "blocks.0.attention.wq",
        "blocks.1.attention.wq",
    ]
    assert all("the values do not: it is " in line for line in lines)


def test_entries_that_name_what_is_not_there_are_said(vit, saved, tmp_path):
    def spoil(entries):
        entries["blocks.0.attention.wq"]["parts"][0]["parameter"] = "lost"
        entries["blocks.1.attention.wq"]["parts"][0]["axis"] = 7
        entries["head"]["parameter"] = "foot"
        entries["blocks.0.attention.wk"]["parts"][0] |= {"start": 2**63, "count": 2**63, "stride": 2**62}
        entries["blocks.0.attention.wv"]["merged"] = [1, 2**62]

    found = compare(vit, "healthy", "--map", edited(saved, tmp_path, spoil))
    assert found.returncode == 0
    for said in (
        "entry for blocks.0.attention.wq: the golden dump has no lost",
        "entry for blocks.1.attention.wq: axis 7, and ",
        "entry for foot: the target has no such tensor",
        "entry for blocks.0.attention.wk: ",
        "entry for blocks.0.attention.wv: `merged` is not two sizes of as many elements",
    ):
        assert said in found.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file or directory: expected a map that `sonde compare --save-map` wrote"),
        ('{\n "version": 1,\n "tensors": [', "line 3, column 14: expected JSON as --save-map writes it, found the end"),
        ('{"version": 1,, "tensors": []}', "line 1, column 15: expected JSON as --save-map writes it, found ','"),
        ('{"version": 2, "tensors": []}', "version: expected 1, found 2"),
        ("[]", "the whole file: expected an object, found []"),
        ('{"version": 1}', "tensors: is missing"),
        (
            '{"version": 1, "tensors": [{"relation": "cat"}]}',
            "tensors[0].relation: expected a word such as 'none', found",
        ),
        ('{"version": 1, "tensors": [{"relation": "none", "axsi": 1}]}', "such as 'axis', found 'axsi'"),
        ('{"version": 1, "tensors": [{"relation": "same", "slot": "x"}]}', "tensors[0].slot: expected a whole number"),
    ],
)
def test_a_map_that_cannot_be_read_is_an_error_with_the_place(vit, tmp_path, text, said):
    map_file = tmp_path / "map.json"
    if text is not None:
        map_file.write_text(text)
    found = compare(vit, "healthy", "--map", map_file)
    assert found.returncode == 3
    assert f"'{map_file}'" in found.stderr
    assert said in found.stderr


def test_two_runs_of_one_program_have_no_map(vit, tmp_path):
    command = [CLI, "compare", str(vit / "golden"), str(vit / "golden"), "--save-map", str(tmp_path / "map.json")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 3
    assert "the operators of the two are matched by name" in found.stderr


def test_the_table_of_relations_as_csv(vit, tmp_path):
    assert compare(vit, "healthy", "--relations", "--csv", tmp_path / "r.csv").returncode == 0
    rows = (tmp_path / "r.csv").read_text().splitlines()
    assert rows[0] == "rank,graph,step,op_name,parameter,slot,dtype,shape,relation,golden,relative_error,source"
    [row] = [row for row in rows if row.startswith("0,1,0,,blocks.0.attention.wq,")]
    assert ",cut," in row
    assert "in_proj_weight" in row


def test_json_names_the_golden_operators_of_a_tensor_with_their_lines(vit):
    answer = json.loads(compare(vit, "healthy", "--json").stdout)
    by_op = {one["op_name"]: one for one in answer["relations"] if one["op_name"]}
    added = by_op["Default/network-Target/add-op0"]["golden_tensors"]
    assert [one["op_name"] for one in added] == ["Default/network-Golden/flatten-op0"]
    assert added[0]["source_file"].endswith("pairs/vit.py") and added[0]["source_line"] > 0
    query = next(one for one in answer["relations"] if one["parameter"] == "blocks.0.attention.wq")
    assert [one["parameter"] for one in query["golden_tensors"]] == ["layers.layers.0.self_attn.in_proj_weight"]
    assert all(
        bool(one["golden_tensors"]) == (one["relation"] not in ("none", "constant")) for one in answer["relations"]
    )
