"""What `sonde first-bad` says of NaN that many operators can make: how it arises, and what to change."""

import json

import pytest
from processes import CLI, run_in
from test_first_bad import record

PROGRAM = """
import sys, torch
from torch import nn

kind = sys.argv[1]
torch.manual_seed(0)
weight = nn.Parameter(torch.ones(4, 4))
table = nn.Embedding(6, 4, padding_idx=0)
optimizer = torch.optim.SGD([weight, *table.parameters()], 0.01)


def decomposed(x):
    square = torch.eye(4) * x  # its values are equal
    match kind:
        case "svd":
            return torch.svd(square)[0].sum()
        case "linalg_svd":
            return torch.linalg.svd(square)[0].sum()
        case "linalg_eigh":
            return torch.linalg.eigh(square)[1].sum()
        case "linalg_eig":
            return torch.linalg.eig(square)[1].real.sum()


def multiplied(x):
    factors = (x * torch.tensor([3.0, 5.0, 7.0, 0.0])).flatten().repeat(40).sort(descending=True).values
    place = torch.zeros(len(factors), dtype=torch.long)
    match kind:
        case "prod":
            return factors[:-1].prod() * 0 + factors[:-160].prod()  # without a 0: infinite
        case "cumprod":
            return factors.cumprod(0)[-1]
        case "scatter_reduce":
            return torch.ones(1).scatter_reduce(0, place, factors, "prod").sum()
        case "index_reduce":
            return torch.ones(1).index_reduce(0, place, factors, "prod").sum()


def masked(x):
    root = (x - 1).abs().sqrt()
    return torch.where(root > 0, root, torch.zeros(())).sum()


def padded(x):
    rows = table(torch.tensor([1, 2, 0]))
    return (rows / rows.abs().amax(-1, keepdim=True)).sum() + x.sum()


def sampled(x):
    scores = torch.where(torch.arange(4) < 2, x[0], float("-inf"))
    allowed = torch.full((4,), float("-inf"))
    allowed[3] = 0
    scores = (scores + allowed).masked_fill(scores > 2, 0.0)  # nothing is left
    try:
        torch.multinomial(scores.softmax(-1), 1)
    except RuntimeError:
        print("sampled nothing")
    return x.sum()


def phases(x):
    spectrum = torch.complex(x * 1e-30, x * 1e-30)  # the square of its size is 0
    return (torch.complex(x, x) / spectrum).real.sum() if kind == "complex" else torch.angle(spectrum).sum()


def lengths(x):
    direction = torch.cat([x[:1], torch.zeros(1, 4)])
    name = {"weight_norm": torch._weight_norm, "weight_norm_last": torch._weight_norm}.get(kind)
    if name:
        last = kind == "weight_norm_last"
        turned = direction.t().contiguous() if last else direction
        return name(turned, torch.ones(1, 2) if last else torch.ones(2, 1), 1 if last else 0).sum()
    return torch._weight_norm_interface(direction, torch.ones(2, 1), 0)[0].sum()


def divergence(x):
    chances = torch.cat([x, torch.full((4, 1), 400.0)], 1).softmax(-1)  # all but the last are 0
    return nn.functional.kl_div(torch.zeros(4, 5).log_softmax(-1), chances, reduction="sum")


def powers(x):
    return ((x - 1.5) ** 0.5).sum()


def smoothed(x):
    scores = x.masked_fill(torch.eye(4) > 0, float("-inf"))  # the labels' own are allowed
    return nn.functional.cross_entropy(scores, torch.tensor([1, 2, 3, 0]), label_smoothing=0.1)


WAYS = {"divergence": divergence, "power": powers, "smoothing": smoothed}
WAYS |= {"mask": masked, "padding": padded, "sample": sampled, "complex": phases, "angle": phases}
WAYS |= dict.fromkeys(("weight_norm", "weight_norm_last", "weight_norm_interface"), lengths)
loss = WAYS.get(kind, decomposed if "svd" in kind or "eig" in kind else multiplied)(weight)
loss.backward()
optimizer.step()
"""
DIVIDES = "divides by the differences of the values that it gives"
MASK = "mask the operator's input instead"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    place = tmp_path_factory.mktemp("hints")
    (place / "train.py").write_text(PROGRAM)
    return place


