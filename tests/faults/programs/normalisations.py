"""Normalisations of values without variance, with eps 0, or with wrong statistics."""

import torch
from cases import Family
from torch import nn
from torch.nn import functional as F
from training import Small, batch, train

family = Family("normalisations")


@family.fault("layer_norm", "native_layer_norm", short=True)
def layer_norm_without_eps():
    norm = nn.LayerNorm(4, eps=0)
    net = Small(lambda y: norm(y * 0 + 1))  # FAULT
    net.norm = norm
    train(net)


@family.fault("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training")
def negative_running_variance():
    norm = nn.BatchNorm1d(4)
    norm.running_var.fill_(-1)
    norm.eval()
    net = Small(lambda y: norm(y * 2))  # FAULT
    net.norm = norm
    train(net)


@family.fault("group_norm", "native_group_norm")
def group_norm_without_eps():
    train(Small(lambda y: F.group_norm((y * 0).view(6, 4, 1), 2, eps=0)))  # FAULT


@family.fault("rms_norm", "_fused_rms_norm", "rsqrt", "mul")
def rms_norm_without_eps():
    train(Small(lambda y: F.rms_norm(y * 0, (4,), eps=0)))  # FAULT


@family.fault("rsqrt", "mul")
def own_rms_norm_of_zeros():
    def body(y):
        z = torch.relu(y - 50)
        return z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True))  # FAULT

    train(Small(body))


@family.fault("div")
def own_batch_norm_of_one_row():
    def body(y):
        mean, variance = y.mean(0), y.var(0, unbiased=False)
        return (y - mean) / variance.sqrt()  # FAULT

    train(Small(body), batch(rows=1))


@family.fault("_weight_norm", "div", "_weight_norm_interface", "norm_except_dim", "mul")
def weight_norm_of_zeros():
    inner = nn.Linear(4, 4)
    nn.init.zeros_(inner.weight)
    inner = torch.nn.utils.weight_norm(inner)
    net = Small(lambda y: inner(y))  # noqa: PLW0108  # FAULT
    net.inner = inner
    train(net)


@family.fault("var", "std", "var_mean")
def own_layer_norm_of_one_feature():
    def body(y):
        one = y[:, :1]
        variance, mean = torch.var_mean(one, -1, keepdim=True)  # FAULT
        return (one - mean) * torch.rsqrt(variance + 1e-5)

    train(Small(body))


@family.fault("native_layer_norm_backward", "layer_norm", "native_layer_norm", verdicts=("operator", "overflow"))
def layer_norm_of_large():
    norm = nn.LayerNorm(4)
    net = Small(lambda y: norm(y * 1e25))  # FAULT
    net.norm = norm
    train(net)


@family.fault("batch_norm", "native_batch_norm", "_native_batch_norm_legit_no_training")
def momentum_makes_the_running_variance_negative():
    norm = nn.BatchNorm1d(4, momentum=30)
    net = Small(lambda y: norm(y))  # noqa: PLW0108  # FAULT
    net.norm = norm
    train(net, steps=1)
    with torch.no_grad():
        norm.running_var.fill_(-3)
        net.eval()
    train(net)
