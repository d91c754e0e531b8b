"""A classifier made of a small library, "layers". Its losses change when layers 1.0 becomes 2.0.

    PYTHONPATH=layers-1.0 sonde run --out /data/before --saved-data tensor -- python train.py
    PYTHONPATH=layers-2.0 sonde run --out /data/after --saved-data tensor -- python train.py
    sonde compare /data/after /data/before

The two versions of the library are beside this file.
"""

import layers
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
network = nn.Sequential(nn.Linear(16, 32), layers.Block(32), layers.Block(32), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
for step in range(3):
    inputs, classes = torch.randn(8, 16), torch.randint(0, 4, (8,))
    loss = nn.functional.cross_entropy(network(inputs), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.6f}")
