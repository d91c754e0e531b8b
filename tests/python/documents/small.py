import torch
from torch import nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 6 * 6, 3)

    def forward(self, x):
        return self.fc(torch.relu(self.norm(self.conv(x))).flatten(1))


torch.manual_seed(0)
torch.set_num_threads(1)
network = Small()
optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    optimizer.zero_grad()
    loss = network(torch.randn(2, 1, 8, 8)).square().mean()
    loss.backward()
    optimizer.step()
