"""Reductions over too few elements, or over infinities."""

import torch
from cases import Family
from torch.nn import functional as F
from training import Small, batch, train

family = Family("reductions")
INF = float("inf")


@family.fault("std", short=True)
def deviation_of_one():
    train(Small(lambda y: y / y.std(0)), batch(rows=1))  # FAULT


@family.fault("var")
def variance_of_one_column():
    train(Small(lambda y: y[:, :1].var(-1)))  # FAULT


@family.fault("mean")
def mean_of_nothing():
    train(Small(lambda y: y[y > 100].mean()))  # FAULT


@family.fault("softmax", "_softmax")
def softmax_of_a_masked_row():
    def body(y):
        rows = torch.arange(6)[:, None] == 1
        return torch.softmax(y.masked_fill(rows, -INF), -1)  # FAULT

    train(Small(body))


@family.fault("log_softmax", "_log_softmax")
def log_softmax_of_a_masked_row():
    def body(y):
        scores = y.masked_fill(torch.arange(6)[:, None] >= 4, -INF)
        return torch.log_softmax(scores, -1).sum(-1)  # FAULT

    train(Small(body))


@family.fault("sub")
def maximum_of_nothing_subtracted():
    def body(y):
        scores = torch.where(y > 100, y, torch.full_like(y, -INF))
        return torch.exp(scores - scores.amax(-1, keepdim=True)).sum(-1)  # FAULT

    train(Small(body))


@family.fault("norm", "linalg_vector_norm", "frobenius_norm", verdicts=("overflow",))
def norm_of_large():
    train(Small(lambda y: (y * 0 + 30000).half().norm(p=1, dim=-1).float() * 1))  # FAULT


@family.fault("div")
def normalised_without_eps():
    def body(y):
        z = torch.relu(y - 50)
        return F.normalize(z, dim=-1, eps=0)  # FAULT

    train(Small(body))


@family.fault("nanmean", "div")
def nanmean_of_only_nan():
    def body(y, known):
        masked = torch.where(known, y, torch.full_like(y, float("nan")))
        return masked.nanmean(0)  # FAULT

    train(Small(body), batch(), torch.zeros(6, 4, dtype=torch.bool))


@family.fault("cumprod")
def running_product():
    train(Small(lambda y: torch.cumprod(y.repeat(1, 20) * 0 + 1000, -1)))  # FAULT


@family.fault("logsumexp", "logaddexp", "sub")
def free_energy_of_both_infinities():
    def body(y):
        low = torch.full((6, 2), -INF)
        return torch.logsumexp(low, -1) - torch.logsumexp(low, -1) + y.sum(-1)  # FAULT

    train(Small(body))


@family.fault("div")
def average_of_an_empty_segment():
    def body(y):
        segment = torch.tensor([0, 0, 1, 1, 3, 3])
        total = torch.zeros(4, 4).index_add(0, segment, y)
        count = torch.zeros(4).index_add(0, segment, torch.ones(6))
        return total / count[:, None]  # FAULT

    train(Small(body))


@family.fault("div", "div_", "softmax")
def gumbel_softmax_without_a_temperature():
    train(Small(lambda y: F.gumbel_softmax(y, tau=0)))  # FAULT


@family.fault("div")
def rows_divided_by_their_zero_sums():
    def body(y):
        z = torch.relu(y - torch.tensor([[0.0], [0], [90], [0], [0], [0]]))
        return z / z.sum(-1, keepdim=True)  # FAULT

    train(Small(body))


@family.fault(
    "softmax", "_softmax", "scaled_dot_product_attention", "_scaled_dot_product_attention_math", "safe_softmax"
)
def attention_of_a_padded_row():
    def body(y):
        scores = y @ y.t()
        padding = torch.zeros(6, dtype=torch.bool)
        padding[:] = True
        return torch.softmax(scores.masked_fill_(padding, -INF), -1)  # FAULT

    train(Small(body))


@family.fault("logdet", "_linalg_slogdet", "linalg_slogdet", "log", "det", "_linalg_det")
def logdet_of_a_singular_matrix():
    train(Small(lambda y: torch.logdet(y[:4] * 0) + y.sum()))  # FAULT


@family.fault("masked_fill_")
def mask_in_place_leaks_into_a_mean():
    def body(y):
        scores = y * 1
        scores.masked_fill_(torch.arange(4) > 2, float("-inf"))  # FAULT
        return torch.softmax(scores, -1) + scores.mean(-1, keepdim=True)

    train(Small(body))


@family.fault("div")
def logarithms_of_zero_and_back():
    """exp2(log2(0)) is 0, and 0 is divided by 0."""

    def body(y):
        weight = torch.exp2(torch.log2(torch.relu(y) * 0) - 1)
        return y * (weight / weight.sum())  # FAULT

    train(Small(body))