def first(directory, kind, saved_data="full"):
    dump = record(directory, f"{kind}_{saved_data}", directory / "train.py", kind, saved_data=saved_data)
    run = run_in(directory, None, CLI, "first-bad", dump, "--json")
    assert run.status == 1, run.stdout + run.stderr
    finding = json.loads(run.stdout)["findings"][0]
    line = PROGRAM.splitlines()[finding["code"]["source_line"] - 1]
    return finding, line, " ".join(finding["evidence"])


def test_the_base_of_a_power_is_at_fault(directory):
    finding, line, _ = first(directory, "power")
    assert "** 0.5" in line and finding["numbers"] == {"input at fault": -0.5}, finding


def test_infinities_that_stay_infinities_are_not_said_to_become_nan(directory):
    finding, line, evidence = first(directory, "smoothing")
    assert "label_smoothing" in line and finding["why"] == "its inputs hold infinities already", finding
    assert "input.0: from -inf to 1" in evidence and "the other input is finite" in evidence, evidence


@pytest.mark.parametrize("kind", ["svd", "linalg_svd", "linalg_eigh", "linalg_eig"])
def test_the_derivative_of_a_decomposition_is_no_matter_of_masks(directory, kind):
    finding, line, evidence = first(directory, kind)
    assert f"{kind}(" in line.replace("linalg.", "linalg_"), line
    assert DIVIDES in evidence and MASK not in evidence, evidence
    assert "uncertain" not in finding.get("tags", ())


@pytest.mark.parametrize("kind", ["prod", "cumprod", "scatter_reduce", "index_reduce"])
def test_a_product_that_is_too_large_on_the_way_to_a_zero(directory, kind):
    finding, line, _ = first(directory, kind)
    assert f".{kind}(" in line or kind == "prod", line
    assert finding["kind"] == "overflow", finding
    assert "are multiplied, and the product exceeds the largest value of float32" in finding["why"]


def test_a_zero_of_the_forward_pass_is_no_gradient_that_a_mask_leaves_out(directory):
    finding, line, evidence = first(directory, "divergence")
    assert "kl_div(" in line and finding["why"].startswith("0 divided by 0"), finding
    assert MASK not in evidence, evidence


def test_an_element_that_a_mask_leaves_out(directory):
    _, line, evidence = first(directory, "mask")
    assert "sqrt" in line and MASK in evidence, evidence


def test_a_row_of_padding_was_written_by_no_optimizer(directory):
    finding, line, evidence = first(directory, "padding")
    assert "amax" in line and "wrote" not in evidence, evidence
    assert finding["why"].startswith("0 divided by 0")


def test_an_operator_that_failed_was_reached_and_infinities_come_from_where_the_last_was_added(directory):
    finding, line, evidence = first(directory, "sample")
    assert "softmax" in line and "uncertain" not in finding.get("tags", ()), finding
    added = 1 + next(i for i, text in enumerate(PROGRAM.splitlines()) if "nothing is left" in text)
    assert f"which Default/add-op0 (train.py:{added}) put there" in evidence, evidence
    assert "multinomial-op0 (train.py:" in evidence and "reads it, and failed" in evidence, evidence


@pytest.mark.parametrize("kind", ["complex", "angle"])
def test_a_complex_number_whose_square_is_zero(directory, kind):
    finding, line, _ = first(directory, kind)
    assert finding["kind"] == "operator" and "uncertain" not in finding.get("tags", ()), finding
    assert ("torch.complex(x, x) /" if kind == "complex" else "torch.angle(") in line, line
    why = "whose square is 0 in complex64" if kind == "complex" else "division by 0: "
    assert why in finding["why"], finding["why"]


@pytest.mark.parametrize("kind", ["weight_norm", "weight_norm_last", "weight_norm_interface"])
def test_a_direction_of_zeros_has_no_norm(directory, kind):
    finding, line, _ = first(directory, kind)
    assert "name(turned" in line or "_weight_norm_interface(" in line, line
    row = "[:,1]" if kind == "weight_norm_last" else "[1,:]"
    assert finding["why"] == f"the norm of input.0{row} is 0: 0 is divided by 0"
