"""A log-mel front of speech by torch.stft and a convolution, beside frames by unfold and products with waves."""

import math

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

SIZE, HOP, MELS, WIDTH, SAMPLES = 32, 8, 10, 16, 160

pair = Pair("logmel")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(SIZE))
        self.register_buffer("filters", torch.rand(MELS, SIZE // 2 + 1))
        self.conv1, self.conv2 = nn.Conv1d(MELS, WIDTH, 3, padding=1), nn.Conv1d(WIDTH, WIDTH, 3, 2, padding=1)

    def forward(self, wave):
        spectrum = torch.stft(wave, SIZE, HOP, window=self.window, return_complex=True)
        power = spectrum[..., :-1].abs() ** 2
        logs = torch.clamp(self.filters @ power, min=1e-10).log10()
        logs = torch.maximum(logs, logs.amax((1, 2), keepdim=True) - 2.0)
        x = (logs + 4.0) / 4.0
        return F.gelu(self.conv2(F.gelu(self.conv1(x)))).transpose(1, 2)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("filters", torch.zeros(SIZE // 2 + 1, MELS))
        angles = torch.outer(torch.arange(SIZE), torch.arange(SIZE // 2 + 1)).float() * (2 * math.pi / SIZE)
        self.register_buffer("waves", torch.cat((angles.cos(), -angles.sin()), 1))
        self.kernel1, self.kernel2 = (
            nn.Parameter(torch.zeros(3 * MELS, WIDTH)),
            nn.Parameter(torch.zeros(3 * WIDTH, WIDTH)),
        )
        self.bias1, self.bias2 = nn.Parameter(torch.zeros(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def conv(self, x, kernel, bias, stride=1):
        return F.pad(x, (0, 0, 1, 1)).unfold(1, 3, stride).flatten(2) @ kernel + bias

    def logs(self, wave):
        kind = "constant" if bad("zeros_around") else "reflect"
        wave = F.pad(wave[:, None], (SIZE // 2, SIZE // 2), mode=kind)[:, 0]  # bad("zeros_around")
        frames = wave.unfold(1, SIZE, HOP)[:, :-1]
        frames = frames * torch.hann_window(SIZE, periodic=not bad("not_periodic"))  # bad("not_periodic")
        real, imaginary = (frames @ self.waves).chunk(2, -1)
        power = real.square() + imaginary.square()
        if bad("magnitude"):
            power = power.sqrt()
        mels = (power @ self.filters).clamp(min=1e-10)  # bad("magnitude")
        logs = mels.log() / math.log(10)
        floor = logs.amax() if bad("floor_of_all") else logs.amax((1, 2), keepdim=True)  # bad("floor_of_all")
        return (torch.maximum(logs, floor - 2.0) + 4.0) / 4.0  # bad("floor_of_all")

    @torch.no_grad()
    def forward(self, wave):
        x = self.logs(wave)
        x = F.gelu(self.conv(x, self.kernel1, self.bias1))
        return F.gelu(self.conv(x, self.kernel2, self.bias2, 2))


@pair.prepare
def prepare():
    golden, own = Golden().eval(), Own().eval()
    own.filters.copy_(golden.filters.T)
    own.kernel1.data.copy_(golden.conv1.weight.permute(1, 2, 0).flatten(0, 1))
    own.kernel2.data.copy_(golden.conv2.weight.permute(1, 2, 0).flatten(0, 1))
    own.bias1.data.copy_(golden.conv1.bias)
    own.bias2.data.copy_(golden.conv2.bias)
    wave = torch.randn(2, SAMPLES) * torch.tensor([[1.0], [0.03]])

    @torch.no_grad()
    def original():
        golden(wave)

    return original, lambda: own(wave)


pair.fault("zeros_around", "pad", "constant_pad_nd")
pair.fault("not_periodic", "hann_window", "mul")
pair.fault("magnitude", "matmul")
pair.fault("floor_of_all", "amax", "max", "maximum", "sub")
