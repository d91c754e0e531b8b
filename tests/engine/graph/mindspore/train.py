import numpy as np  # noqa: I001  (graph.pb tells the lines of this file as they were)

import mindspore as ms
from mindspore import Tensor, nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3)
        self.fc = nn.Dense(32, 3)

    def block(self, x):
        return ops.relu(self.conv(x))

    def construct(self, x):
        x = self.block(x)
        x = self.block(x)
        a, b = ops.split(x, 1, axis=1)
        return self.fc(ops.concat((b, a)).reshape((-1, 32)))


class Train(nn.Cell):
    def __init__(self, network):
        super().__init__()
        self.network = network
        self.optimizer = nn.SGD(network.trainable_params(), 0.01)
        self.gradient = ops.GradOperation(get_by_list=True)

    def construct(self, x):
        grads = self.gradient(self.network, self.optimizer.parameters)(x)
        return self.optimizer(grads)


ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
train = Train(Net())
for _ in range(2):
    train(Tensor(np.ones((1, 2, 4, 4), np.float32)))
