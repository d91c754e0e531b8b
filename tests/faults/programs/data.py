"""Batches, labels and parameters that are bad from the start.

Two lines are right: the one on which the program makes them from bad numbers, which a dump of overflows shows, and the
one on which the model reads them, where a dump begins with the model's first step.
"""

import numpy as np
import torch
from cases import Family
from torch import nn
from torch.nn import functional as F
from training import Small, batch, train

family = Family("data")
NAN, INF = float("nan"), float("inf")
OUTSIDE = ("bad_input",)


@family.fault("linear", "addmm", "lift_fresh", verdicts=OUTSIDE, short=True)
def nan_in_a_batch():
    array = np.ones((6, 4), np.float32)
    array[3, 2] = NAN
    x = torch.from_numpy(array)  # FAULT
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(x).mean().backward()  # FAULT
        optimizer.step()


@family.fault("linear", "addmm", "lift_fresh", verdicts=OUTSIDE)
def infinity_in_a_batch():
    array = np.ones((6, 4), np.float32)
    array[0] = [INF, -INF, 1, 1]
    x = torch.from_numpy(array)  # FAULT
    net = nn.Linear(4, 4)
    net(x).mean().backward()  # FAULT
    torch.optim.SGD(net.parameters(), lr=0.1).step()


@family.fault("mse_loss", "broadcast_tensors", "lift_fresh", verdicts=OUTSIDE)
def nan_in_the_labels():
    target = torch.from_numpy(np.array([[1, 2, 3, np.nan]], np.float32))  # FAULT
    train(nn.Linear(4, 4), batch(rows=1), loss_of=lambda out: F.mse_loss(out, target))  # FAULT


@family.fault("sub", "lift_fresh", verdicts=OUTSIDE)
def infinity_in_the_labels():
    target = torch.from_numpy(np.array([[1, 2, 3, np.inf]], np.float32))  # FAULT
    train(nn.Linear(4, 4), batch(rows=1), loss_of=lambda out: (out - target).square().mean())  # FAULT


@family.fault("div")
def constant_feature_standardised():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    raw = torch.from_numpy(np.tile(np.arange(6, dtype=np.float32)[:, None], 4))
    raw[:, 1] = 2
    for _ in range(2):
        optimizer.zero_grad()
        net((raw - raw.mean(0)) / raw.std(0)).mean().backward()  # FAULT
        optimizer.step()


@family.fault("div")
def third_batch_has_no_range():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for number in range(4):
        x = torch.ones(6, 4) if number == 2 else torch.rand(6, 4)
        x = (x - x.min()) / (x.max() - x.min())  # FAULT
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()


@family.fault("embedding", "index_select", "lift_fresh", verdicts=("bad_parameter", *OUTSIDE))
def row_of_an_embedding_is_nan():
    table = nn.Embedding(10, 4)
    with torch.no_grad():
        table.weight[7] = NAN  # FAULT
    net = Small(lambda y, tokens: y + table(tokens))  # FAULT
    net.table = table
    train(net, batch(rows=3), torch.tensor([1, 7, 3]))


@family.fault("linear", "addmm", "lift_fresh", verdicts=("bad_parameter", *OUTSIDE))
def loaded_weight_is_nan():
    second = nn.Linear(4, 4)
    net = Small(lambda y: second(torch.relu(y)))  # FAULT
    net.second = second
    state = {name: tensor.numpy().copy() for name, tensor in net.state_dict().items()}
    state["second.weight"][1, 1] = NAN
    net.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})  # FAULT
    train(net)


@family.fault("batch_norm", "native_batch_norm", "_native_batch_norm_legit_no_training", verdicts=("bad_parameter",))
def running_mean_is_nan():
    norm = nn.BatchNorm1d(4)
    norm.running_mean.numpy()[1] = NAN
    norm.eval()
    net = Small(lambda y: norm(y * 2))  # FAULT
    net.norm = norm
    train(net)


@family.fault("log")
def logarithm_of_a_count():
    counts = torch.from_numpy(np.array([[3, 2, 0, 1]] * 6, np.int64))
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.log(counts)).mean().backward()  # FAULT
        optimizer.step()


@family.fault("mul", "lift_fresh", verdicts=OUTSIDE)
def weights_of_samples_are_nan():
    weight = torch.from_numpy(np.array([1, 1, np.nan, 1, 1, 1], np.float32))  # FAULT
    net = nn.Linear(4, 1)
    train(net, loss_of=lambda out: (out[:, 0] * weight).mean())  # FAULT


@family.fault("_to_copy", "to", verdicts=("overflow",))
def double_features_become_float():
    features = torch.from_numpy(np.full((6, 4), 1e300))
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(features.float()).mean().backward()  # FAULT
        optimizer.step()
