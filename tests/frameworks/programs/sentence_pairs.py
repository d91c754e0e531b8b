"""Sentence-transformers: static embeddings under its own trainer, with a ranking loss over the batch."""

import tempfile

from common import settings, trainer_callback
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
)
from sentence_transformers.models import Dense, StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

words = {word: number for number, word in enumerate(["<pad>", *"abcdefgh"])}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
model = SentenceTransformer(
    modules=[StaticEmbedding(tokenizer, embedding_dim=8), Dense(in_features=8, out_features=4)], device="cpu"
)
pairs = Dataset.from_dict({"anchor": ["a b", "c d", "e f", "g h"] * 2, "positive": ["b a", "d c", "f e", "h g"] * 2})
with tempfile.TemporaryDirectory() as directory:
    SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(**settings(directory)),
        train_dataset=pairs,
        loss=losses.MultipleNegativesRankingLoss(model),
        callbacks=[trainer_callback()],
    ).train()
