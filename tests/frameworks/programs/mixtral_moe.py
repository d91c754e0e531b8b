"""Mixtral, a mixture of experts, with the loss of its router."""

import torch
from common import step, text
from transformers import MixtralConfig, MixtralForCausalLM

model = MixtralForCausalLM(
    MixtralConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        output_router_logits=True,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
for number, batch in enumerate(torch.utils.data.DataLoader(text(6), batch_size=2)):
    loss = model(**batch).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step(number, loss)
