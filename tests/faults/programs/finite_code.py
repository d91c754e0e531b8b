"""Programs that compute something else."""

import math

import torch
import torch.nn.functional as F
from cases import Family
from finite_training import (
    network_of,
    repeat,
    rows,
    training,
    two_layers,
)
from torch import nn

family = Family("wrong code")


@family.differs("gelu", "relu", "silu")
def activation(wrong):
    def forward(s, x):
        h = s.fc(x)
        return s.out(F.silu(h) if wrong else F.gelu(h))  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("gelu")
def gelu_by_tanh(wrong):
    def forward(s, x):
        return s.out(F.gelu(s.fc(x), approximate="tanh" if wrong else "none"))  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("layer_norm", "native_layer_norm", short=True)
def norm_epsilon(wrong):
    def forward(s, x):
        return s.out(s.norm(s.fc(x)))  # FAULT

    parts = {"fc": nn.Linear(8, 8), "norm": nn.LayerNorm(8, eps=1e-6 if wrong else 1e-5), "out": nn.Linear(8, 4)}
    training(network_of(forward, **parts), rows(6, 8))


@family.differs("layer_norm", "native_layer_norm")
def norm_epsilon_bfloat16(wrong):
    def forward(s, x):
        return s.out(s.norm(s.fc(x)))  # FAULT

    parts = {"fc": nn.Linear(32, 32), "norm": nn.LayerNorm(32, eps=1e-6 if wrong else 1e-5), "out": nn.Linear(32, 4)}
    training(network_of(forward, **parts).bfloat16(), lambda: (torch.randn(16, 32).bfloat16(),))


@family.differs("matmul", "mm", "t", "transpose")
def matrix_transposed(wrong):
    def forward(s, x):
        h = x @ (s.w.weight if wrong else s.w.weight.t())  # FAULT
        return s.out(h.tanh())

    training(network_of(forward, w=nn.Linear(8, 8, bias=False), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("softmax")
def softmax_dim(wrong):
    def forward(s, x):
        h = s.fc(x)
        return s.out(h.softmax(0 if wrong else 1))  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(8, 8))


@family.differs("slice", "mean")
def slice_off_by_one(wrong):
    def forward(s, x):
        h = s.fc(x)
        return s.out(h[:, 1:] if wrong else h[:, :-1])  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.differs("div", "softmax", "matmul")
def scale_forgotten(wrong):
    def forward(s, x):
        q, k, v = s.q(x), s.k(x), s.v(x)
        scores = q @ k.transpose(-1, -2)  # FAULT
        if not wrong:
            scores = scores / math.sqrt(8)  # FAULT
        return s.out(scores.softmax(-1) @ v)  # FAULT

    parts = {n: nn.Linear(8, 8) for n in ("q", "k", "v")}
    training(network_of(forward, **parts, out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.differs("sum", "mean")
def sum_for_mean(wrong):
    def loss(y):
        return y.square().sum() if wrong else y.square().mean()  # FAULT

    training(two_layers(), rows(6, 8), loss)


@family.differs("dropout", "native_dropout", "bernoulli_", "div_", "mul")
def dropout_probability(wrong):
    def forward(s, x):
        return s.out(s.drop(s.fc(x)))  # FAULT

    parts = {"fc": nn.Linear(8, 8), "drop": nn.Dropout(0.3 if wrong else 0.1), "out": nn.Linear(8, 4)}
    training(network_of(forward, **parts), rows(6, 8))


@family.differs("dropout", "native_dropout", "bernoulli_", "linear", "div_", "empty_like", "mul")
def dropout_left_out(wrong):
    def forward(s, x):
        return s.out(s.drop(s.fc(x)))  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 8), drop=nn.Dropout(0.2), out=nn.Linear(8, 4))
    if wrong:
        network.drop.eval()
    training(network, rows(6, 8))


@family.differs("pad", "reflection_pad1d", "replication_pad1d", "constant_pad_nd")
def padding_mode(wrong):
    def forward(s, x):
        h = F.pad(x, (1, 1), mode="replicate" if wrong else "reflect")  # FAULT
        return s.conv(h)

    training(network_of(forward, conv=nn.Conv1d(4, 4, 3)), rows(2, 4, 9))


@family.differs("triu", "masked_fill", "tril")
def mask_off_by_one(wrong):
    def forward(s, x):
        h = s.fc(x)
        mask = torch.ones(5, 5).triu(2 if wrong else 1).bool()  # FAULT
        scores = (h @ h.transpose(-1, -2)).masked_fill(mask, float("-inf"))
        return s.out(scores.softmax(-1) @ h)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.differs("masked_fill")
def mask_value(wrong):
    def forward(s, x):
        h = s.fc(x)
        mask = torch.ones(5, 5).triu(1).bool()
        scores = (h @ h.transpose(-1, -2)).masked_fill(mask, 0.0 if wrong else float("-inf"))  # FAULT
        return s.out(scores.softmax(-1) @ h)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.differs("mul", "add")
def loss_weight(wrong):
    def forward(s, x):
        h = s.fc(x)
        return s.out(h), h

    def loss(y):
        return y[0].square().mean() + (0.01 if wrong else 0.1) * y[1].abs().mean()  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8), loss)


