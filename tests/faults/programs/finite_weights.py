"""Parameters and buffers with other values."""

import torch
from cases import Family
from finite_training import network_of, repeat, rows, slow, training
from torch import nn

family = Family("wrong weights")


@family.differs("linear", short=True)
def one_weight_off(wrong):
    def forward(s, x):
        return s.out(s.fc(x).tanh())  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 16), out=nn.Linear(16, 4))
    if wrong:
        with torch.no_grad():
            network.out.weight[1, 2] += 1e-3

    optimizer = slow(network)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()

    repeat(step)


@family.differs("linear")
def layer_of_another_seed(wrong):
    def forward(s, x):
        return s.c(s.b(s.a(x)).tanh())  # FAULT

    network = network_of(forward, a=nn.Linear(8, 8), b=nn.Linear(8, 8), c=nn.Linear(8, 4))
    if wrong:
        state = torch.get_rng_state()
        network.b.reset_parameters()
        torch.set_rng_state(state)
    training(network, rows(6, 8))


@family.differs("linear", short=True)
def exchanged_weights(wrong):
    def forward(s, x):
        return s.b(s.a(x)).tanh()  # FAULT

    network = network_of(forward, a=nn.Linear(8, 8), b=nn.Linear(8, 8))
    if wrong:
        network.a.weight, network.b.weight = network.b.weight, network.a.weight
    training(network, rows(6, 8))


@family.differs("batch_norm")
def running_mean_off(wrong):
    def forward(s, x):
        return s.out(s.norm(x))  # FAULT

    network = network_of(forward, norm=nn.BatchNorm1d(8), out=nn.Linear(8, 4))
    network.norm.eval()
    if wrong:
        network.norm.running_mean += 0.01
    training(network, rows(6, 8))


@family.differs("embedding", "linear", "t", "add", "add_")
def untied(wrong):
    def forward(s, x):
        h = s.embed(x).mean(1)  # FAULT
        return s.head(h)  # FAULT

    network = network_of(forward, embed=nn.Embedding(12, 8), head=nn.Linear(8, 12, bias=False))
    network.head.weight = nn.Parameter(network.embed.weight.detach().clone()) if wrong else network.embed.weight
    ids = torch.arange(12).view(3, 4)

    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        network(ids).square().mean().backward()  # FAULT
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("linear")
def bias_forgotten(wrong):
    def forward(s, x):
        return s.out(s.fc(x).tanh())  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 16), out=nn.Linear(16, 4))
    if wrong:
        network.out.bias.data.zero_()
    training(network, rows(6, 8))


@family.differs("linear", "layer_norm", "native_layer_norm")
def norm_weight_off(wrong):
    def forward(s, x):
        return s.out(s.norm(s.fc(x)))  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 8), norm=nn.LayerNorm(8), out=nn.Linear(8, 4))
    if wrong:
        network.norm.weight.data.mul_(1.001)
    training(network, rows(6, 8))


@family.differs("embedding")
def embedding_row_off(wrong):
    def forward(s, x):
        return s.head(s.embed(x).mean(1))  # FAULT

    network = network_of(forward, embed=nn.Embedding(12, 8), head=nn.Linear(8, 3))
    if wrong:
        network.embed.weight.data[3] += 0.01
    training(network, lambda: (torch.arange(12).view(3, 4),))
