"""A small GPT-2 learns answers to questions under the Trainer of transformers. Its loss becomes NaN in step 2.

    sonde run --out /data/nan -- python train.py
    sonde first-bad /data/nan

The model is made from a configuration, with random weights. Nothing is downloaded.
"""

import argparse
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

LENGTH = 12  # of a row: what is longer is cut off


class Questions(torch.utils.data.Dataset):
    """Rows of a question and its answer. The loss counts the answer only: the question has the label -100."""

    def __init__(self, rows, longest):
        generator = torch.Generator().manual_seed(0)
        self.questions = [torch.randint(3, 32, (4,), generator=generator) for _ in range(rows)]
        self.questions[4:6] = [torch.randint(3, 32, (longest,), generator=generator) for _ in range(2)]

    def __len__(self):
        return len(self.questions)

    def __getitem__(self, index):
        question = self.questions[index]
        tokens = torch.cat([question, question.flip(0), torch.zeros(LENGTH, dtype=torch.long)])
        labels = torch.cat([torch.full_like(question, -100), tokens[len(question) :]])
        return {"input_ids": tokens[:LENGTH], "labels": labels[:LENGTH]}


parser = argparse.ArgumentParser()
parser.add_argument("--longest", type=int, default=20, help="tokens of the longest question")
options = parser.parse_args()

torch.manual_seed(0)
config = GPT2Config(vocab_size=32, n_positions=LENGTH, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)
model = GPT2LMHeadModel(config)
with tempfile.TemporaryDirectory() as directory:
    settings = TrainingArguments(
        output_dir=directory,
        max_steps=4,
        per_device_train_batch_size=2,
        train_sampling_strategy="sequential",
        logging_steps=1,
        logging_nan_inf_filter=False,  # the Trainer logs 0 for a loss that is NaN, unless this is False
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    Trainer(model=model, args=settings, train_dataset=Questions(8, options.longest)).train()
