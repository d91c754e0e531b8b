"""Llama in a loop of accelerate: accumulation, clipping, a schedule, and text generated at the end."""

import torch
from accelerate import Accelerator
from common import results, step, text
from transformers import LlamaConfig, LlamaForCausalLM, get_linear_schedule_with_warmup

model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32,
    )
)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = get_linear_schedule_with_warmup(optimizer, 1, 10)
loader = torch.utils.data.DataLoader(text(12), batch_size=2, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
done = 0
for batch in loader:
    with accelerator.accumulate(model):
        loss = model(**batch).loss
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            step(done, loss)
            done += 1
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
model.eval()
written = model.generate(torch.tensor([[3, 4, 5]]), max_new_tokens=4, do_sample=True, pad_token_id=0)
results["generated"] = written.tolist()
