"""Graph attention (GAT) of torch_geometric on a random graph."""

import torch
from common import step
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, global_mean_pool


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = GATConv(8, 4, heads=2)
        self.convolution = GCNConv(8, 3)

    def forward(self, data):
        x = torch.nn.functional.elu(self.attention(data.x, data.edge_index))
        return self.convolution(x, data.edge_index), global_mean_pool(x, data.batch)


edges = torch.randint(20, (2, 60))
data = Data(x=torch.randn(20, 8), edge_index=edges, y=torch.randint(3, (20,)), batch=torch.zeros(20, dtype=torch.long))
model = Network()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for number in range(3):
    scores, pooled = model(data)
    loss = torch.nn.functional.cross_entropy(scores, data.y) + pooled.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step(number, loss)
