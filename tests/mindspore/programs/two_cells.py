"""Two compiled cells, so two graphs with iterations of their own, run in the order A A A B A."""

import networks
import numpy as np
from mindspore import Tensor, nn, ops


class A(nn.Cell):
    def construct(self, x):
        return ops.relu(x) + 1


class B(nn.Cell):
    def construct(self, x):
        return ops.tanh(x) * 2


networks.graph_mode()
a, b = A(), B()
x = Tensor(np.random.randn(2, 3).astype(np.float32))
for cell in (a, a, a, b, a):
    x = cell(x)
print("result", x.asnumpy().tobytes().hex())
