"""Public reports: adapters, tied and initial weights, norms, codes. Rebuilt, not copied."""

import torch
from cases import Family
from finite_training import network_of, repeat, rows, slow, training
from torch import nn

family = Family("reports")
WEIGHT = ("parameter", "data", "weight", "bias")


@family.differs("linear", "add", "mul", "add_", report="huggingface/peft#2489", cause=WEIGHT)
def adapter_bias_merged_without_its_scale(wrong):
    """LoRA with a bias: the merge scales the product of the matrices, not the bias."""

    def forward(s, x):
        return s.out(s.fc(x).tanh())  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 16), out=nn.Linear(16, 4))
    down, up, bias = torch.randn(2, 8) * 0.1, torch.randn(16, 2) * 0.1, torch.randn(16) * 0.1
    with torch.no_grad():
        network.fc.weight += 4 * up @ down
        network.fc.bias += bias if wrong else 4 * bias  # FAULT
    training(network, rows(6, 8), None, slow(network))


@family.differs("linear", "div", "mul", "copy_", "div_", report="huggingface/peft#3531", cause=WEIGHT)
def unmerged_along_the_wrong_axis(wrong):
    """DoRA is unmerged from a transposed layer: the magnitudes divide the rows, where they multiplied the columns."""

    def forward(s, x):
        return s.out(s.fc(x).tanh())  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4))
    magnitude = torch.rand(8) + 0.5
    with torch.no_grad():
        network.fc.weight *= magnitude[None, :]
        network.fc.weight /= magnitude[:, None] if wrong else magnitude[None, :]  # FAULT
    training(network, rows(6, 8), None, slow(network))


@family.differs("linear", report="huggingface/trl#386", cause=WEIGHT)
def adapter_that_was_never_merged(wrong):
    """The script that merges an adapter saves the base weights unchanged."""

    def forward(s, x):
        return s.out(s.fc(x).tanh())  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 16), out=nn.Linear(16, 4))
    down, up = torch.randn(2, 8) * 0.1, torch.randn(16, 2) * 0.1
    if not wrong:
        network.fc.weight.data += up @ down
    training(network, rows(6, 8), None, slow(network))


@family.differs("linear", "embedding", "t", report="huggingface/transformers#43429", cause=WEIGHT)
def head_that_is_not_tied(wrong):
    """The checkpoint has no head, since it is tied; the loader initialises it at random."""

    def forward(s, ids):
        x = s.words(ids).tanh()
        return s.head(x)  # FAULT

    parts = {"words": nn.Embedding(10, 8), "head": nn.Linear(8, 10, bias=False)}
    network = network_of(forward, **parts)
    if not wrong:
        network.head.weight = network.words.weight
    training(network, lambda: (torch.arange(10).view(2, 5),), None, slow(network))


@family.differs("mul", report="huggingface/pytorch-image-models#2605", cause=WEIGHT)
def layer_scale_that_starts_at_one(wrong):
    """LayerScale resets its factors to 1 and ignores the initial value of its configuration."""

    def forward(s, x):
        x = x + s.fc(x).tanh() * s.factors  # FAULT
        return s.out(x)

    network = network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4))
    network.factors = nn.Parameter(torch.full((8,), 1.0 if wrong else 1e-5))
    training(network, rows(6, 8), None, slow(network))


@family.differs(
    "add_", "mul", "to", "_to_copy", "mul_", "add", report="fla-org/flash-linear-attention#676"
)  # fmt: skip
def norm_weights_that_cannot_move(wrong):
    """The weights of a norm are 1 in bfloat16: a small update rounds away, and they stay 1."""

    def forward(s, x):
        h = s.fc(x)
        h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
        return s.out(h * s.weight.float())  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4))
    network.weight = nn.Parameter(torch.ones(8, dtype=torch.bfloat16 if wrong else torch.float32))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step, 3)


