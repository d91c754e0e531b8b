"""DPO of trl: a policy and its frozen reference model, in every step."""

import tempfile

from common import settings, trainer_callback
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

words = {word: number for number, word in enumerate(["<pad>", "<eos>", *"abcdefgh"])}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")


def model():
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=16,
            n_positions=32,
            n_embd=16,
            n_layer=2,
            n_head=2,
            bos_token_id=1,
            eos_token_id=1,
            pad_token_id=0,
        )
    )


pairs = Dataset.from_list([{"prompt": "a b", "chosen": " c d e", "rejected": " f g"}] * 8)
with tempfile.TemporaryDirectory() as directory:
    DPOTrainer(
        model=model(),
        ref_model=model(),
        args=DPOConfig(**settings(directory), max_length=16, bf16=False),
        train_dataset=pairs,
        processing_class=tokenizer,
        callbacks=[trainer_callback()],
    ).train()
