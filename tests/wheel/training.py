"""A training that no test of Sonde knows: attention over patches, in-place and checkpointed parts.

python training.py SAVED      trains three steps, saves outputs of modules in SAVED/, prints a digest of everything
"""

import hashlib
import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        query, key, value = self.project(x).chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + self.gain * mixed


class Patches(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Conv2d(3, width, 4, stride=4)
        self.first, self.second = Attention(width), Attention(width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 5)

    def forward(self, pictures):
        x = self.embed(pictures).flatten(2).transpose(1, 2)
        x = self.first(x)
        x = checkpoint.checkpoint(self.second, x, use_reentrant=False)
        x = functional.gelu(self.norm(x)).mul_(0.5)
        return self.head(functional.dropout(x.mean(1), 0.1, self.training))


def main(saved):
    torch.manual_seed(71)
    torch.set_num_threads(1)
    model = Patches()
    for name in ("embed", "head"):
        outputs = []
        module = getattr(model, name)
        module.register_forward_hook(lambda _, __, output, outputs=outputs: outputs.append(output.detach().clone()))
        module.outputs = outputs
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    digest = hashlib.sha256()
    for _ in range(3):
        pictures, labels = torch.randn(6, 3, 16, 16), torch.randint(5, (6,))
        loss = functional.cross_entropy(model(pictures), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        digest.update(loss.detach().numpy().tobytes())
    for name in ("embed", "head"):
        for step, output in enumerate(getattr(model, name).outputs):
            np.save(saved / f"{name}-{step}.npy", output.numpy())
    for tensor in (*model.state_dict().values(), *(state["momentum_buffer"] for state in optimizer.state.values())):
        digest.update(tensor.detach().numpy().tobytes())
    print(digest.hexdigest())


if __name__ == "__main__":
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    main(directory)
