"""A flow of coupling layers: modules that split channels, beside one affine step with a mask for all channels."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, INNER, LAYERS, BATCH = 10, 24, 3, 9
HALF = WIDTH // 2

pair = Pair("flow")


class GoldenLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(HALF, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x):
        kept, moved = x.chunk(2, -1)
        size, shift = self.last(F.leaky_relu(self.first(kept), 0.1)).chunk(2, -1)
        size = 2 * torch.tanh(size)
        return torch.cat((moved * size.exp() + shift, kept), -1), size.sum(-1)


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(GoldenLayer() for _ in range(LAYERS))

    def forward(self, x):
        total = torch.zeros(x.shape[0])
        for layer in self.layers:
            x, more = layer(x)
            total = total + more
        loss = (0.5 * x.square().sum(-1) - total).mean()
        loss.backward()
        return loss


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {}
        for i, layer in enumerate(golden.layers):
            own[f"first_{i}"], own[f"first_bias_{i}"] = layer.first.weight.t().contiguous(), layer.first.bias
            own[f"last_{i}"], own[f"last_bias_{i}"] = layer.last.weight.t().contiguous(), layer.last.bias
        self.w = nn.ParameterDict({name: weight.detach().clone() for name, weight in own.items()})

    def forward(self, x):
        total = 0
        for i in range(LAYERS):
            kept, moved = x[:, :HALF], x[:, HALF:]
            if bad("halves") and i == 1:
                kept, moved = x[:, HALF:], x[:, :HALF]  # bad("halves")
            y = kept @ self.w[f"first_{i}"] + self.w[f"first_bias_{i}"]
            y = torch.maximum(y, 0.1 * y) @ self.w[f"last_{i}"] + self.w[f"last_bias_{i}"]
            size = torch.tanh(y[:, :HALF]) * 2
            total = total + size.sum(1)
            x = torch.cat((torch.addcmul(y[:, HALF:], moved, torch.exp(size)), kept), 1)
        energy = torch.einsum("bi,bi->b", x, x)
        energy = energy if bad("not_halved") else energy / 2
        loss = (energy - total).sum() / BATCH  # bad("not_halved")
        loss.backward()
        return loss


@pair.prepare
def prepare():
    golden = Golden()
    target, x = Own(golden), torch.randn(BATCH, WIDTH)
    return lambda: golden(x), lambda: target(x)


pair.fault("halves", "slice")
pair.fault("not_halved", "sub")
