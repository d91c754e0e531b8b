"""A loop and a branch in a compiled graph: a kernel graph for each block, of which the loop's runs often in a step."""

import networks
import numpy as np
from mindspore import Tensor, nn, ops


class Branching(nn.Cell):
    def construct(self, x, turns):
        i = Tensor(0)
        while i < turns:
            x = x * 2 + 1
            i = i + 1
        if ops.reduce_sum(x) > 0:  # noqa: SIM108
            x = ops.relu(x)
        else:
            x = ops.tanh(x)
        return x - 3


networks.graph_mode()
cell = Branching()
for sign in (1, -1):
    x = cell(Tensor(np.full((2, 3), sign, np.float32)), Tensor(3))
    print("result", x.asnumpy().tobytes().hex())
