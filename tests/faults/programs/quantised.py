"""A quantised model beside the one that it came from, in the right way and with one layer wrong."""

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import predict, train
from torch import nn

family = Family("quantised models")


def rounded(x, scale, zero=0, low=-128, high=127):
    return torch.clamp(torch.round(x / scale) + zero, low, high)


class Static(nn.Module):
    """Activations and weights in int8, by plain operators."""

    def __init__(self, layer, low, high):
        super().__init__()
        self.scale = (high - low) / 255
        self.zero = round(-128 - low / self.scale)
        weight = layer.weight.detach()
        scales = weight.abs().amax(1) / 127
        self.register_buffer("bias", layer.bias.detach().clone())
        self.register_buffer("codes", rounded(weight, scales[:, None], low=-127).to(torch.int8))
        self.register_buffer("scales", scales)

    def forward(self, x):
        codes = rounded(x, self.scale, self.zero).to(torch.int8)
        sums = (codes.to(torch.int32) - self.zero).float() @ self.codes.float().T
        return sums * self.scale * self.scales + self.bias


class WeightOnly(nn.Module):
    """Weights in int8 with a scale for each row; activations stay."""

    def __init__(self, layer, clip=1.0, transposed=False):
        super().__init__()
        weight = layer.weight.detach()
        scales = clip * weight.abs().amax(1, keepdim=True) / 127
        self.register_buffer("codes", rounded(weight, scales).to(torch.int8))
        self.register_buffer("scales", scales.T if transposed else scales)
        self.bias = layer.bias

    def forward(self, x):
        return F.linear(x, self.codes.to(x.dtype) * self.scales, self.bias)


class Groups(nn.Module):
    """Weights in four bits, with a scale for each group of inputs."""

    def __init__(self, layer, size=8, shift=0):
        super().__init__()
        groups = layer.weight.detach().unflatten(1, (-1, size))
        low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
        self.register_buffer("scales", (high - low) / 15)
        self.register_buffer("lows", low)
        codes = rounded(groups - low, self.scales, low=0, high=15)
        self.register_buffer("codes", codes.roll(shift, 1).to(torch.uint8))
        self.bias = layer.bias

    def forward(self, x):
        return F.linear(x, (self.codes.to(x.dtype) * self.scales + self.lows).flatten(1), self.bias)


class Fake(nn.Module):
    """PyTorch's fake quantisation of activations and weights."""

    def __init__(self, layer, bound, zero=0):
        super().__init__()
        self.weight, self.bias, self.bound, self.zero = layer.weight, layer.bias, bound, zero
        self.register_buffer("scales", layer.weight.detach().abs().amax(1) / 127)
        self.register_buffer("zeros", torch.zeros(len(self.scales), dtype=torch.int32))

    def forward(self, x):
        x = torch.fake_quantize_per_tensor_affine(x, self.bound / 127, self.zero, -128, 127)
        weight = torch.fake_quantize_per_channel_affine(self.weight, self.scales, self.zeros, 0, -128, 127)
        return F.linear(x, weight, self.bias)


