"""DistilBERT learns from a BERT in training mode, called first, without gradients; evaluation."""

import torch
from common import results, step, text
from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel

teacher = BertModel(
    BertConfig(vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
)
student = DistilBertModel(DistilBertConfig(vocab_size=32, dim=16, n_layers=1, n_heads=2, hidden_dim=32))
optimizer = torch.optim.RMSprop(student.parameters(), lr=1e-3)
number = 0
for _ in range(2):
    student.train()
    for batch in torch.utils.data.DataLoader(text(4), batch_size=2):
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        with torch.no_grad():
            target = teacher(**inputs).last_hidden_state
        loss = torch.nn.functional.mse_loss(student(**inputs).last_hidden_state, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step(number, loss)
        number += 1
    student.eval()
    with torch.inference_mode():
        for _ in range(3):
            results["losses"].append(repr(student(**inputs).last_hidden_state.sum().item()))
results["references"], results["evaluations"] = 4, 6
