"""A tensor that lives longer than a step is kept in a coarser type by one of the two runs."""

import torch
import torch.nn.functional as F
from cases import Family
from finite_training import network_of, rows, training
from torch import nn

family = Family("tensors kept in another type")


def frequencies():
    return 10000 ** (-torch.arange(4) / 4.0)


def with_buffer(network, name, value, dtype):
    network.register_buffer(name, value.to(dtype), persistent=False)
    return network


@family.differs("type_as", "mul", short=True)
def rotary_frequencies_in_a_bfloat16_model(wrong):
    def forward(s, x):
        angle = torch.arange(300.0).type_as(s.freq)[:, None] * s.freq  # FAULT
        table = torch.cat((angle.cos(), angle.sin()), -1).to(x.dtype)
        return s.out(s.fc(x) * table)

    network = network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)).bfloat16()
    with_buffer(network, "freq", frequencies(), torch.bfloat16 if wrong else torch.float32)
    training(network, lambda: (torch.randn(300, 8).bfloat16(),))


@family.differs("to", "_to_copy", "slice", "unsqueeze", "select")
def inverse_frequencies_raised_again(wrong):
    def forward(s, x):
        places = torch.arange(60)[None, :, None].float()
        angle = places @ s.inv_freq[None, None, :].float()  # FAULT
        return s.out(s.fc(x) * torch.cat((angle.cos(), angle.sin()), -1).to(x.dtype))

    network = network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)).bfloat16()
    with_buffer(network, "inv_freq", frequencies(), torch.bfloat16 if wrong else torch.float32)
    training(network, lambda: (torch.randn(2, 60, 8).bfloat16(),))


@family.differs("add")
def position_table_in_half(wrong):
    def forward(s, x):
        return s.out((s.fc(x) + s.table).tanh())  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4))
    with_buffer(network, "table", torch.randn(20, 8), torch.float16 if wrong else torch.float32)
    training(network, rows(2, 20, 8))


@family.differs("add", "to", "_to_copy")
def score_bias_parameter_in_bfloat16(wrong):
    def forward(s, x):
        scores = s.q(x) @ s.k(x).transpose(1, 2) + s.bias  # FAULT
        return s.out(scores.softmax(-1) @ x)

    network = network_of(forward, q=nn.Linear(8, 8), k=nn.Linear(8, 8), out=nn.Linear(8, 4))
    network.bias = nn.Parameter(torch.randn(5, 5).to(torch.bfloat16 if wrong else torch.float32))
    training(network, rows(2, 5, 8))


@family.differs("mul")
def the_golden_run_keeps_the_coarser_one(wrong):
    def forward(s, x):
        return s.out(s.fc(x) * s.scale)  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4))
    with_buffer(network, "scale", torch.rand(8) + 0.1, torch.float32 if wrong else torch.bfloat16)
    training(network, rows(4, 8))


rounding = Family("rounding")


@rounding.rounding()
def weights_in_float32_under_autocast(other):
    network = network_of(lambda s, x: s.out(s.fc(x).relu()), fc=nn.Linear(8, 16), out=nn.Linear(16, 4)).bfloat16()
    if other:
        network = network.float()

    x = torch.randn(4, 8).bfloat16()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=other):
        network(x)


@rounding.rounding()
def mask_in_another_type(other):
    def forward(s, x):
        return s.out(s.fc(x) * s.mask)

    network = network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4))
    with_buffer(network, "mask", (torch.arange(8) % 2).float(), torch.bfloat16 if other else torch.float32)
    training(network, rows(4, 8))


@rounding.rounding(short=True)
def bfloat16_beside_float32_with_named_types(other):
    dtype = torch.bfloat16 if other else torch.float32
    layers = [nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)]
    network = nn.Sequential(*layers).to(dtype)

    def loss(y):
        y = y.softmax(-1, dtype=dtype) + torch.zeros(4, dtype=dtype)
        return y.square().sum(dtype=dtype).float() / 64

    training(network, lambda: (torch.randn(16, 8).to(dtype),), loss)


@rounding.rounding()
def class_weights_in_the_type_of_the_logits(other):
    dtype = torch.bfloat16 if other else torch.float32
    network = network_of(lambda s, x: s.out(s.fc(x).relu()), fc=nn.Linear(8, 16), out=nn.Linear(16, 4)).to(dtype)
    target, weight = torch.tensor([0, 1, 2, 3]), torch.tensor([0.3, 0.9, 1.1, 0.7]).to(dtype)

    training(network, lambda: (torch.randn(4, 8).to(dtype),), lambda y: F.cross_entropy(y, target, weight))