@family.differs("detach", "add", "mul", "add_", "alias", short=True)
def detach_forgotten(wrong):
    def forward(s, x):
        h = s.fc(x)
        target = h.tanh() if wrong else h.tanh().detach()  # FAULT
        return s.out(h) - target

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 8)), rows(6, 8))


@family.differs("detach")
def detach_inserted(wrong):
    def forward(s, x):
        h = s.fc(x).tanh()
        g = s.gate(h.detach() if wrong else h).sigmoid()  # FAULT
        return s.out(h * g)

    training(network_of(forward, fc=nn.Linear(8, 8), gate=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("mul_", "add_")
def momentum(wrong):
    network = two_layers()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.8 if wrong else 0.9)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("add", "add_")
def weight_decay(wrong):
    network = two_layers()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4, weight_decay=0.02 if wrong else 0.01)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("add_", short=True)
def learning_rate(wrong):
    network = two_layers()
    optimizer = torch.optim.SGD(network.parameters(), lr=1.1e-4 if wrong else 1e-4)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("lerp_")
def beta_one(wrong):
    network = two_layers()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, betas=(0.8 if wrong else 0.9, 0.999))

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("mul_")
def decay_of_adamw(wrong):
    network = two_layers()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, weight_decay=0.1 if wrong else 0.01)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("cross_entropy_loss", "log_softmax", "nll_loss", "nll_loss_nd")
def label_smoothing(wrong):
    target = torch.tensor([0, 1, 2, 1, 0, 2])

    def loss(y):
        return F.cross_entropy(y, target, label_smoothing=0.1 if wrong else 0.0)  # FAULT

    training(network_of(lambda s, x: s.fc(x), fc=nn.Linear(8, 3)), rows(6, 8), loss)


@family.differs("mean", "var", "std")
def variance_unbiased(wrong):
    def forward(s, x):
        h = s.fc(x)
        v = h.var(-1, keepdim=True, unbiased=wrong)  # FAULT
        return s.out((h - h.mean(-1, keepdim=True)) / (v + 1e-5).sqrt())

    training(network_of(forward, fc=nn.Linear(32, 32), out=nn.Linear(32, 4)), rows(6, 32))


@family.differs("batch_norm")
def batch_norm_in_evaluation(wrong):
    def forward(s, x):
        return s.out(s.norm(s.fc(x)))  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 8), norm=nn.BatchNorm1d(8), out=nn.Linear(8, 4))
    if wrong:
        network.norm.eval()
    training(network, rows(6, 8))


@family.differs("view", "transpose", "reshape", "clone", "permute")
def heads_by_view(wrong):
    def forward(s, x):
        h = s.fc(x)
        h = h.view(2, 2, 5, 4) if wrong else h.view(2, 5, 2, 4).transpose(1, 2)  # FAULT
        return s.out(h.tanh().flatten(2))  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(20, 4)), rows(2, 5, 8))


