"""The port of lenet_mindspore.py to PyTorch: python lenet_pytorch.py lenet.npz [--plant ERROR]

--plant makes one of the mistakes that ports are known for. An ordinary script: it knows nothing of Sonde."""

import argparse

import numpy as np
import torch
from torch import nn

PLANTS = ("pad_mode", "epsilon", "transposed_weight")


class LeNet5(nn.Module):
    def __init__(self, plant=None):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.bn1 = nn.BatchNorm2d(6, eps=1e-3 if plant == "epsilon" else 1e-5)
        # MindSpore's "same" with a stride of 2 pads 14 x 14 with one row and column before and two after; padding=2
        # gives an output of the same shape, seen from one pixel aside.
        self.pad = nn.ZeroPad2d(2 if plant == "pad_mode" else (1, 2, 1, 2))
        self.conv2 = nn.Conv2d(6, 16, 5, stride=2)
        self.fc1 = nn.Linear(784, 84)
        self.fc2 = nn.Linear(84, 84)
        self.fc3 = nn.Linear(84, 10)
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()

    def forward(self, x):
        x = self.max_pool2d(self.relu(self.bn1(self.conv1(x))))
        x = self.relu(self.conv2(self.pad(x)))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


def load(network, arrays, plant):
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            values = arrays[name]
            if plant == "transposed_weight" and name == "fc2.weight":
                values = np.ascontiguousarray(values.T)  # the layer is square: no shape complains
            parameter.copy_(torch.from_numpy(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--plant", choices=PLANTS)
    options = parser.parse_args()

    arrays = np.load(options.file)
    network = LeNet5(options.plant)
    load(network, arrays, options.plant)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for step, (images, labels) in enumerate(zip(arrays["images"], arrays["labels"], strict=True)):
        optimizer.zero_grad()
        loss = criterion(network(torch.from_numpy(images)), torch.from_numpy(labels).long())
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
