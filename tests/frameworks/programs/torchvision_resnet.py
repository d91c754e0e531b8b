"""ResNet-18 of torchvision in channels-last memory, with Nesterov momentum."""

import torch
from common import step, with_vision

operators = with_vision()
import torchvision  # noqa: E402

model = torchvision.models.resnet18(num_classes=4).to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
for number in range(2):
    pictures = torch.randn(2, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    loss = torch.nn.functional.cross_entropy(model(pictures), torch.tensor([0, 1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step(number, loss)