class Stack(nn.Module):
    """Residual blocks, as transformers have them."""

    def __init__(self, layers=4, width=32):
        super().__init__()
        self.embed = nn.Linear(16, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        h = self.embed(x)
        for norm, up, down in zip(self.norms, self.up, self.down, strict=True):
            h = h + down(F.gelu(up(norm(h))))
        return self.head(h)


def perceptron():
    parts = [
        nn.Linear(16, 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    ]
    return nn.Sequential(*parts).eval()


@torch.no_grad()
def ranges(network):
    """The smallest and largest input of each linear layer."""
    found, hooks = {}, []
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Linear):

            def look(_layer, inputs, name=name):
                found[name] = inputs[0].min().item(), inputs[0].max().item()

            hooks.append(layer.register_forward_pre_hook(look))
    torch.manual_seed(5)
    network(torch.randn(256, 16))
    for hook in hooks:
        hook.remove()
    return found


def quantise(network, known, make):
    """Each linear layer by `make`."""
    for name, (low, high) in known.items():
        parent, _, last = name.rpartition(".")
        setattr(network.get_submodule(parent), last, make(network.get_submodule(name), low, high))
    return network


def measured(network):
    """Both programs look at the ranges, so that they run the same steps."""
    network = network.eval()
    return network, ranges(network)


def fake(layer, low, high):
    return Fake(layer, max(-low, high))


def inputs():
    return (torch.randn(64, 16),)


@family.rounding(short=True)
def static_by_plain_operators(other):
    network, known = measured(perceptron())
    predict(quantise(network, known, Static) if other else network, inputs, within=0.1)


@family.rounding()
def weights_only_in_int8(other):
    network, known = measured(Stack())
    predict(quantise(network, known, lambda layer, *_: WeightOnly(layer)) if other else network, inputs, within=0.1)


@family.rounding()
def weights_in_groups_of_four_bits(other):
    network, known = measured(Stack())
    predict(quantise(network, known, lambda layer, *_: Groups(layer)) if other else network, inputs, within=0.3)


@family.rounding()
def fake_quantised(other):
    network, known = measured(Stack())
    predict(quantise(network, known, fake) if other else network, inputs, within=0.1)


@family.rounding()
def dynamic_of_the_library(other):
    network, _known = measured(perceptron())
    if other:
        torch.ao.quantization.quantize_dynamic(network, {nn.Linear}, dtype=torch.qint8, inplace=True)
    predict(network, inputs, within=0.1)


@family.rounding()
def quantised_and_back(other):
    """Activations pass through quantised tensors of the library."""

    class Through(nn.Module):
        def __init__(self, layer, low, high):
            super().__init__()
            self.layer, self.scale = layer, (high - low) / 255
            self.zero = round(-low / self.scale)

        def forward(self, x):
            return self.layer(torch.quantize_per_tensor(x, self.scale, self.zero, torch.quint8).dequantize())

    network, known = measured(perceptron())
    predict(quantise(network, known, Through) if other else network, inputs, within=0.1)


PLAIN = ("mul", "div", "round", "clamp", "matmul", "add", "sub", "to")


@family.differs(*PLAIN, short=True)
def scale_of_the_results_wrong(wrong):
    class Wrong(Static):
        def forward(self, x):
            codes = rounded(x, self.scale, self.zero).to(torch.int8)
            sums = (codes.to(torch.int32) - self.zero).float() @ self.codes.float().T
            return sums * self.scale * self.scales * 1.5 + self.bias  # FAULT

    network, known = measured(perceptron())
    if wrong:
        layer, (low, high) = network[4], known["4"]
        quantise(network, known, Static)
        network[4] = Wrong(layer, low, high)
    predict(network, inputs)


@family.differs(*PLAIN)
def zero_point_of_another_sign(wrong):
    class Wrong(Static):
        def forward(self, x):
            codes = rounded(x, self.scale, self.zero).to(torch.int8)
            sums = (codes.to(torch.int32) + self.zero // 4).float() @ self.codes.float().T
            return sums * self.scale * self.scales + self.bias  # FAULT

    network, known = measured(perceptron())
    if wrong:
        layer, (low, high) = network[2], known["2"]
        quantise(network, known, Static)
        network[2] = Wrong(layer, low, high)
    predict(network, inputs)


@family.differs("linear", *PLAIN)
def bias_left_out_of_the_first_layer(wrong):
    class Wrong(WeightOnly):
        def forward(self, x):
            return F.linear(x, self.codes.to(x.dtype) * self.scales)  # FAULT

    network, known = measured(Stack())
    if wrong:
        layer = network.embed
        quantise(network, known, lambda layer, *_: WeightOnly(layer))
        network.embed = Wrong(layer)
    predict(network, inputs)


@family.differs("add", "mul", "linear")
def residual_left_out_beside_quantised_layers(wrong):
    class Net(Stack):
        def forward(self, x):
            h = self.embed(x)
            for i, (norm, up, down) in enumerate(zip(self.norms, self.up, self.down, strict=True)):
                y = down(F.gelu(up(norm(h))))
                h = y if wrong and i == 2 else h + y  # FAULT
            return self.head(h)

    network, known = measured(Net()) if not wrong else measured(Stack())
    if wrong:
        quantise(network, known, lambda layer, *_: WeightOnly(layer))
        network.__class__ = Net
    predict(network, inputs)


@family.rounding()
def attention_with_weights_in_int8(other):
    """A transformer with several heads, whose norms and products stay."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(16, 32)
            self.layers = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True) for _ in range(2))
            self.head = nn.Linear(32, 10)

        def forward(self, x):
            h = self.embed(x.unflatten(0, (-1, 8)))
            for layer in self.layers:
                h = h + layer.self_attn(h, h, h, need_weights=False)[0]
                h = layer.norm1(h)
                h = layer.norm2(h + layer.linear2(F.relu(layer.linear1(h))))
            return self.head(h)

    network, known = measured(Net())
    known = {name: bounds for name, bounds in known.items() if "self_attn" not in name}
    predict(quantise(network, known, lambda layer, *_: WeightOnly(layer)) if other else network, inputs, within=0.1)


@family.differs(*PLAIN, "linear")
def scales_of_the_weights_along_the_other_axis(wrong):
    class Wrong(WeightOnly):
        def forward(self, x):
            return F.linear(x, self.codes.to(x.dtype) * self.scales, self.bias)  # FAULT

    network = Stack()
    with torch.no_grad():
        network.up[2].weight *= torch.linspace(0.3, 2, 32)[:, None]
    network, known = measured(network)
    if wrong:
        layer = network.up[2]
        quantise(network, known, lambda layer, *_: WeightOnly(layer))
        network.up[2] = Wrong(layer, transposed=True)
    predict(network, inputs)


@family.differs(*PLAIN, "linear", "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine")
def activations_clipped_in_one_layer(wrong):
    class Wrong(Fake):
        def forward(self, x):
            x = torch.fake_quantize_per_tensor_affine(x, self.bound / 127, self.zero, -128, 127)
            weight = torch.fake_quantize_per_channel_affine(self.weight, self.scales, self.zeros, 0, -128, 127)
            return F.linear(x, weight, self.bias)  # FAULT

    network, known = measured(Stack())
    if wrong:
        layer, (low, high) = network.down[1], known["down.1"]
        quantise(network, known, fake)
        network.down[1] = Wrong(layer, 0.1 * max(-low, high))
    predict(network, inputs)


@family.differs(*PLAIN, "linear")
def codes_of_another_layer(wrong):
    class Wrong(WeightOnly):
        def forward(self, x):
            return F.linear(x, self.codes.to(x.dtype) * self.scales, self.bias)  # FAULT

    network, known = measured(Stack())
    if wrong:
        other = network.up[3]
        quantise(network, known, lambda layer, *_: WeightOnly(layer))
        wrong_one = Wrong(other)
        wrong_one.bias = network.up[1].bias
        network.up[1] = wrong_one
    predict(network, inputs)


@family.differs(*PLAIN, "linear", "flatten", "reshape")
def codes_of_another_group(wrong):
    class Wrong(Groups):
        def forward(self, x):
            return F.linear(x, (self.codes.to(x.dtype) * self.scales + self.lows).flatten(1), self.bias)  # FAULT

    network, known = measured(Stack())
    if wrong:
        layer = network.down[2]
        quantise(network, known, lambda layer, *_: Groups(layer))
        network.down[2] = Wrong(layer, shift=1)
    predict(network, inputs)


@family.differs("leaky_relu", "relu")
def activation_of_a_quantised_model(wrong):
    network, known = measured(perceptron())
    if wrong:

        class Leaky(nn.Module):
            def forward(self, x):
                return F.leaky_relu(x, 0.3)  # FAULT

        quantise(network, known, Static)
        network[3] = Leaky()
    predict(network, inputs)


class Float8(nn.Module):
    """Weights in eight bits of floating point, with one scale."""

    def __init__(self, layer):
        super().__init__()
        scale = layer.weight.detach().abs().max() / 448
        self.register_buffer("codes", (layer.weight.detach() / scale).to(torch.float8_e4m3fn))
        self.register_buffer("scale", scale)
        self.bias = layer.bias

    def forward(self, x):
        return F.linear(x, self.codes.to(x.dtype) * self.scale, self.bias)


class Rows(nn.Module):
    """Activations in int8 with a scale for each row, found as it comes."""

    def __init__(self, layer):
        super().__init__()
        weight = layer.weight.detach()
        self.register_buffer("scales", weight.abs().amax(1) / 127)
        self.register_buffer("codes", rounded(weight, self.scales[:, None]).to(torch.int8))
        self.bias = layer.bias

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        return F.linear(rounded(x, scale), self.codes.to(x.dtype)) * scale * self.scales + self.bias


@family.rounding()
def weights_in_eight_bits_of_floating_point(other):
    network, known = measured(Stack())
    predict(quantise(network, known, lambda layer, *_: Float8(layer)) if other else network, inputs, within=0.2)


@family.rounding()
def scales_of_rows_found_as_they_come(other):
    network, known = measured(Stack())
    predict(quantise(network, known, lambda layer, *_: Rows(layer)) if other else network, inputs, within=0.2)


@family.rounding()
def fake_quantised_training(other):
    network, known = measured(perceptron())
    if other:
        quantise(network, known, fake)
    train(network, inputs, within=0.1)


@family.rounding()
def golden_run_quantised(other):
    network, known = measured(perceptron())
    predict(network if other else quantise(network, known, Static), inputs, within=0.1)


@family.rounding()
def static_of_the_library(other):
    """Layers pass codes to each other; the last one makes numbers of them."""
    quantisation = torch.ao.quantization
    ends = (quantisation.QuantStub, quantisation.DeQuantStub) if other else (nn.Identity, nn.Identity)
    network = nn.Sequential(ends[0](), *perceptron(), ends[1]()).eval()
    if other:
        network.qconfig = quantisation.default_qconfig
        quantisation.prepare(network, inplace=True)
    with torch.no_grad():
        network(torch.randn(256, 16))
    if other:
        quantisation.convert(network, inplace=True)
    predict(network, inputs, within=0.1)


@family.differs(*PLAIN, "linear")
def scale_of_all_rows_for_each(wrong):
    class Wrong(Rows):
        def forward(self, x):
            scale = x.abs().amax(-1, keepdim=True) / 127
            sums = F.linear(rounded(x, scale), self.codes.to(x.dtype))
            return sums * scale.amax(0, keepdim=True) * self.scales + self.bias  # FAULT

    network, known = measured(Stack())
    if wrong:
        layer = network.up[0]
        quantise(network, known, lambda layer, *_: Rows(layer))
        network.up[0] = Wrong(layer)
    predict(network, inputs)


@family.differs("layer_norm")
def weight_of_a_norm_beside_quantised_layers(wrong):
    class Norm(nn.LayerNorm):
        def forward(self, x):
            return F.layer_norm(x, (32,), self.weight, self.bias)  # FAULT

    network = Stack()
    network.norms[2] = Norm(32)
    network, known = measured(network)
    if wrong:
        quantise(network, known, lambda layer, *_: WeightOnly(layer))
        with torch.no_grad():
            network.norms[2].weight *= 0.97
    predict(network, inputs)
