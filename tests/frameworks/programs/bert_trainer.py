"""BERT classifies under the Trainer: two batches accumulated, evaluation after each step."""

import tempfile

from common import arguments, text, trainer_callback
from transformers import BertConfig, BertForSequenceClassification, Trainer

model = BertForSequenceClassification(
    BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, num_labels=3
    )
)
with tempfile.TemporaryDirectory() as directory:
    Trainer(
        model=model,
        args=arguments(directory, gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=1),
        train_dataset=text(labels=3),
        eval_dataset=text(4, labels=3),
        callbacks=[trainer_callback()],
    ).train()
