"""The common parts of the programs: small data, the trainer's step numbers, and torchvision without its compiled
part."""

import os
import random
import sys

import numpy as np
import torch
from observe import results

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
torch.set_num_threads(1)
torch.manual_seed(0)
random.seed(0)
np.random.seed(0)
results["numbers"] = []  # of the training steps, as the trainer counts them
results["losses"] = []


class Examples(torch.utils.data.Dataset):
    """`count` examples, each made by make(generator)."""

    def __init__(self, count, make):
        generator = torch.Generator().manual_seed(1)
        self.rows = [make(generator) for _ in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def tokens(generator, length=8, words=32):
    return torch.randint(3, words, (length,), generator=generator)


def text(count=16, length=8, labels="same", words=32):
    def make(generator):
        row = {"input_ids": tokens(generator, length, words), "attention_mask": torch.ones(length, dtype=torch.long)}
        row["labels"] = row["input_ids"].clone() if labels == "same" else torch.randint(labels, (), generator=generator)
        return row

    return Examples(count, make)


def trainer_callback():
    """Keeps the global_step of the transformers Trainer at each step's beginning, and its logged losses."""
    from transformers import TrainerCallback

    class Numbers(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            results["numbers"].append(state.global_step)

        def on_log(self, args, state, control, logs=None, **kwargs):
            results["losses"] += [repr(v) for k, v in sorted((logs or {}).items()) if k in ("loss", "eval_loss")]

    return Numbers()


def arguments(directory, **more):
    from transformers import TrainingArguments

    return TrainingArguments(**settings(directory), **more)


def settings(directory):
    return {
        "output_dir": directory,
        "report_to": [],
        "use_cpu": True,
        "max_steps": 3,
        "per_device_train_batch_size": 2,
        "logging_steps": 1,
        "save_strategy": "no",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "seed": 0,
    }


def step(number, loss):
    """A training step of a loop of the program's own."""
    results["numbers"].append(number)
    results["losses"].append(repr(loss.item()))


def with_vision():
    """torchvision and timm from their folder. torchvision's compiled part needs PyTorch with CUDA; its Python part can
    be imported if the two operators that it describes have names. No model here calls them."""
    sys.path.append(os.environ["VISION"])
    operators = torch.library.Library("torchvision", "DEF")
    operators.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    operators.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return operators
