"""AlexNet, as in MindSpore's tutorial, on scikit-learn's digits. An ordinary script: it knows nothing of Sonde."""

import argparse
import time

import torch
from sklearn.datasets import load_digits
from torch import nn


class AlexNet(nn.Module):
    def __init__(self, num_classes=10, width=1.0):
        super().__init__()
        c1, c2, c3, c4, c5, hidden = (max(8, int(n * width)) for n in (96, 256, 384, 384, 256, 4096))
        self.conv1 = nn.Conv2d(3, c1, 11, stride=4)
        self.conv2 = nn.Conv2d(c1, c2, 5, padding=2)
        self.conv3 = nn.Conv2d(c2, c3, 3, padding=1)
        self.conv4 = nn.Conv2d(c3, c4, 3, padding=1)
        self.conv5 = nn.Conv2d(c4, c5, 3, padding=1)
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=3, stride=2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(6 * 6 * c5, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, num_classes)

    def forward(self, x):
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        x = self.relu(self.conv3(x))
        x = self.relu(self.conv4(x))
        x = self.max_pool2d(self.relu(self.conv5(x)))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


def batches(size):
    """Endless (images, labels): 8x8 grey digits as 227x227 pictures of three channels, what AlexNet was made for."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).div_(16).sub_(0.5).unsqueeze(1)
    labels = torch.tensor(digits.target)
    while True:
        for picked in torch.randperm(len(labels)).split(size):
            small = images[picked].expand(-1, 3, -1, -1)
            yield nn.functional.interpolate(small, size=(227, 227), mode="bilinear"), labels[picked]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=float, default=0.25, help="channels and hidden units, of AlexNet's own")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()

    torch.manual_seed(1)
    network = AlexNet(width=options.width)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    data = batches(options.batch)
    for step in range(options.steps):
        images, labels = next(data)
        started = time.perf_counter()
        optimizer.zero_grad()
        loss = criterion(network(images), labels)
        loss.backward()
        optimizer.step()
        milliseconds = 1000 * (time.perf_counter() - started)
        print(f"step {step}: loss {loss.item():.4f}, {milliseconds:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
