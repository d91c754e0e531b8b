"""Operators that write their inputs: a batch norm's statistics, an assignment, Adam."""

import mindspore as ms
import networks
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

networks.graph_mode()


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3, momentum=0.5)
        self.flatten = nn.Flatten()
        self.dense = nn.Dense(48, 4)
        self.count = Parameter(Tensor(np.ones(4, np.float32)), name="count", requires_grad=False)
        self.assign = ops.Assign()

    def construct(self, x):
        y = self.dense(self.flatten(self.norm(x)))
        self.assign(self.count, self.count * 2)
        return y


network = Network()
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
step = nn.TrainOneStepCell(nn.WithLossCell(network, loss), nn.Adam(network.trainable_params(), 0.1))
step.set_train()
for _ in range(2):
    images = Tensor(np.random.rand(2, 3, 4, 4).astype(np.float32))
    networks.print_loss(step(images, Tensor([0, 1], ms.int32)))
networks.print_parameters(step)
