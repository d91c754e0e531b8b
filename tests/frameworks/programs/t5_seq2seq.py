"""T5 under the Seq2SeqTrainer, which generates text during evaluation."""

import tempfile

from common import settings, text, trainer_callback
from transformers import (
    GenerationConfig,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
)

model = T5ForConditionalGeneration(
    T5Config(
        vocab_size=32,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
)
model.generation_config = GenerationConfig(decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, max_new_tokens=4)
with tempfile.TemporaryDirectory() as directory:
    Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            **settings(directory), predict_with_generate=True, eval_strategy="steps", eval_steps=2
        ),
        train_dataset=text(),
        eval_dataset=text(4),
        callbacks=[trainer_callback()],
    ).train()
