"""Two ways to compute the same: nothing is wrong."""

import torch
import torch.nn.functional as F
from cases import Family
from finite_training import (
    Transformer,
    adam,
    language,
    language_step,
    network_of,
    repeat,
    rows,
    slow,
    training,
    two_layers,
)
from torch import nn

family = Family("rounding")


def images(channels, last):
    first, second = nn.Conv2d(3, channels, 3), nn.Conv2d(channels, channels, 3)
    return nn.Sequential(first, nn.BatchNorm2d(channels), nn.ReLU(), second, nn.Flatten(), last)


def momentum(network, **options):
    return torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, **options)


@family.rounding()
def threads(other):
    torch.set_num_threads(2 if other else 1)
    network = images(16, nn.Linear(16 * 28 * 28, 10))
    training(network, rows(16, 3, 32, 32))


@family.rounding()
def threads_transformer(other):
    torch.set_num_threads(2 if other else 1)
    network = Transformer()
    language(network, adam(network))


@family.rounding()
def optimizer_foreach(other):
    network = Transformer()
    language(network, adam(network, foreach=other), steps=3)


@family.rounding(short=True)
def optimizer_fused(other):
    network = Transformer()
    language(network, adam(network, fused=other, foreach=False), steps=3)


@family.rounding()
def optimizer_fused_beside_foreach(other):
    network = Transformer()
    language(network, adam(network, **({"fused": True} if other else {"foreach": True})), steps=3)


@family.rounding()
def optimizer_sgd_foreach(other):
    network = Transformer()
    language(network, momentum(network, foreach=other), steps=3)


@family.rounding()
def optimizer_sgd_fused(other):
    network = Transformer()
    language(network, momentum(network, **({"fused": True} if other else {"foreach": False})), steps=3)


@family.rounding()
def attention_fused_or_not(other):
    network = Transformer(fused=not other)
    language(network, torch.optim.SGD(network.parameters(), lr=0.1))


@family.rounding()
def attention_math(other):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    network = Transformer()
    inner = language_step(network, torch.optim.SGD(network.parameters(), lr=0.1))

    def step():
        with sdpa_kernel(SDPBackend.MATH if other else SDPBackend.FLASH_ATTENTION):
            inner()

    repeat(step)


@family.rounding()
def channels_last(other):
    network = images(8, nn.Linear(8 * 8 * 8, 10))
    if other:
        network = network.to(memory_format=torch.channels_last)

    def data():
        x = torch.randn(4, 3, 12, 12)
        return (x.contiguous(memory_format=torch.channels_last) if other else x,)

    training(network, data)


@family.rounding(short=True)
def matmul_split(other):
    def forward(s, x):
        h = s.fc(x).tanh()
        w = s.mid.weight
        y = h[:, :16] @ w[:16] + h[:, 16:] @ w[16:] if other else h @ w
        return s.out(y.tanh())

    training(network_of(forward, fc=nn.Linear(16, 32), mid=nn.Linear(32, 32), out=nn.Linear(32, 4)), rows(8, 16))


@family.rounding()
def micro_batches(other):
    network = Transformer()
    language(network, torch.optim.SGD(network.parameters(), lr=0.1), parts=2 if other else 1)


@family.rounding()
def micro_batches_adam(other):
    network = Transformer()
    language(network, adam(network), parts=4 if other else 1)


@family.rounding()
def linear_or_addmm(other):
    def forward(s, x):
        h = torch.addmm(s.fc.bias, x, s.fc.weight.t()) if other else s.fc(x)
        return s.out(h.tanh())

    training(network_of(forward, fc=nn.Linear(16, 16), out=nn.Linear(16, 4)), rows(8, 16))


@family.rounding(short=True)
def linear_or_matmul(other):
    def linear(layer, x):
        return x @ layer.weight.t() + layer.bias if other else layer(x)

    def forward(s, x):
        h = linear(s.a, x).tanh()
        return linear(s.c, linear(s.b, h).relu() + h)

    training(network_of(forward, a=nn.Linear(16, 16), b=nn.Linear(16, 16), c=nn.Linear(16, 16)), rows(8, 16))


@family.rounding()
def sum_in_another_order(other):
    def forward(s, x):
        h = s.fc(x)
        m = h.flip(1).sum(1) if other else h.sum(1)
        return s.out(m)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 40, 8))


@family.rounding()
def bfloat16_autocast(other):
    torch.set_num_threads(2 if other else 1)
    network = Transformer()
    language(network, adam(network), cast=torch.bfloat16, steps=3)


