"""`sonde watch` on trainings of PyTorch: zeros by nature, operators without effect, by tensors and by statistics."""

import json
import textwrap

import pytest
from processes import CLI, python, run_in

import sonde

NATURAL = """
    import sys, torch
    from torch import nn
    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
            self.unused = nn.Parameter(torch.ones(8))
            self.lora_A, self.lora_B = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)
            self.register_buffer("running_mean", torch.zeros(8))

        def forward(self, x):
            h = self.norm(x)
            more = self.lora_B(self.lora_A(h))
            return x + self.down(nn.functional.gelu(self.up(h))) + more - self.running_mean

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(10, 8), nn.Linear(8, 10)
            self.blocks = nn.ModuleList([Block(), Block()])
            for module in self.modules():
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)
            for block in self.blocks:
                nn.init.zeros_(block.lora_B.weight)
            if "--weight" in sys.argv:
                nn.init.zeros_(self.blocks[1].up.weight)

        def forward(self, ids):
            x = self.embed(ids) + torch.zeros_like(self.embed(ids))
            if "--mask" in sys.argv:
                x = x * torch.zeros(2, 4, 8)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    for step in range(3):
        ids = torch.randint(0, 10, (2, 4))
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(net(ids).flatten(0, 1), ids.flatten())
        count = torch.tensor(0.0)
        loss.backward()
        optimizer.step()
"""
EFFECTS = """
    import torch
    torch.manual_seed(0)
    def low(*shape):
        return torch.randn(*shape).to(torch.bfloat16)
    x = torch.nn.Linear(4, 4)(torch.randn(3, 4)).detach().clone()
    w, ones = low(8), torch.ones(8)
    one = torch.ones(3, 4)
    x + 1e-12                                              # lost: add-op0
    1e-12 + x                                              # lost: add-op1
    w.mul_(1 - 1e-5)                                       # lost: mul_-op0
    w / (1 + 1e-6)                                         # lost: div-op0
    w / w                                                  # lost: div-op1
    x - x                                                  # lost: sub-op0
    torch.add(w, w, alpha=1e-6)                            # lost: add-op2
    torch.pow(w, 1 + 1e-9)                                 # lost: pow-op0
    torch.addcmul(w, w, w, value=1e-9)                     # lost: addcmul-op0
    torch.addcdiv(w, w, torch.full((8,), 1e6).bfloat16())  # lost: addcdiv-op0
    torch.lerp(w, ones.bfloat16(), 1e-9)                   # lost: lerp-op0
    pair = [low(8), low(4)]
    torch._foreach_mul_(pair, 1 - 1e-6)                    # lost: _foreach_mul_-op0 twice
    torch._foreach_add_(pair, [low(8) * 1e-9, low(4)])     # lost: _foreach_add_-op0 once, its second has an effect
    x + 0.0
    x * 1.0
    x * one
    x / one
    x ** 1.0
    x + torch.zeros(3, 4)
    x + 1e-3
    w * 0.5
    torch.zeros(8) * 3.0
    torch.zeros(8) + 0.0
    torch.tensor(2.0) / torch.tensor(2.0)
    torch.lerp(w, w, 0.5)
    torch.addcmul(w, torch.zeros(8).bfloat16(), w)
    x + torch.tensor([0.0, 0.0, 0.0, 1.0])
    (x + 2).relu()
"""
# By tensors: results without effect. Statistics decide most of them, and never another one.
LOST = ["add-op0", "add-op1", "mul_-op0", "div-op0", "div-op1", "sub-op0", "add-op2", "pow-op0", "addcmul-op0",
        "addcdiv-op0", "lerp-op0", "_foreach_mul_-op0", "_foreach_mul_-op0", "_foreach_add_-op0"]  # fmt: skip
