"""Records runs of one training: `record_all.py TRAINING EVIDENCE DIRECTORY FAULT …`. `whole` is the one process.

The libraries are imported once, and each rank is a fork.
"""

import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "faults"))

import torch
import trainings
from record import import_once, record
from transformers import LlamaConfig, LlamaForCausalLM

WHOLE = "whole"


@dataclasses.dataclass(frozen=True)
class Training:
    """As a case of tests/faults."""

    name: str
    ranks: int

    @property
    def program(self):
        return getattr(trainings, self.name)


def main(name, evidence, directory, *faults):
    place = pathlib.Path(directory)
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**trainings.SIZES)).save_pretrained(place / "model")
    import_once()
    for fault in faults:
        ranks = 1 if fault == WHOLE else 2
        record(Training(name, ranks), evidence, place / fault, ("" if fault == WHOLE else fault, place / "model"))


if __name__ == "__main__":
    main(*sys.argv[1:])
