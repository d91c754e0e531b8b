"""Three steps in PyNative mode, with a NaN in the loss, or of operators alone."""

import sys

import networks
import numpy as np
from mindspore import PYNATIVE_MODE, Tensor, nn, ops, set_context, value_and_grad

networks.graph_mode()  # the last call counts
set_context(mode=PYNATIVE_MODE)
rng = np.random.default_rng(0)
x = Tensor(rng.standard_normal((8, 6)).astype(np.float32))
network = nn.SequentialCell(nn.Dense(6, 4), nn.ReLU(), nn.Dense(4, 3))
if "operators" in sys.argv:
    print("result", network(x).asnumpy().sum())
    sys.exit()
loss = nn.CrossEntropyLoss()
labels = Tensor(rng.integers(0, 3, 8).astype(np.int32))
optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
shift = 0 if "healthy" in sys.argv else 100
step = value_and_grad(lambda x, y: loss(ops.log(ops.exp(network(x)) - shift), y), None, optimizer.parameters)
for _ in range(3):
    value, gradients = step(x, labels)
    optimizer(gradients)
    print("loss", value.asnumpy().tobytes().hex())
