"""LeNet-5 in MindSpore: python lenet_mindspore.py lenet.npz. An ordinary script: it knows nothing of Sonde."""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn


class LeNet5(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, pad_mode="same", has_bias=True)
        self.bn1 = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 16, 5, stride=2, pad_mode="same", has_bias=True)
        self.fc1 = nn.Dense(784, 84)
        self.fc2 = nn.Dense(84, 84)
        self.fc3 = nn.Dense(84, 10)
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()

    def construct(self, x):
        x = self.max_pool2d(self.relu(self.bn1(self.conv1(x))))
        x = self.relu(self.conv2(x))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


def load(network, arrays):
    names = {"bn1.gamma": "bn1.weight", "bn1.beta": "bn1.bias"}
    for parameter in network.trainable_params():
        parameter.set_data(Tensor(arrays[names.get(parameter.name, parameter.name)]))


def main():
    arrays = np.load(sys.argv[1])
    ms.set_context(mode=ms.GRAPH_MODE)
    network = LeNet5()
    load(network, arrays)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=0.05, momentum=0.9)
    training = nn.TrainOneStepCell(nn.WithLossCell(network, loss), optimizer)
    training.set_train()
    for step, (images, labels) in enumerate(zip(arrays["images"], arrays["labels"], strict=True)):
        print(f"step {step}: loss {float(training(Tensor(images), Tensor(labels)).asnumpy()):.6f}", flush=True)


if __name__ == "__main__":
    main()
