"""Three steps of a network whose weights are read several times: AddN adds their gradients. Nothing is wrong."""

import mindspore
import numpy as np
from mindspore import nn, ops

mindspore.set_context(mode=mindspore.GRAPH_MODE, device_target="CPU")
mindspore.set_seed(1)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a = nn.Dense(8, 8, weight_init="normal")
        self.b = nn.Dense(8, 8, weight_init="normal")
        self.c = nn.Dense(8, 3, weight_init="normal")
        self.norm = nn.LayerNorm((8,))

    def construct(self, x):
        x = self.a(x)
        y = self.b(x)
        z = self.norm(x + y)
        for _ in range(3):
            z = ops.relu(self.a(z)) + x + self.b(z)
        return self.c(z + x * 2 + y)


class Loss(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.entropy = nn.CrossEntropyLoss()

    def construct(self, x, y):
        decay = (self.net.a.weight**2).sum() + ops.square(self.net.b.weight).sum()
        return self.entropy(self.net(x), y) + 0.01 * decay


net = Loss(Net())
optimizer = nn.SGD(net.trainable_params(), 1e-2, momentum=0.9, weight_decay=1e-2)
step = nn.TrainOneStepCell(net, optimizer)
random = np.random.default_rng(0)
for _ in range(3):
    x = mindspore.Tensor(random.standard_normal((4, 8)).astype(np.float32))
    y = mindspore.Tensor(random.integers(0, 3, 4).astype(np.int32))
    print(step(x, y))
