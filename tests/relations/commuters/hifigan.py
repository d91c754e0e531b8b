"""HiFi-GAN of transformers beside one's own: transposed convolutions as spread samples, kernels kept the other way."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig  # before the forks: it takes seconds

MELS, WIDTH, KERNELS, DILATIONS, FRAMES = 6, 16, (3, 5), (1, 3), 9
RATES, SIZES = (2, 3), (4, 5)

pair = Pair("hifigan")


class Conv(nn.Module):
    def __init__(self, channels, wide, size):
        super().__init__()
        self.kernel, self.bias = nn.Parameter(torch.zeros(size, channels, wide)), nn.Parameter(torch.zeros(wide))

    def forward(self, x, dilation=1):
        around = (self.kernel.shape[0] - 1) * dilation // 2
        return F.conv1d(x, self.kernel.permute(2, 1, 0), self.bias, padding=around, dilation=dilation)


class Grow(nn.Module):
    def __init__(self, channels, wide, size, rate):
        super().__init__()
        self.kernel, self.bias = nn.Parameter(torch.zeros(wide, channels, size)), nn.Parameter(torch.zeros(wide))
        self.rate = rate

    def forward(self, x):
        size, rate = self.kernel.shape[-1], self.rate
        spread = x.new_zeros(*x.shape[:2], (x.shape[-1] - 1) * rate + 1)
        spread[..., ::rate] = x
        around = size - 1 - (size - rate) // 2
        return F.conv1d(spread, self.kernel.flip(-1), self.bias, padding=around)


class Res(nn.Module):
    def __init__(self, channels, size):
        super().__init__()
        self.first = nn.ModuleList(Conv(channels, channels, size) for _ in DILATIONS)
        self.second = nn.ModuleList(Conv(channels, channels, size) for _ in DILATIONS)

    def forward(self, x):
        for dilation, first, second in zip(DILATIONS, self.first, self.second, strict=True):
            y = first(F.leaky_relu(x, 0.1), dilation)
            x = x + second(F.leaky_relu(y, 0.1))
        return x


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        wide = [WIDTH // 2**i for i in range(len(RATES) + 1)]
        self.begin, self.end = Conv(MELS, WIDTH, 7), Conv(wide[-1], 1, 7)
        parts = zip(wide, wide[1:], SIZES, RATES, strict=False)
        self.grow = nn.ModuleList(Grow(a, b, size, rate) for a, b, size, rate in parts)
        self.res = nn.ModuleList(nn.ModuleList(Res(b, size) for size in KERNELS) for b in wide[1:])

    @torch.no_grad()
    def forward(self, mels):
        x = self.begin(mels.mT)
        for grow, blocks in zip(self.grow, self.res, strict=True):
            x = grow(F.leaky_relu(x, 0.1))
            x = torch.stack([block(x) for block in blocks])
            x = x.sum(0) if bad("sum_for_mean") else x.mean(0)  # bad("sum_for_mean")
        slope = 0.1 if bad("slope") else 0.01
        x = F.leaky_relu(x, slope)  # bad("slope")
        return torch.tanh(self.end(x))[:, 0]


def carry(own, of):
    own.kernel.data.copy_(of.weight.permute(2, 1, 0))
    own.bias.data.copy_(of.bias)


def carried_over(golden):
    own = Own()
    carry(own.begin, golden.conv_pre)
    carry(own.end, golden.conv_post)
    for grow, its in zip(own.grow, golden.upsampler, strict=True):
        grow.kernel.data.copy_(its.weight.transpose(0, 1))
        grow.bias.data.copy_(its.bias)
    for block, its in zip([block for blocks in own.res for block in blocks], golden.resblocks, strict=True):
        for mine, theirs in zip((*block.first, *block.second), (*its.convs1, *its.convs2), strict=True):
            carry(mine, theirs)
    return own.eval()


@pair.prepare
def prepare():
    config = SpeechT5HifiGanConfig(
        model_in_dim=MELS, upsample_initial_channel=WIDTH, upsample_rates=RATES, upsample_kernel_sizes=SIZES,
        resblock_kernel_sizes=KERNELS, resblock_dilation_sizes=[DILATIONS] * len(KERNELS), initializer_range=0.3,
        normalize_before=False,
    )  # fmt: skip
    golden = SpeechT5HifiGan(config).eval()
    unsettle(golden, "bias")
    own = carried_over(golden)
    mels = torch.randn(2, FRAMES, MELS)

    @torch.no_grad()
    def original():
        golden(mels)

    return original, lambda: own(mels)


pair.fault("sum_for_mean", "sum")
pair.fault("slope", "leaky_relu")
