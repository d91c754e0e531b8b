"""diffusers' tiny autoencoder beside one's own that keeps channels last and names its parts."""

import torch
import torch.nn.functional as F
from diffusers import AutoencoderTiny  # before the forks: it takes seconds
from planted import Pair, bad
from torch import nn

CHANNELS, LATENT, SIDE = 8, 4, 16

pair = Pair("taesd")


class Conv(nn.Module):
    """Reads and gives (N, H, W, C)."""

    def __init__(self, channels, wide, stride=1, bias=True):
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(3, 3, channels, wide))
        self.bias = nn.Parameter(torch.zeros(wide)) if bias else None
        self.stride = stride

    def forward(self, x):
        weight = self.kernel.permute(3, 2, 0, 1)
        x = x.permute(0, 3, 1, 2)  # bad("not_bounded") bad("not_moved")
        return F.conv2d(x, weight, self.bias, self.stride, 1).permute(0, 2, 3, 1)  # bad("not_bounded")


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (Conv(CHANNELS, CHANNELS) for _ in range(3))

    def forward(self, x):
        y = self.c(F.relu(self.b(F.relu(self.a(x)))))
        if bad("relu_first"):
            return x + F.relu(y)  # bad("relu_first")
        return F.relu(x + y)


def twice_as_large(x):
    if bad("rows_twice"):
        return x.repeat(1, 2, 2, 1)  # bad("rows_twice")
    return x.repeat_interleave(2, 1).repeat_interleave(2, 2)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.first = Conv(3, CHANNELS), Residual()
        self.shrink, self.second = Conv(CHANNELS, CHANNELS, 2, False), Residual()
        self.out = Conv(CHANNELS, LATENT)

    def forward(self, x):
        x = x / 2 if bad("not_moved") else (x + 1) / 2  # bad("not_moved")
        x = self.first(self.stem(x))
        return self.out(self.second(self.shrink(x)))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.first = Conv(LATENT, CHANNELS), Residual()
        self.grow, self.second = Conv(CHANNELS, CHANNELS, 1, False), Residual()
        self.out = Conv(CHANNELS, 3)

    def forward(self, x):
        if not bad("not_bounded"):
            x = torch.tanh(x / 3) * 3
        x = self.first(F.relu(self.stem(x)))
        x = self.out(self.second(self.grow(twice_as_large(x))))
        return x * 2 - 0.5 if bad("half") else x * 2 - 1  # bad("half")


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    @torch.no_grad()
    def forward(self, images):
        return self.decoder(self.encoder(images.permute(0, 2, 3, 1)))


def carry(own, of):
    own.kernel.data.copy_(of.weight.permute(2, 3, 1, 0))
    if own.bias is not None:
        own.bias.data.copy_(of.bias)


def carry_residual(own, of, exchanged=False):
    first, second = (of.conv[2], of.conv[0]) if exchanged else (of.conv[0], of.conv[2])
    carry(own.a, first)
    carry(own.b, second)
    carry(own.c, of.conv[4])


def carried_over(golden):
    own = Tiny()
    theirs = golden.encoder.layers
    carry(own.encoder.stem, theirs[0])
    carry_residual(own.encoder.first, theirs[1])
    carry(own.encoder.shrink, theirs[2])
    carry_residual(own.encoder.second, theirs[3], bad("convs_exchanged"))  # bad("convs_exchanged")
    carry(own.encoder.out, theirs[4])
    theirs = golden.decoder.layers
    carry(own.decoder.stem, theirs[0])
    carry_residual(own.decoder.first, theirs[2])
    carry(own.decoder.grow, theirs[4])
    carry_residual(own.decoder.second, theirs[5])
    carry(own.decoder.out, theirs[6])
    return own.eval()


@pair.prepare
def prepare():
    golden = AutoencoderTiny(
        encoder_block_out_channels=(CHANNELS, CHANNELS), decoder_block_out_channels=(CHANNELS, CHANNELS),
        num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1), latent_channels=LATENT,
    ).eval()  # fmt: skip
    for weight in golden.parameters():
        weight.data.add_(0.05 * torch.randn_like(weight))
    own = carried_over(golden)
    images = torch.randn(2, 3, SIDE, SIDE).clamp(-1, 1)

    @torch.no_grad()
    def run():
        return golden.decode(golden.encode(images).latents).sample

    return run, lambda: own(images)


pair.fault("relu_first", "relu", "add")
pair.fault("not_moved", "div", "permute", "conv2d")
pair.fault("not_bounded", "permute", "conv2d")
pair.fault("rows_twice", "repeat")
pair.fault("half", "sub")
pair.weight("convs_exchanged", "encoder.second.")
