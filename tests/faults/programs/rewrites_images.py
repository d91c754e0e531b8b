"""Layers of images, in two ways that compute the same."""

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import rows, sgd, train
from torch import nn

family = Family("rewrites")


class Images(nn.Module):
    """A convolution, the function in question, and a linear layer over what it gives."""

    def __init__(self, function, last, channels=4, **parts):
        super().__init__()
        self.first, self.last, self.function = nn.Conv2d(3, channels, 3, padding=1), last, function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        return self.last(self.function(self, self.first(x).tanh()).flatten(1))


def either(other, one, another, features, **parts):
    """`features` is the number of elements that the function gives for each image."""
    network = Images(one if other else another, nn.Linear(features, 5), **parts)
    train(network, rows(2, 3, 8, 8), optimizer=sgd(network, lr=0.05, momentum=0.9))


@family.rounding(short=True)
def convolution_of_one_pixel_or_linear(other):
    def by_linear(s, h):
        y = F.linear(h.permute(0, 2, 3, 1), s.mix.weight.flatten(1), s.mix.bias)
        return y.permute(0, 3, 1, 2)

    either(other, by_linear, lambda s, h: s.mix(h), 6 * 64, mix=nn.Conv2d(4, 6, 1))


@family.rounding()
def convolution_of_one_pixel_by_einsum(other):
    def by_einsum(s, h):
        return torch.einsum("bchw,oc->bohw", h, s.mix.weight[:, :, 0, 0]) + s.mix.bias[:, None, None]

    either(other, by_einsum, lambda s, h: s.mix(h), 6 * 64, mix=nn.Conv2d(4, 6, 1))


@family.rounding()
def patches_by_convolution_or_linear(other):
    def by_linear(s, h):
        patches = h.unflatten(2, (2, 4)).unflatten(4, (2, 4))  # b, c, row, y, column, x
        patches = patches.permute(0, 2, 4, 1, 3, 5).flatten(3)
        return F.linear(patches, s.embed.weight.flatten(1), s.embed.bias).flatten(1, 2)

    def by_convolution(s, h):
        return s.embed(h).flatten(2).transpose(1, 2)

    either(other, by_linear, by_convolution, 4 * 8, embed=nn.Conv2d(4, 8, 4, stride=4))


@family.rounding()
def strided_convolution_by_unfold(other):
    def by_unfold(s, h):
        columns = F.unfold(h, kernel_size=3, stride=2, padding=1)
        return (s.conv.weight.flatten(1) @ columns + s.conv.bias[:, None]).unflatten(2, (4, 4))

    either(other, by_unfold, lambda s, h: s.conv(h), 6 * 16, conv=nn.Conv2d(4, 6, 3, stride=2, padding=1))


@family.rounding()
def convolution_summed_over_its_taps(other):
    def by_taps(s, h):
        padded, y = F.pad(h, (1, 1, 1, 1)), s.conv.bias[:, None, None]
        for i in range(3):
            for j in range(3):
                piece = padded[:, :, i : i + 8, j : j + 8]
                y = y + torch.einsum("bchw,oc->bohw", piece, s.conv.weight[:, :, i, j])
        return y

    either(other, by_taps, lambda s, h: s.conv(h), 6 * 64, conv=nn.Conv2d(4, 6, 3, padding=1))


@family.rounding()
def convolution_padded_by_itself_or_before(other):
    def before(s, h):
        return F.conv2d(F.pad(h, (1, 1, 1, 1)), s.conv.weight, s.conv.bias)

    either(other, before, lambda s, h: s.conv(h), 6 * 64, conv=nn.Conv2d(4, 6, 3, padding=1))


@family.rounding()
def circular_padding_by_mode_or_by_hand(other):
    def by_hand(s, h):
        wide = torch.cat([h[..., -1:], h, h[..., :1]], -1)
        return F.conv2d(torch.cat([wide[:, :, -1:], wide, wide[:, :, :1]], 2), s.conv.weight, s.conv.bias)

    conv = nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular")
    either(other, by_hand, lambda s, h: s.conv(h), 6 * 64, conv=conv)


@family.rounding()
def grouped_convolution_or_one_for_each_channel(other):
    def one_by_one(s, h):
        weights, biases = s.conv.weight.split(1), s.conv.bias.split(1)
        pieces = zip(h.split(1, 1), weights, biases, strict=True)
        return torch.cat([F.conv2d(x, w, b, padding=1) for x, w, b in pieces], 1)

    either(other, one_by_one, lambda s, h: s.conv(h), 4 * 64, conv=nn.Conv2d(4, 4, 3, padding=1, groups=4))


@family.rounding()
def convolution_without_bias_and_an_add(other):
    def apart(s, h):
        return F.conv2d(h, s.conv.weight, None, 1, "same") + s.conv.bias.view(1, -1, 1, 1)

    either(other, apart, lambda s, h: s.conv(h), 6 * 64, conv=nn.Conv2d(4, 6, 3, padding=1))


@family.rounding()
def strides_as_tuples_or_numbers(other):
    def convolution(s, h):
        if other:
            return F.max_pool2d(F.conv2d(h, s.conv.weight, s.conv.bias, (1, 1), (1, 1), (1, 1), 1), (2, 2), (2, 2))
        return F.max_pool2d(F.conv2d(h, s.conv.weight, s.conv.bias, padding=1), 2)

    either(other, convolution, convolution, 6 * 16, conv=nn.Conv2d(4, 6, 3))


