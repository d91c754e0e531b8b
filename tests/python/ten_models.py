"""Ten small networks of ten families, for checks any network should pass. `models()` gives (name, module, input)."""

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels * stride, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels * stride)
        self.conv2 = nn.Conv2d(channels * stride, channels * stride, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels * stride)
        self.short = nn.Conv2d(channels, channels * stride, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = self.norm2(self.conv2(y))
        y += self.short(x)
        return F.relu(y, inplace=True)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, padding=1)
        self.inner = nn.Conv2d(4, 4, 3, padding=1)
        self.up = nn.ConvTranspose2d(4, 4, 2, 2)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        skip = F.silu(self.down(x))
        y = F.max_pool2d(skip, 2)
        y = self.up(F.gelu(self.inner(y)))
        return torch.sigmoid(self.out(torch.cat([skip, y], dim=1)))


class Separable(nn.Module):
    def __init__(self):
        super().__init__()
        self.deep = nn.Conv2d(4, 4, 3, groups=4, padding=1)
        self.point = nn.Conv2d(4, 8, 1)
        self.norm = nn.GroupNorm(2, 8)
        self.squeeze = nn.Linear(8, 8)

    def forward(self, x):
        y = F.hardswish(self.norm(self.point(self.deep(x))))
        weight = torch.sigmoid(self.squeeze(y.mean((2, 3))))
        return y * weight[:, :, None, None]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.position = nn.Parameter(torch.randn(6, 8))
        self.qkv = nn.Linear(8, 24)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 11, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens) + self.position[: tokens.shape[1]]
        q, k, v = self.qkv(self.norm(x)).view(2, 6, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.ones(6, 6, dtype=torch.bool).tril()
        weights = (q @ k.transpose(-1, -2) / 2.0).masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + (weights @ v).transpose(1, 2).reshape(2, 6, 8)
        return self.head(x)


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(1, 8, 2, 2)
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        self.qkv = nn.Linear(8, 24)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        x = x + F.scaled_dot_product_attention(q, k, v)
        return self.head(x[:, 0])


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(4, 6, num_layers=2, batch_first=True)
        self.out = nn.Linear(6, 2)

    def forward(self, x):
        y, _ = self.rnn(x)
        return self.out(y[:, -1])


class Slices(nn.Module):
    """Writes through views whose base the next op reads."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        y = self.fc(x)
        y[:, 0] = y[:, 1] * 2
        y[:, 2:4] += 1
        z = torch.zeros(4, 6)
        z[1:3].copy_(y[:2])
        z.view(-1)[::5].mul_(3)
        return z.t().contiguous().add_(y.t()) - y.clone().t()


class Split(nn.Module):
    """Operators with several results and lists of arguments."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        values, indices = self.fc(x).topk(3)
        a, b, c = values.split(1, dim=1)
        low, _ = torch.min(x, dim=1)
        grid = torch.stack([a, b + c], dim=0).sum(0)
        picked = torch.gather(x, 1, indices)
        return torch.einsum("bi,bj->bij", picked, grid) + torch.where(low > 0, low, -low)[:, None, None]


def models():
    torch.manual_seed(0)
    image = torch.randn(2, 1, 8, 8)
    return [
        ("mlp", nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 3)), torch.randn(4, 6)),
        ("resnet", nn.Sequential(nn.Conv2d(1, 4, 3), Residual(4), Residual(4, 2)), image),
        ("unet", UNet(), image),
        ("separable", Separable(), torch.randn(2, 4, 6, 6)),
        ("encoder", nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(2, 5, 8)),
        ("decoder", Decoder(), torch.randint(11, (2, 6))),
        ("attending", Attending(), image),
        ("lstm", Recurrent(nn.LSTM), torch.randn(2, 5, 4)),
        ("slices", Slices(), torch.randn(4, 6)),
        ("split", Split(), torch.randn(4, 6)),
    ]