@family.rounding()
def norm_by_hand(other):
    def forward(s, x):
        h = s.fc(x)
        if other:
            m = h.mean(-1, keepdim=True)
            v = (h - m).square().mean(-1, keepdim=True)
            h = (h - m) * torch.rsqrt(v + 1e-5) * s.norm.weight + s.norm.bias
        else:
            h = s.norm(h)
        return s.out(h)

    training(network_of(forward, fc=nn.Linear(16, 16), norm=nn.LayerNorm(16), out=nn.Linear(16, 4)), rows(8, 16))


@family.rounding()
def products_of_two_parts(other):
    """float32 as a high and a low part, and four products of them, as in matrix units."""

    def parts(t):
        wide = t.detach() * 4097.0
        high = wide - (wide - t.detach())
        return high, t - high

    def product(x, w):
        if not other:
            return x @ w
        (a, b), (c, d) = parts(x), parts(w)
        return a @ c + (a @ d + b @ c) + b @ d

    def forward(s, x):
        return s.out(product(s.fc(x).tanh(), s.mid.weight).tanh())

    training(network_of(forward, fc=nn.Linear(16, 32), mid=nn.Linear(32, 32), out=nn.Linear(32, 4)), rows(8, 16))


@family.rounding()
def same_twice(other):
    network = Transformer()
    language(network, adam(network), steps=3)


@family.rounding()
def sum_in_float64(other):
    def forward(s, x):
        h = s.fc(x)
        m = h.double().sum(1).float() if other else h.sum(1)
        return s.out(m)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 40, 8))


@family.rounding()
def division_or_product(other):
    def forward(s, x):
        h = s.fc(x)
        return s.out(h * (1 / 3) if other else h / 3)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.rounding()
def add_in_another_order(other):
    def forward(s, x):
        a, b, c = s.a(x), s.b(x), s.c(x)
        return s.out((a + b) + c if other else a + (b + c))

    parts = {n: nn.Linear(8, 8) for n in ("a", "b", "c")}
    training(network_of(forward, **parts, out=nn.Linear(8, 4)), rows(6, 8))


@family.rounding()
def softmax_by_hand(other):
    def forward(s, x):
        h = s.fc(x)
        if other:
            e = (h - h.amax(-1, keepdim=True)).exp()
            p = e / e.sum(-1, keepdim=True)
        else:
            p = h.softmax(-1)
        return s.out(p)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.rounding()
def convolution_by_unfold(other):
    def forward(s, x):
        if other:
            columns = F.unfold(x, 3)
            h = (s.conv.weight.view(3, -1) @ columns + s.conv.bias.view(1, -1, 1)).view(2, 3, 4, 4)
        else:
            h = s.conv(x)
        return h.tanh()

    training(network_of(forward, conv=nn.Conv2d(2, 3, 3)), rows(2, 2, 6, 6))


@family.rounding()
def einsum_or_matmul(other):
    def forward(s, x):
        q, k = s.q(x), s.k(x)
        scores = torch.einsum("bid,bjd->bij", q, k) if other else q @ k.transpose(1, 2)
        return s.out(scores.softmax(-1) @ k)

    training(network_of(forward, q=nn.Linear(8, 8), k=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.rounding()
def three_layers_in_one(other):
    def forward(s, x):
        if other:
            layers = (s.q, s.k, s.v)
            weight, bias = (torch.cat([getattr(layer, name) for layer in layers]) for name in ("weight", "bias"))
            q, k, v = F.linear(x, weight, bias).chunk(3, -1)
        else:
            q, k, v = s.q(x), s.k(x), s.v(x)
        return s.out((q @ k.transpose(1, 2)).softmax(-1) @ v)

    parts = {n: nn.Linear(8, 8) for n in ("q", "k", "v")}
    training(network_of(forward, **parts, out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.rounding()
def cross_entropy_by_hand(other):
    target = torch.tensor([0, 1, 2, 1, 0, 2])

    def loss(y):
        if other:
            return -y.log_softmax(-1).gather(1, target[:, None]).mean()
        return F.cross_entropy(y, target)

    training(network_of(lambda s, x: s.fc(x), fc=nn.Linear(8, 3)), rows(6, 8), loss)


@family.rounding()
def norm_clipped_by_lists(other):
    network = two_layers()

    def between(s):
        nn.utils.clip_grad_norm_(s.parameters(), 0.01, foreach=other)

    training(network, rows(6, 8), None, slow(network), between)


@family.rounding()
def checkpointed(other):
    from torch.utils.checkpoint import checkpoint

    def forward(s, x):
        def inner(y):
            return s.b(s.a(y).tanh()).tanh()

        h = checkpoint(inner, x, use_reentrant=False) if other else inner(x)
        return s.out(h)

    parts = {"a": nn.Linear(8, 16), "b": nn.Linear(16, 8), "out": nn.Linear(8, 4)}
    training(network_of(forward, **parts), rows(6, 8))
