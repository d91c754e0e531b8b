"""The trainer: one forward pass over the whole sequences of a rollout, and its log-probabilities beside the engine's.

python trainer.py llama rollout.json
"""

import json
import pathlib
import sys

import torch
from transformers import LlamaForCausalLM

answers = json.loads(pathlib.Path(sys.argv[2]).read_text())
model = LlamaForCausalLM.from_pretrained(sys.argv[1])
rows = [torch.tensor(answer["tokens"]) for answer in answers.values()]
ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
with torch.no_grad():
    logprobs = model(ids, attention_mask=mask).logits[:, :-1].log_softmax(-1)
    logprobs = logprobs.gather(-1, ids[:, 1:, None])[..., 0]

largest = 0.0
print("request  position  token     engine    trainer")
for (name, answer), row in zip(answers.items(), logprobs.tolist(), strict=True):
    for i, engine in enumerate(answer["logprobs"]):
        place = answer["prompt"] + i
        trainer = row[place - 1]
        largest = max(largest, abs(engine - trainer))
        print(f"{name:7}  {place:8}  {answer['tokens'][place]:5}  {engine:9.6f}  {trainer:9.6f}")
print(f"largest difference: {largest:.1g}")
