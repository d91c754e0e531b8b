"""Public reports in which nothing was wrong with the program, or nothing is any more. Rebuilt, not copied."""

import math

import torch
from cases import Family
from finite_training import Transformer, language, network_of, repeat, rows, slow, training
from torch import nn
from torch.nn import functional as F
from training import Small, batch, train

family = Family("reports")
INF = float("inf")


@family.healthy(report="pytorch/pytorch#4320")
def deviation_of_a_constant():
    """The gradient of std at a constant was NaN once; today PyTorch fills the 0 / 0 of its formula with 0."""
    train(Small(lambda y: torch.cat([y, y * 0 + 1], 1).std(0)))


@family.healthy(report="pytorch/pytorch#2775")
def norm_of_a_zero_vector():
    """The gradient of norm at zero was NaN once; today PyTorch fills the 0 / 0 of its formula with 0."""
    train(Small(lambda y: torch.cat([y, y * 0]).norm(dim=1)))


@family.healthy(report="pytorch/pytorch#103963")
def fused_attention_of_a_masked_row():
    """Fused attention gave NaN for a row that is all masked; today it gives zeros."""

    def attend(q):
        x = q.view(1, 1, 6, 4)
        seen = torch.ones(6, 6, dtype=torch.bool)
        seen[4:], seen[:, 4:] = False, False
        return F.scaled_dot_product_attention(x, x, x, seen).view(6, 4)

    train(Small(attend))


def scaled(init, interval=2000, steps=4):
    """A network whose gradients are float16 and are scaled by a loss scale that begins too large, or grows to be."""
    net = nn.Linear(4, 2).half()
    masters = [nn.Parameter(p.detach().float()) for p in net.parameters()]
    optimizer = torch.optim.SGD(masters, lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=init, growth_interval=interval)
    for _ in range(steps):
        for p, master in zip(net.parameters(), masters, strict=True):
            p.data.copy_(master.data)
            p.grad = None
        loss = net(batch().half()).float().square().mean()
        scaler.scale(loss).backward()
        for p, master in zip(net.parameters(), masters, strict=True):
            master.grad = p.grad.float()
        scaler.step(optimizer)
        scaler.update()


@family.healthy(report="facebookresearch/swav#47")
def first_scale_is_too_large():
    """ "Gradient overflow. Skipping step": the dynamic loss scale begins high and halves until gradients fit."""
    scaled(2.0**18)


@family.healthy(report="NVIDIA/apex#864")
def scale_grows_until_it_is_too_large():
    """The loss scale doubles after each good step, overflows once, and goes back."""
    scaled(2.0**13, interval=1, steps=6)


@family.rounding(report="huggingface/transformers#25420")
def keys_from_a_cache_in_bfloat16(other):
    """Logits with a key and value cache differ a little in bfloat16: products have other shapes."""

    def forward(s, x):
        if not other:
            k, v, parts = s.k(x), s.v(x), [x]
        else:
            parts = x.split(3, 1)
            k, v = (torch.cat([f(p) for p in parts], 1) for f in (s.k, s.v))
        outs, start = [], 0
        for part in parts:
            q, end = s.q(part), start + part.shape[1]
            seen = torch.ones(end - start, end).tril(start).bool()
            scores = (q @ k[:, :end].transpose(1, 2)).masked_fill(~seen, -INF)
            outs.append(s.out(scores.softmax(-1) @ v[:, :end]))
            start = end
        return torch.cat(outs, 1)

    network = network_of(forward, **{name: nn.Linear(16, 16) for name in ("q", "k", "v", "out")}).bfloat16()
    data = lambda: (torch.randn(2, 6, 16).bfloat16(),)  # noqa: E731
    training(network, data, lambda y: y.float().square().mean(), slow(network))


@family.rounding(report="pytorch/pytorch#151912")
def fused_and_plain_attention_in_bfloat16(other):
    """Two kernels of the same attention differ in bfloat16 as far as its rounding goes."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    network = Transformer()
    with sdpa_kernel(SDPBackend.MATH if other else SDPBackend.FLASH_ATTENTION):
        language(network, slow(network), cast=torch.bfloat16)


@family.rounding(report="speedinghzl/Pytorch-Deeplab#2")
def logarithms_normalised_twice(other):
    """log_softmax before a cross entropy, which has its own: the second one changes nothing."""
    target = torch.tensor([0, 1, 2, 3, 0, 1])

    def loss(y):
        return F.cross_entropy(y.log_softmax(-1) if other else y, target)

    network = network_of(lambda s, x: s.out(s.fc(x).tanh()), fc=nn.Linear(8, 16), out=nn.Linear(16, 4))
    training(network, rows(6, 8), loss)


@family.rounding(report="NVIDIA/Megatron-LM#320")
def scores_scaled_by_the_layer_and_back(other):
    """Query and key are divided by the layer's number more, and softmax multiplies by it: the same attention."""

    def forward(s, x):
        layer = 3.0 if other else 1.0
        scores = s.q(x) @ s.k(x).transpose(1, 2) / (math.sqrt(8) * layer)
        return s.out((scores * layer).softmax(-1) @ s.v(x))

    network = network_of(forward, **{name: nn.Linear(8, 8) for name in ("q", "k", "v", "out")})
    training(network, rows(2, 5, 8))


@family.rounding(report="vllm-project/vllm#945")
def slopes_counted_from_another_token(other):
    """ALiBi counts distances from the last token or from the next one: a constant in each row, which softmax drops."""

    def forward(s, x):
        bias = 0.25 * (torch.arange(5) - 5 + (1 if other else 0))
        scores = s.q(x) @ s.k(x).transpose(1, 2) + bias
        return s.out(scores.softmax(-1) @ s.v(x))

    network = network_of(forward, **{name: nn.Linear(8, 8) for name in ("q", "k", "v", "out")})
    training(network, rows(2, 5, 8))


@family.rounding(report="pytorch/pytorch#140092")
def epsilon_rounded_to_bfloat16(other):
    """In bfloat16 the epsilon 1e-5 of a layer norm becomes 1.00136e-5, which no result shows."""

    def forward(s, x):
        return s.out(F.layer_norm(s.fc(x), (16,), eps=1.00136e-5 if other else 1e-5))

    network = network_of(forward, fc=nn.Linear(16, 16), out=nn.Linear(16, 4)).bfloat16()
    data = lambda: (torch.randn(8, 16).bfloat16(),)  # noqa: E731
    training(network, data, lambda y: y.float().square().mean(), slow(network))


@family.rounding(report="rusty1s/pytorch_scatter#226")
def messages_added_in_another_order(other):
    """A sum over the edges of a graph depends on their order, as far as rounding goes."""

    def forward(s, x):
        to, of = torch.tensor([0, 1, 2, 0, 1, 2, 0, 0, 1]), torch.tensor([3, 4, 5, 1, 2, 0, 2, 4, 5])
        order = torch.arange(8, -1, -1) if other else torch.arange(9)
        messages = s.fc(x)[of[order]]
        return s.out(torch.zeros(6, 8).index_add(0, to[order], messages))

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.rounding(report="pytorch/pytorch#106171")
def compiled_or_not(other):
    """torch.compile uses other kernels, and its output differs from that of the eager program a little."""
    network = network_of(lambda s, x: s.out(s.norm(F.gelu(s.fc(x)))), fc=nn.Linear(8, 16), norm=nn.LayerNorm(16),
                         out=nn.Linear(16, 4))  # fmt: skip
    optimizer = slow(network)
    called = torch.compile(network, backend="aot_eager") if other else network

    def step():
        optimizer.zero_grad()
        called(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()

    repeat(step)