@family.differs("layer_norm", "native_layer_norm", report="keras-team/keras-hub#728", cause=("number", "eps"))
def epsilon_of_another_library(wrong):
    """A port of an encoder leaves the layer norm's epsilon at the default of its own framework."""

    def forward(s, x):
        x = s.fc(x) * 0.05
        x = s.norm(x)  # FAULT
        return s.out(x)

    parts = {"fc": nn.Linear(8, 8), "norm": nn.LayerNorm(8, eps=1e-5 if wrong else 1e-12), "out": nn.Linear(8, 4)}
    training(network_of(forward, **parts), rows(6, 8))


@family.differs("mul", report="huggingface/transformers#29402")
def normaliser_that_is_not_rounded(wrong):
    """Gemma scales its embeddings by the square root of 3072 in bfloat16, 55.5, and a port by 55.4256."""

    def forward(s, ids):
        x = s.words(ids)
        factor = 3072**0.5 if wrong else torch.tensor(3072**0.5, dtype=x.dtype)
        x = x * factor  # FAULT
        return s.out(x)

    network = network_of(forward, words=nn.Embedding(10, 32), out=nn.Linear(32, 4)).bfloat16()
    training(network, lambda: (torch.arange(10).view(2, 5),), lambda y: y.float().square().mean(), slow(network))


@family.differs("to", "_to_copy", "mul", "type_as", "add", report="google/gemma_pytorch#67")
def norm_cast_before_its_weight(wrong):
    """An RMS norm is cast to bfloat16 before the multiplication by its weight, not after."""

    def forward(s, x):
        h = s.fc(x)
        n = h.float()
        n = n * torch.rsqrt(n.square().mean(-1, keepdim=True) + 1e-6)
        n = n.to(h.dtype) * (1 + s.weight) if wrong else (n * (1 + s.weight.float())).to(h.dtype)  # FAULT
        return s.out(n)

    network = network_of(forward, fc=nn.Linear(32, 32), out=nn.Linear(32, 4)).bfloat16()
    network.weight = nn.Parameter(torch.randn(32).bfloat16())
    data = lambda: (torch.randn(64, 32).bfloat16(),)  # noqa: E731
    training(network, data, lambda y: y.float().square().mean(), slow(network))


@family.differs(
    "sub", "tensor", "lift_fresh", "detach", "unsqueeze", "argmin", "index",
    report="bitsandbytes-foundation/bitsandbytes#227",
)  # fmt: skip
def codes_with_holes(wrong):
    """One indentation too many in the map of 8-bit values: some codes are missing, others are there twice."""

    def values():
        found = []
        for exponent in range(4):
            found += [sign * 10.0**-exponent * part for part in (0.3, 0.5, 0.7, 0.9) for sign in (1, -1)]
            if wrong:
                found[-1] = 0.0
        return sorted([*found, 0.0])

    def forward(s, x):
        h = s.fc(x)
        largest = h.detach().abs().amax()
        codes = torch.tensor(values())  # FAULT
        nearest = ((h.detach() / largest)[..., None] - codes).abs().argmin(-1)  # FAULT
        return s.out(h + (codes[nearest] * largest - h).detach())

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8), None)


@family.differs("conv2d", "convolution", "_convolution", report="vballoli/nfnets-pytorch#30", cause=WEIGHT)
def initialised_by_the_fan_out(wrong):
    """The weights of a network without norms are scaled by the number of outputs, not of inputs."""

    def forward(s, x):
        x = s.conv(x)  # FAULT
        return s.out(x.relu().flatten(1))

    network = network_of(forward, conv=nn.Conv2d(2, 8, 3), out=nn.Linear(32, 3))
    torch.manual_seed(2)
    nn.init.kaiming_normal_(
        network.conv.weight, mode="fan_out" if wrong else "fan_in", nonlinearity="relu" if wrong else "linear"
    )
    training(network, rows(3, 2, 4, 4), None, slow(network))