@family.differs("upsample_nearest2d", "upsample_bilinear2d")
def interpolation(wrong):
    def forward(s, x):
        h = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=wrong)  # FAULT
        return s.conv(h)

    training(network_of(forward, conv=nn.Conv2d(2, 2, 3)), rows(2, 2, 5, 5))


@family.differs("add", "linear")
def bias_added_twice(wrong):
    def forward(s, x):
        h = s.fc(x)
        if wrong:
            h = h + s.fc.bias  # FAULT
        return s.out(h.tanh())  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("slice", "cross_entropy_loss", "reshape", "view")
def targets_not_shifted(wrong):
    ids = torch.tensor([[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]])

    def forward(s, x):
        logits = s.head(s.embed(x).tanh())
        goal = x[:, :-1] if wrong else x[:, 1:]  # FAULT
        return F.cross_entropy(logits[:, :-1].reshape(-1, 8), goal.reshape(-1))

    training(network_of(forward, embed=nn.Embedding(8, 8), head=nn.Linear(8, 8)), lambda: (ids,), lambda y: y)


@family.differs("clamp", "clamp_min", "clamp_max")
def clamp_bound(wrong):
    def forward(s, x):
        return s.out(s.fc(x).clamp(-0.5, 0.4 if wrong else 0.5))  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("convolution", "conv2d")
def conv_padding(wrong):
    def forward(s, x):
        h = F.conv2d(x, s.conv.weight, s.conv.bias, stride=2, padding=1, dilation=1)  # FAULT
        if wrong:
            h = F.conv2d(x.roll(1, -1), s.conv.weight, s.conv.bias, stride=2, padding=1)  # FAULT
        return h.tanh()

    training(network_of(forward, conv=nn.Conv2d(2, 3, 3)), rows(2, 2, 6, 6))


@family.differs("index", "index_select", "select")
def last_row_of_another(wrong):
    def forward(s, x):
        y, _ = s.rnn(x)
        return s.out(y[:, -2] if wrong else y[:, -1])  # FAULT

    training(network_of(forward, rnn=nn.GRU(6, 8, batch_first=True), out=nn.Linear(8, 4)), rows(3, 5, 6))


@family.differs("add_")
def schedule_off(wrong):
    network = two_layers()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1 if wrong else 2, 0.5)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT
        schedule.step()

    repeat(step, 3)


@family.differs("index", "randperm", "add", "mul", "sub", "lift_fresh")
def batch_permuted(wrong):
    def forward(s, x):
        h = s.fc(x)
        other = h[[1, 0, 3, 2, 5, 4] if wrong else [0, 1, 2, 3, 4, 5]]  # FAULT
        return s.out(h - 0.3 * other)  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("mean", "sum")
def mean_over_other_dim(wrong):
    def forward(s, x):
        h = s.fc(x).view(4, 4, 8)
        return s.out(h.mean(0 if wrong else 1))  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(16, 8))


@family.differs("avg_pool2d", "max_pool2d", "max_pool2d_with_indices")
def pooling(wrong):
    def forward(s, x):
        h = s.conv(x)
        h = F.avg_pool2d(h, 2) if wrong else F.max_pool2d(h, 2)  # FAULT
        return s.out(h.flatten(1))

    training(network_of(forward, conv=nn.Conv2d(2, 3, 3), out=nn.Linear(12, 4)), rows(2, 2, 6, 6))


@family.differs("conv2d", "convolution", "flip")
def convolution_flipped(wrong):
    def forward(s, x):
        w = s.conv.weight.flip(-1) if wrong else s.conv.weight  # FAULT
        return F.conv2d(x, w, s.conv.bias, padding=1).tanh()  # FAULT

    training(network_of(forward, conv=nn.Conv2d(2, 3, 3)), rows(2, 2, 6, 6))


