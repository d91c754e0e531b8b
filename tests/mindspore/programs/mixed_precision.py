"""Trains small networks in every level of mixed precision. Prints the losses and the output of each network."""

import networks
import numpy as np
from mindspore import Parameter, Tensor, amp, float16, float32, nn, ops
from mindspore import dtype as mstype


class Attention(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.query, self.key, self.value = nn.Dense(8, 8), nn.Dense(8, 8), nn.Dense(8, 8)
        self.softmax = nn.Softmax()
        self.norm = nn.LayerNorm((8,))
        self.head = nn.Dense(8, 3)

    def construct(self, tokens):
        x = self.embedding(tokens)
        weights = self.softmax(ops.matmul(self.query(x), self.key(x).transpose(0, 2, 1)) / 3)
        return self.head(self.norm(ops.matmul(weights, self.value(x))).mean(1))


def convolution():
    return nn.SequentialCell(
        nn.Conv2d(1, 4, 3, pad_mode="valid", has_bias=True), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Flatten(), nn.Dense(36, 10), nn.LayerNorm((10,)), nn.GELU(), nn.Dense(10, 3),
    )  # fmt: skip


class Casts(nn.Cell):
    """Casts by hand: float16, bfloat16 and float64."""

    def __init__(self):
        super().__init__()
        self.first = nn.Dense(6, 4).to_float(float16)
        self.scale = Parameter(Tensor(np.linspace(0.5, 2, 4), float16))

    def construct(self, x):
        y = ops.relu(self.first(x)) * self.scale
        z = ops.cast(ops.cast(y, mstype.bfloat16), float32)
        return ops.reduce_sum(z - y.mean(), 1) + ops.cast(ops.cast(x, mstype.float64).sum(1), float32)


networks.graph_mode()
rng = np.random.default_rng(0)
image = Tensor(rng.standard_normal((4, 1, 8, 8)), float32)
tokens = Tensor(rng.integers(0, 20, (4, 5)), mstype.int32)
labels = Tensor(rng.integers(0, 3, 4), mstype.int32)
optimizers = {
    "O1": lambda parameters: nn.SGD(parameters, 0.01),
    "O2": lambda parameters: nn.Momentum(parameters, 0.01, 0.9),
    "O3": lambda parameters: nn.Adam(parameters, 0.001),
    "auto": lambda parameters: nn.AdamWeightDecay(parameters, 0.001),
}
for level, optimizer in optimizers.items():
    for name, network, data in (("convolution", convolution(), image), ("attention", Attention(), tokens)):
        if (level, name) == ("O1", "attention"):  # MindSpore needs 10 s to rewrite it
            continue
        mixed = amp.auto_mixed_precision(network, level)
        loss = nn.WithLossCell(mixed, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        try:
            step = nn.TrainOneStepCell(loss, optimizer(mixed.trainable_params()))
            print("loss", level, name, [float(step(data, labels).asnumpy()) for _ in range(2)])
        except (RuntimeError, TypeError, ValueError) as refused:  # MindSpore lacks a kernel, in some releases
            print("refused", level, name, type(refused).__name__)
print("output", Casts()(Tensor(rng.standard_normal((5, 6)), float32)).asnumpy().tobytes().hex())
