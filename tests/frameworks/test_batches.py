"""A batch as a whole or in parts, under the Trainer of transformers: only what the optimizer reads can be compared."""

import textwrap

import pytest
from conftest import PYTHON
from processes import CLI, run_in

PROGRAM = """
    import sys, tempfile
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    parts, factor = int(sys.argv[1]), float(sys.argv[2])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(3, 32, (16, 12))]


    class Scaled(Trainer):
        def compute_loss(self, *arguments, **options):
            return super().compute_loss(*arguments, **options) * factor


    config = GPT2Config(vocab_size=32, n_positions=12, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2,
                        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    with tempfile.TemporaryDirectory() as directory:
        settings = TrainingArguments(
            output_dir=directory, max_steps=2, per_device_train_batch_size=8 // parts, max_grad_norm=0,
            gradient_accumulation_steps=parts, train_sampling_strategy="sequential", save_strategy="no", report_to=[],
            use_cpu=True, disable_tqdm=True,
        )
        Scaled(model=GPT2LMHeadModel(config), args=settings, train_dataset=rows).train()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("batches", numbered=True)
    (directory / "train.py").write_text(textwrap.dedent(PROGRAM))
    for name, *options in (("whole", 1, 1), ("parts", 4, 1), ("twice", 4, 2)):
        command = (CLI, "run", "--out", name, "--saved-data", "full", "--", PYTHON, "train.py", *options)
        run = run_in(directory, None, *command, timeout=280, HF_HUB_OFFLINE=1)
        assert run.status == 0, run.stderr[-3000:]
    return directory


def test_a_batch_in_parts_is_no_difference(place):
    run = run_in(place, None, CLI, "compare", "parts", "whole")
    assert run.status == 0, run.stdout + run.stderr
    assert run.stdout.startswith("no difference")
    assert "the batches are cut in another way" in run.stderr


def test_a_loss_of_parts_that_is_scaled_is_named_by_its_factor(place):
    run = run_in(place, None, CLI, "compare", "twice", "whole")
    assert run.status == 1, run.stdout + run.stderr
    first = run.stdout.splitlines()[0]
    assert first.startswith("first difference: step 0, mul ") and "train.py:" in first, first
    finding = " ".join(run.stdout.partition("\n  source")[0].split())  # a long line is wrapped
    assert "2.000 times the golden gradient; 28 of 28 gradients differ, all by this factor" in finding, run.stdout
