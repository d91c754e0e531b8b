"""Saves a tiny Llama with random weights as transformers does: `config.json` and `model.safetensors`.

python make_weights.py llama
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=256,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=32,
    initializer_range=0.3,  # by default all answers are equally likely
)
LlamaForCausalLM(config).save_pretrained(sys.argv[1])
