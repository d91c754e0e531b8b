"""Networks and training loops shared by the programs here, and by benchmarks/mindspore.py."""

import hashlib

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn


class LeNet5(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.fc1 = nn.Dense(400, 120)
        self.fc2 = nn.Dense(120, 84)
        self.fc3 = nn.Dense(84, 10)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2, 2)
        self.flatten = nn.Flatten()

    def construct(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x)))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


class AlexNet(nn.Cell):
    """An eighth as wide as the original, for 227 x 227 images."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, 11, stride=4, pad_mode="valid", has_bias=True)
        self.conv2 = nn.Conv2d(12, 32, 5, pad_mode="same", has_bias=True)
        self.conv3 = nn.Conv2d(32, 48, 3, pad_mode="same", has_bias=True)
        self.conv4 = nn.Conv2d(48, 48, 3, pad_mode="same", has_bias=True)
        self.conv5 = nn.Conv2d(48, 32, 3, pad_mode="same", has_bias=True)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(3, 2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(32 * 6 * 6, 1024)
        self.fc2 = nn.Dense(1024, 1024)
        self.fc3 = nn.Dense(1024, classes)
        self.dropout = nn.Dropout(p=0.5)

    def construct(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x)))
        x = self.relu(self.conv3(x))
        x = self.relu(self.conv4(x))
        x = self.pool(self.relu(self.conv5(x)))
        x = self.flatten(x)
        x = self.dropout(self.relu(self.fc1(x)))
        x = self.dropout(self.relu(self.fc2(x)))
        return self.fc3(x)


SHAPES = {LeNet5: (4, 1, 32, 32), AlexNet: (8, 3, 227, 227)}


def graph_mode(**context):
    ms.set_context(mode=ms.GRAPH_MODE, **context)
    seed()


def seed():
    ms.set_seed(1)
    np.random.seed(1)


def training_step(network):
    """One step of gradient descent with momentum, as one compiled graph."""
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), 0.01, 0.9)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, loss), optimizer)
    step.set_train()
    return step


def batch(kind):
    shape = SHAPES[kind]
    images = Tensor(np.random.rand(*shape).astype(np.float32))
    return images, Tensor(np.random.randint(0, 10, shape[0]).astype(np.int32))


def train(kind, steps, network=None):
    """Trains and prints every bit that came out of it."""
    step = training_step(network or kind())
    for _ in range(steps):
        print_loss(step(*batch(kind)))
    print_parameters(step)


def print_loss(loss):
    print("loss", float(loss.asnumpy()).hex(), flush=True)


def print_parameters(cell):
    for parameter in cell.get_parameters():
        print("parameter", parameter.name, hashlib.sha256(parameter.asnumpy().tobytes()).hexdigest(), flush=True)
