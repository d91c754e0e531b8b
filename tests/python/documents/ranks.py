"""Two ranks train one model with torchrun. A row of the data, which rank 1 reads in step 2, contains a NaN."""

import torch
import torch.distributed as dist
from torch import nn

torch.manual_seed(0)
data = torch.randn(24, 8)
data[19, 3] = float("nan")
dist.init_process_group("gloo")
rank = dist.get_rank()
network = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
batches = torch.utils.data.DataLoader(data[rank::2], batch_size=4)
for step, batch in enumerate(batches):
    loss = network(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0:
        print(f"step {step}: loss {loss.item():.4f}")
dist.destroy_process_group()