@family.rounding()
def transposed_convolution_or_linear(other):
    """Blocks of the output do not overlap, so each is a product of its own."""

    def by_linear(s, h):
        blocks = torch.einsum("bchw,coij->bohiwj", h, s.up.weight).flatten(4, 5).flatten(2, 3)
        return blocks + s.up.bias[:, None, None]

    either(other, by_linear, lambda s, h: s.up(h), 2 * 256, up=nn.ConvTranspose2d(4, 2, 2, stride=2))


@family.rounding()
def average_pool_or_mean_of_blocks(other):
    either(
        other,
        lambda s, h: h.view(2, 4, 4, 2, 4, 2).mean((3, 5)),
        lambda s, h: F.avg_pool2d(h, 2),
        4 * 16,
    )


@family.rounding()
def max_pool_or_largest_of_blocks(other):
    either(
        other,
        lambda s, h: h.unfold(2, 2, 2).unfold(3, 2, 2).amax((-2, -1)),
        lambda s, h: F.max_pool2d(h, 2),
        4 * 16,
    )


@family.rounding()
def global_pool_or_mean(other):
    either(other, lambda s, h: h.mean(dim=(2, 3)), lambda s, h: F.adaptive_avg_pool2d(h, 1).flatten(1), 4)


@family.rounding()
def global_max_pool_or_amax(other):
    either(other, lambda s, h: h.flatten(2).max(-1).values, lambda s, h: F.adaptive_max_pool2d(h, (1, 1)), 4)


@family.rounding()
def pixel_shuffle_by_permute(other):
    def by_permute(s, h):
        return h.view(2, 1, 2, 2, 8, 8).permute(0, 1, 4, 2, 5, 3).reshape(2, 1, 16, 16)

    either(other, lambda s, h: by_permute(s, h).tanh(), lambda s, h: F.pixel_shuffle(h, 2).tanh(), 256)


@family.rounding()
def upsampled_or_repeated(other):
    either(
        other,
        lambda s, h: h.repeat_interleave(2, 2).repeat_interleave(2, 3),
        lambda s, h: F.interpolate(h, scale_factor=2, mode="nearest"),
        4 * 256,
    )


@family.rounding()
def instance_norm_or_group_norm(other):
    either(
        other,
        lambda s, h: F.group_norm(h, 4, s.norm.weight, s.norm.bias),
        lambda s, h: s.norm(h),
        4 * 64,
        norm=nn.InstanceNorm2d(4, affine=True),
    )


@family.rounding()
def batch_norm_of_images_by_hand(other):
    def by_hand(s, h):
        var, mean = torch.var_mean(h, (0, 2, 3), correction=0, keepdim=True)
        y = (h - mean) * torch.rsqrt(var + 1e-5)
        return y * s.norm.weight.view(1, -1, 1, 1) + s.norm.bias.view(1, -1, 1, 1)

    norm = nn.BatchNorm2d(4, track_running_stats=False)
    either(other, by_hand, lambda s, h: s.norm(h), 4 * 64, norm=norm)


@family.rounding()
def images_channels_last_in_the_model_only(other):
    def as_they_are(s, h):
        return s.conv(h).relu()

    def last(s, h):
        return s.conv(h.contiguous(memory_format=torch.channels_last)).relu().contiguous()

    either(other, last, as_they_are, 6 * 64, conv=nn.Conv2d(4, 6, 3, padding=1))


@family.rounding()
def channels_last_throughout(other):
    network = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(54, 5)
    )
    if other:
        network.to(memory_format=torch.channels_last)

    def data():
        x = torch.randn(4, 3, 8, 8)
        return (x.to(memory_format=torch.channels_last) if other else x,)

    train(network, data, optimizer=torch.optim.Adam(network.parameters(), lr=1e-3))


@family.rounding()
def squeeze_and_excitation_by_convolutions(other):
    class Squeeze(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.down, self.up = nn.Conv2d(3, 8, 3), nn.Linear(8, 4), nn.Linear(4, 8)

        def forward(self, x):
            h = self.conv(x)
            if other:
                g = h.mean((2, 3), keepdim=True)
                g = F.relu(F.conv2d(g, self.down.weight[:, :, None, None], self.down.bias))
                return h * F.conv2d(g, self.up.weight[:, :, None, None], self.up.bias).sigmoid()
            g = self.up(self.down(h.mean((2, 3))).relu()).sigmoid()
            return h * g[:, :, None, None]

    train(Squeeze(), rows(2, 3, 6, 6))


@family.rounding()
def mixer_with_transposes_or_convolution(other):
    """A linear layer over positions, or a convolution with positions as channels."""

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.mix = nn.Linear(6, 8), nn.Linear(5, 5)

        def forward(self, x):
            h = self.inner(x).tanh()
            if other:
                return F.conv1d(h, self.mix.weight[:, :, None], self.mix.bias)
            return self.mix(h.transpose(1, 2)).transpose(1, 2)

    train(Mixer(), rows(2, 5, 6))