@family.differs("leaky_relu", "relu", "threshold_backward")
def leak(wrong):
    def forward(s, x):
        return s.out(F.leaky_relu(s.fc(x), 0.02 if wrong else 0.01))  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("layer_norm", "native_layer_norm", "linear", "add")
def norm_after_in_place_of_before(wrong):
    def forward(s, x):
        h = s.fc(x)
        return s.out(s.norm(h + x) if wrong else h + s.norm(x))  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), norm=nn.LayerNorm(8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("mul", "add")
def residual_scaled(wrong):
    def forward(s, x):
        h = s.fc(x)
        return s.out(x + h * (1.0 if not wrong else 0.7) if wrong else x + h)  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("sqrt", "rsqrt", "add", "mul", "div")
def epsilon_outside_the_root(wrong):
    def forward(s, x):
        h = s.fc(x)
        m = h.square().mean(-1, keepdim=True)
        h = h / (m.sqrt() + 1e-2) if wrong else h / (m + 1e-2).sqrt()  # FAULT
        return s.out(h)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
def loss_function(wrong):
    goal = torch.linspace(-1, 1, 24).view(6, 4)

    def loss(y):
        return F.smooth_l1_loss(y, goal, beta=0.5 if wrong else 1.0)  # FAULT

    training(two_layers(), rows(6, 8), loss)


@family.differs("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss_forward")
def ignored_index(wrong):
    target = torch.tensor([0, 1, 2, 1, 0, 2])

    def loss(y):
        return F.cross_entropy(y, target, ignore_index=0 if wrong else -100)  # FAULT

    training(network_of(lambda s, x: s.fc(x), fc=nn.Linear(8, 3)), rows(6, 8), loss)


@family.differs("add_", "addcdiv_", "add", "div", "sqrt")
def epsilon_of_adam(wrong):
    network = two_layers()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-4 if wrong else 1e-8)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("addcmul_", "mul_", "mul")
def beta_two(wrong):
    network = two_layers()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, betas=(0.9, 0.99 if wrong else 0.999))

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("_foreach_mul_", "_fused_adamw_", "linear", "_foreach_addcdiv_")
def decay_of_foreach(wrong):
    def forward(s, x):
        return s.out(s.fc(x).tanh())

    network = network_of(forward, fc=nn.Linear(8, 16), out=nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.1 if wrong else 0.01, foreach=True)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("_fused_adamw_", "_fused_adam_")
def rate_of_fused(wrong):
    network = two_layers()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1.2e-3 if wrong else 1e-3, fused=True)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("add", "sub", "add_", "neg")
def nesterov(wrong):
    network = two_layers()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9, nesterov=wrong)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu", "mul", "transpose")
def attention_scale(wrong):
    def forward(s, x):
        q, k, v = s.qkv(x).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v, scale=0.25 if wrong else None)  # FAULT
        return s.out(y)

    training(network_of(forward, qkv=nn.Linear(8, 24), out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.differs("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu", "transpose")
def attention_not_causal(wrong):
    def forward(s, x):
        q, k, v = s.qkv(x).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=not wrong)  # FAULT
        return s.out(y)

    training(network_of(forward, qkv=nn.Linear(8, 24), out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.differs("detach", "add_", "mul", "sub")
def teacher_not_detached(wrong):
    def forward(s, x):
        a, b = s.a(x), s.b(x)
        if not wrong:
            b = b.detach()  # FAULT
        return s.out(a) - b  # FAULT

    training(network_of(forward, a=nn.Linear(8, 8), b=nn.Linear(8, 4), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("roll", "linear", "slice", "cat")
def rolled(wrong):
    def forward(s, x):
        return s.out(s.fc(x).roll(2 if wrong else 1, 1))  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.differs("tril", "triu", "mul", "masked_fill")
def mask_by_product(wrong):
    mask = torch.ones(5, 5)

    def forward(s, x):
        h = s.fc(x)
        w = (h @ h.transpose(1, 2)) * mask.tril(-1 if wrong else 0)  # FAULT
        return s.out(w @ h)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 5, 8))
