"""Programs that train in another way, and one thing wrong: weights, optimizers, gradients, runs."""

import copy

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import mean_square, note, predict, rows, same_weights, sgd, train
from torch import nn
from torch.utils.checkpoint import checkpoint

family = Family("rewrites with a fault")


def network_of(forward, **modules):
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            for name, module in modules.items():
                self.add_module(name, module)

        def forward(self, x):
            return forward(self, x)

    return Network()


def adapted(width=8, rank=2):
    names = {"base": (width, width), "down": (width, rank), "up": (rank, width)}
    return nn.ModuleDict({name: nn.Linear(*shape, bias=name == "base") for name, shape in names.items()})


@torch.no_grad()
def merge(layer, times=1):
    layer["base"].weight += times * layer["up"].weight @ layer["down"].weight


@family.differs("linear")
def adapter_merged_twice(wrong):
    def forward(s, x):
        h = s.a["base"](x) if wrong else s.a["base"](x) + s.a["up"](s.a["down"](x))
        h = h.tanh()
        h = s.b["base"](h) if wrong else s.b["base"](h) + s.b["up"](s.b["down"](h))  # FAULT
        return s.head(h.tanh())

    network = network_of(forward, a=adapted(), b=adapted(), head=nn.Linear(8, 3))
    if wrong:
        merge(network.a)
        merge(network.b, times=2)
    predict(network, rows(4, 8))


@family.differs("gelu")
def activation_after_merged_adapter(wrong):
    def forward(s, x):
        h = s.a["base"](x) if wrong else s.a["base"](x) + s.a["up"](s.a["down"](x))
        return s.head(F.gelu(h, approximate="tanh" if wrong else "none"))  # FAULT

    network = network_of(forward, a=adapted(), head=nn.Linear(8, 3))
    if wrong:
        merge(network.a)
    predict(network, rows(4, 8))


def fold(layer, norm, eps):
    with torch.no_grad():
        scale = norm.weight / (norm.running_var + eps).sqrt()
        layer.weight.mul_(scale[:, None])
        layer.bias.copy_((layer.bias - norm.running_mean) * scale + norm.bias)


def measured(width):
    norm = nn.BatchNorm1d(width).eval()
    norm.running_mean.uniform_(-0.5, 0.5)
    norm.running_var.uniform_(0.5, 2)
    return norm


@family.differs("linear")
def batch_norm_folded_with_another_epsilon(wrong):
    def forward(s, x):
        h = s.a(x) if wrong else s.first(s.a(x))
        h = h.relu()
        h = s.b(h) if wrong else s.second(s.b(h))  # FAULT
        return s.head(h.relu())

    parts = {"a": nn.Linear(6, 8), "first": measured(8), "b": nn.Linear(8, 8), "second": measured(8)}
    network = network_of(forward, **parts, head=nn.Linear(8, 3))
    if wrong:
        fold(network.a, network.first, 1e-5)
        fold(network.b, network.second, 1e-1)
    predict(network, rows(4, 6))


@family.differs("hardtanh", "tanh", "clamp")
def activation_after_folded_batch_norm(wrong):
    def forward(s, x):
        h = s.a(x) if wrong else s.norm(s.a(x))
        h = F.hardtanh(h) if wrong else h.tanh()  # FAULT
        return s.head(h)

    network = network_of(forward, a=nn.Linear(6, 8), norm=measured(8), head=nn.Linear(8, 3))
    if wrong:
        fold(network.a, network.norm, 1e-5)
    predict(network, rows(4, 6))


@family.differs("div", "mul", "softmax")
def temperature_after_scaled_queries(wrong):
    def forward(s, x):
        scores = s.q(x) @ s.k(x).mT
        if not wrong:
            scores = scores * 0.25
        h = scores.softmax(-1) @ x
        return s.head((h / (0.6 if wrong else 0.5)).softmax(-1))  # FAULT

    network = network_of(forward, q=nn.Linear(8, 8), k=nn.Linear(8, 8), head=nn.Linear(8, 3))
    if wrong:
        with torch.no_grad():
            network.q.weight *= 0.25
            network.q.bias *= 0.25
    predict(network, rows(2, 5, 8))


@family.differs("relu", "leaky_relu")
def activation_of_layers_defined_in_another_order(wrong):
    def forward(s, x):
        h = s.inner(x)
        h = F.leaky_relu(h, 0.1) if wrong else F.relu(h)  # FAULT
        return s.out(h)

    parts = {"inner": nn.Linear(6, 8), "out": nn.Linear(8, 3)}
    network = network_of(forward, **(dict(reversed(parts.items())) if wrong else parts))
    same_weights(network.inner, network.out)
    train(network, rows(4, 6), optimizer=torch.optim.AdamW(network.parameters(), lr=1e-2))


