"""A compiled training whose loss is NaN in step 1, and whose gradients are finite."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

ms.set_seed(1)
ms.set_context(mode=ms.GRAPH_MODE)


class Loss(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layer = nn.Dense(4, 3)

    def construct(self, x, floor):
        return -ops.log(ops.softmax(self.layer(x), -1) - floor).mean()


net = Loss()
train = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.01))
for step in range(2):
    print(train(Tensor(np.ones((2, 4), np.float32)), Tensor(0.9 if step else -0.1, ms.float32)))
