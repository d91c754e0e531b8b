"""Three steps of a compiled graph; in the second a product becomes infinite, and later results are NaN."""

import networks
import numpy as np
from mindspore import Tensor, nn, ops


class Growing(nn.Cell):
    def construct(self, x, factor):
        y = ops.exp(x) * factor
        z = ops.relu(y)
        return ops.tanh(x) + (z - z)


networks.graph_mode()
cell = Growing()
x = Tensor(np.full((2, 3), 50, np.float32))
for factor in (1.0, 1e38, 1.0):
    result = cell(x, Tensor(np.float32(factor)))
    print("result", result.asnumpy().tobytes().hex())