@family.differs("mul_", "mul", "add_", "_foreach_add_")
def gradient_scaled_before_a_reversed_optimizer(wrong):
    network = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    parameters = list(network.parameters())
    optimizer = torch.optim.SGD(parameters[::-1] if wrong else parameters, lr=1e-3, momentum=0.9)
    for step in range(3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss = mean_square(network(torch.randn(4, 8)))
        loss.backward()
        if wrong:
            network[2].weight.grad.mul_(3)  # FAULT
        optimizer.step()
        note(loss)


@family.differs("layer_norm", "native_layer_norm")
def epsilon_before_a_fused_optimizer(wrong):
    def forward(s, x):
        return s.out(s.norm(s.inner(x)))  # FAULT

    norm = nn.LayerNorm(8, eps=1e-3 if wrong else 1e-5)
    network = network_of(forward, inner=nn.Linear(6, 8), norm=norm, out=nn.Linear(8, 3))
    options = {"fused": True} if wrong else {"foreach": False}
    train(network, rows(4, 6), optimizer=torch.optim.AdamW(network.parameters(), lr=1e-3, **options))


@family.differs("detach", "tanh", "add", "mul")
def detach_beside_decay_by_hand(wrong):
    def forward(s, x):
        h = s.inner(x)
        gate = h.tanh().detach() if wrong else h.tanh()  # FAULT
        return s.out(h * gate)

    network = network_of(forward, inner=nn.Linear(6, 8), out=nn.Linear(8, 3))
    kind = torch.optim.Adam if wrong else torch.optim.AdamW
    optimizer = kind(network.parameters(), lr=1e-3, weight_decay=0 if wrong else 0.1)
    for step in range(3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss = mean_square(network(torch.randn(4, 6)))
        loss.backward()
        if wrong:
            with torch.no_grad():
                torch._foreach_mul_(list(network.parameters()), 1 - 1e-4)
        optimizer.step()
        note(loss)


@family.differs("mul")
def loss_scaled_before_norm_clipped_by_hand(wrong):
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = sgd(network)
    for step in range(3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        y = network(torch.randn(4, 6))
        loss = mean_square(y * (1.2 if wrong else 1.0))  # FAULT
        loss.backward()
        if wrong:
            total = torch.cat([p.grad.flatten() for p in network.parameters()]).norm()
            for p in network.parameters():
                p.grad.mul_((0.5 / (total + 1e-6)).clamp(max=1))
        else:
            nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimizer.step()
        note(loss)


@family.differs("ones_like", "add_", "mul_", "lerp_", "div", "mean", "sub_", "linear", "addcmul_", "addcdiv_")
def parts_of_a_batch_not_divided(wrong):
    """Gradient accumulation that forgets the division: gradients are twice the golden ones."""
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = sgd(network)
    for step in range(3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        for part in torch.randn(8, 6).chunk(2 if wrong else 1):
            loss = mean_square(network(part))  # FAULT
            loss.backward()  # FAULT
        optimizer.step()  # FAULT
        note(loss)


@family.differs("gelu")
def activation_beside_a_checkpoint(wrong):
    def forward(s, x):
        h = s.inner(x)
        h = h + (checkpoint(s.block, h, use_reentrant=False) if wrong else s.block(h))
        return s.out(F.gelu(h, approximate="tanh" if wrong else "none"))  # FAULT

    block = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    train(network_of(forward, inner=nn.Linear(6, 8), block=block, out=nn.Linear(8, 3)), rows(4, 6))


@family.differs("dropout", "native_dropout", "bernoulli_", "empty_like", "div_", "mul")
def dropout_of_another_mask_in_the_recomputation(wrong):
    def inner(s, h):
        return s.b(F.dropout(s.a(h).relu(), 0.5))  # FAULT

    def forward(s, x):
        if wrong:
            return s.out(checkpoint(inner, s, x, use_reentrant=False, preserve_rng_state=False))
        return s.out(inner(s, x))

    train(network_of(forward, a=nn.Linear(8, 16), b=nn.Linear(16, 8), out=nn.Linear(8, 4)), rows(4, 8))


@family.differs("hardtanh", "tanh", "clamp")
def activation_beside_a_compiled_block(wrong):
    def forward(s, x):
        h = s.inner(x)
        h = h + s.block(h)
        return s.out(F.hardtanh(h) if wrong else h.tanh())  # FAULT

    block = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
    network = network_of(forward, inner=nn.Linear(6, 8), block=block, out=nn.Linear(8, 3))
    if wrong:
        network.block.compile(backend="aot_eager")
    train(network, rows(4, 6))


@family.differs("linear")
def weights_rounded_in_a_copied_model(wrong):
    def forward(s, x):
        h = s.a(x).relu()
        h = s.b(h).relu()  # FAULT
        return s.c(h)

    network = network_of(forward, a=nn.Linear(6, 8), b=nn.Linear(8, 8), c=nn.Linear(8, 3))
    if wrong:
        network = copy.deepcopy(network)
        state = {name: p.bfloat16().float() if name == "b.weight" else p for name, p in network.state_dict().items()}
        network.load_state_dict(state)
    train(network, rows(4, 6))


@family.differs("mul", "mul_")
def hook_that_scales_beside_hooks_that_do_nothing(wrong):
    def forward(s, x):
        return s.c(s.b(s.a(x).tanh()).tanh())

    network = network_of(forward, a=nn.Linear(6, 8), b=nn.Linear(8, 8), c=nn.Linear(8, 3))
    if wrong:
        network.a.register_forward_hook(lambda module, inputs, output: None)
        network.b.register_forward_hook(lambda module, inputs, output: output * 1.1)  # FAULT
        network.c.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    train(network, rows(4, 6))
