"""PyNative mode: operators one by one, and between them a function that is compiled."""

import mindspore as ms
import networks
import numpy as np
from mindspore import Tensor, ops

ms.set_context(mode=ms.PYNATIVE_MODE)
networks.seed()


@ms.jit
def compiled(x, y):
    return ops.relu(ops.matmul(x, y)) + 1


x = Tensor(np.random.randn(3, 3).astype(np.float32))
for _ in range(2):
    x = ops.tanh(x)  # not compiled
    x = compiled(x, x)
print("result", x.asnumpy().tobytes().hex())
