"""Two ways to compute attention in one model of transformers: rows of padding differ, and nothing reads them."""

import textwrap

import pytest
from conftest import PYTHON
from processes import CLI, run_in

PROGRAM = """
    import sys, torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, attn_implementation=sys.argv[1]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(2):
        ids = torch.randint(1, 100, (3, 10))
        seen = torch.ones_like(ids)
        seen[1, :3] = 0
        labels = ids.clone()
        labels[1, :4] = -100
        loss = model(input_ids=ids, attention_mask=seen, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.fixture(scope="module")
def place(request, tmp_path_factory):
    if request.config.getoption("--short"):
        pytest.skip("not in the short form")
    directory = tmp_path_factory.mktemp("attention", numbered=True)
    (directory / "train.py").write_text(textwrap.dedent(PROGRAM))
    for name in ("eager", "sdpa"):
        command = (CLI, "run", "--out", name, "--saved-data", "full", "--", PYTHON, "train.py", name)
        run = run_in(directory, None, *command, timeout=280, HF_HUB_OFFLINE=1)
        assert run.status == 0, run.stderr[-3000:]
    return directory


# A view in another order was taken for memory that had changed.
@pytest.mark.parametrize("pair", [("eager", "sdpa"), ("sdpa", "eager")], ids=" ".join)
def test_padding_is_no_difference(place, pair):
    run = run_in(place, None, CLI, "compare", *pair)
    assert (run.status, "no difference" in run.stdout) == (0, True), run.stdout + run.stderr