DECIDED = {"add-op0", "add-op1", "mul_-op0", "div-op0", "div-op1", "sub-op0", "_foreach_mul_-op0"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("watch-programs")
    (directory / "natural.py").write_text(textwrap.dedent(NATURAL))
    (directory / "effects.py").write_text(textwrap.dedent(EFFECTS))
    for name, program, *options in (
        ("natural-full", "natural.py"),
        ("natural-statistic", "natural.py"),
        ("weight-full", "natural.py", "--weight"),
        ("weight-statistic", "natural.py", "--weight"),
        ("mask-statistic", "natural.py", "--mask"),
        ("effects-full", "effects.py"),
        ("effects-statistic", "effects.py"),
    ):
        saved = name.rpartition("-")[2]
        command = [CLI, "run", "--out", name, "--saved-data", saved, "--", *python(), program, *options]
        run = run_in(directory, None, *command)
        assert run.status == 0, run.stderr
    return directory


def watched(place, dump, *options):
    """Hits as (step, operator, condition), and the document."""
    document = json.loads(run_in(place, None, CLI, "watch", dump, *options, "--json").stdout)
    hits = [(node["step"], node["op_name"].rpartition("/")[2], point["watch_condition"]["id"])
            for node in document["hits"] for tensor in node["tensors"] for point in tensor["watch_points"]
            if point["hit"]]  # fmt: skip
    return hits, document


@pytest.mark.parametrize("saved", ["full", "statistic"])
def test_zeros_by_nature_are_no_recommended_hits(place, saved):
    hits, document = watched(place, f"natural-{saved}", "--recommended")
    assert hits == []
    assert any("hits are left out: zeros that the program wrote" in note for note in document["notes"])
    assert len(watched(place, f"natural-{saved}", "-c", "tensor_all_zero")[0]) > 50  # asked for by name, all of them


@pytest.mark.parametrize("saved", ["full", "statistic"])
def test_the_one_weight_of_zeros_is_a_recommended_hit(place, saved):
    hits, _ = watched(place, f"weight-{saved}", "--recommended")
    assert (0, "blocks.1.up.weight", "weight_initialization") in hits
    assert {name for _, name, _ in hits} == {"blocks.1.up.weight"}


def test_a_mask_of_zeros_is_named_where_it_is_applied(place):
    hits, _ = watched(place, "mask-statistic", "--recommended")
    zeros = [(step, name) for step, name, condition in hits if condition == "tensor_all_zero"]
    assert {(step, "mul-op0") for step in (0, 1, 2)} <= set(zeros)
    assert not [name for _, name in zeros if "add" in name or "linear" in name], zeros


def test_statistics_decide_the_recommended_conditions(place):
    _, document = watched(place, "natural-statistic", "--recommended")
    left = {document["watch_points"][gap["id"] - 1]["watch_condition"]["id"] for gap in document["not_judged"]}
    assert left <= {"weight_change_too_large"}  # of a weight and that of the step before


def test_operators_without_effect_are_found_by_their_values(place):
    hits, document = watched(place, "effects-full", "-c", "operator_without_effect")
    assert sorted(name for _, name, _ in hits) == sorted(LOST)
    details = {node["op_name"].rpartition("/")[2]: tensor["watch_points"][0]["hit_detail"]
               for node in document["hits"] for tensor in node["tensors"]}  # fmt: skip
    assert details["add-op0"] == "equals input.0 although input.1 = 1e-12 is not 0"
    assert details["div-op1"] == "is 1 everywhere: input.0 and input.1 are equal"
    assert document["not_judged"] == []


def test_statistics_find_operators_without_effect_where_they_decide_it(place):
    hits, document = watched(place, "effects-statistic", "-c", "operator_without_effect")
    names = [name for _, name, _ in hits]
    assert set(names) <= set(LOST)
    assert set(names) >= DECIDED
    gaps = {gap["op_name"].rpartition("/")[2]: gap["reason"] for gap in document["not_judged"]}
    assert set(LOST) - set(names) <= set(gaps)
    assert set(gaps.values()) == {"its values were not saved, and its statistics do not decide it"}


@pytest.mark.parametrize("saved", ["full", "statistic"])
def test_python_and_cpp_find_operators_without_effect(place, saved):
    """`sonde.watch` is sonde::watch of sonde/findings.h."""
    dump = f"effects-{saved}"
    hits, document = watched(place, dump, "-c", "operator_without_effect")
    report = sonde.watch(place / dump, "operator_without_effect")
    found = [(hit.step, hit.op_name.rpartition("/")[2], hit.condition) for hit in report.hits]
    assert sorted(found) == sorted(hits)
    assert {hit.detail for hit in report.hits} > {"equals input.0 although input.1 = 1e-12 is not 0"} or saved != "full"
    assert len(report.not_judged) == len(document["not_judged"])


def test_bounds_that_decide_a_condition_are_in_python_and_cpp_too(place):
    condition = "tensor_too_large:abs_mean_gt=0.5"
    _, document = watched(place, "natural-statistic", "-c", condition)
    of_command = [
        (node["op_name"], point["watch_condition"]["params"][0].get("at_least"))
        for node in document["hits"]
        for tensor in node["tensors"]
        for point in tensor["watch_points"]
        if point["hit"]
    ]
    hits = sonde.watch(place / "natural-statistic", condition).hits
    of_python = [(hit.op_name, hit.parameters[0].at_least) for hit in hits]
    assert sorted(of_python, key=str) == sorted(of_command, key=str)
    decided = [hit.parameters[0] for hit in hits if hit.parameters[0].actual_value is None]
    assert decided
    assert all(one.at_least > 0.5 for one in decided)
