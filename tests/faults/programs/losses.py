"""Losses with arguments for which they are not defined."""

import torch
from cases import Family
from torch import nn
from torch.nn import functional as F
from training import Small, batch, train

family = Family("losses")
INF = float("inf")


@family.fault("cross_entropy_loss", "nll_loss", "nll_loss_forward", short=True)
def every_target_ignored():
    targets = torch.full((6,), -100)
    train(nn.Linear(4, 4), loss_of=lambda out: F.cross_entropy(out, targets))  # FAULT


@family.fault("cross_entropy_loss", "nll_loss", "nll_loss_nd")
def target_is_a_masked_class():
    targets = torch.tensor([0, 1, 2, 3, 0, 1])
    masked = torch.arange(4) == 3

    def loss_of(out):
        return F.cross_entropy(out.masked_fill(masked, -INF), targets)  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("cross_entropy_loss")
def smoothing_over_masked_classes():
    targets = torch.tensor([0, 1, 2, 2, 0, 1])
    masked = torch.arange(4) == 3

    def loss_of(out):
        return F.cross_entropy(out.masked_fill(masked, -INF), targets, label_smoothing=0.1)  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("log")
def nll_of_probabilities_that_are_zero():
    targets = torch.tensor([0, 1, 2, 3, 0, 1])

    def loss_of(out):
        p = torch.softmax(out * 1e6, -1)
        return F.nll_loss(torch.log(p), targets)  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("log")
def own_bce_of_a_saturated_sigmoid():
    target = torch.tensor([1.0, 0, 1, 0, 1, 0])

    def loss_of(out):
        p = torch.sigmoid(out[:, 0] * 0 + 100)
        return -(target * p.log() + (1 - target) * (1 - p).log()).mean()  # FAULT

    train(nn.Linear(4, 1), loss_of=loss_of)


@family.fault("log", "mul", "div")
def own_kl_of_zero_probabilities():
    def loss_of(out):
        p = torch.softmax(out, -1)
        q = torch.tensor([1.0, 0, 0, 0]).expand(6, 4)
        return (q * (q / p).log()).sum(-1).mean()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("kl_div", "sub", "mul", "exp", "log")
def kl_of_masked_log_targets():
    target = torch.log(torch.tensor([0.5, 0.5, 0.0, 0.0])).expand(6, 4).clone()  # FAULT

    def loss_of(out):
        return F.kl_div(F.log_softmax(out, -1), target, log_target=True, reduction="batchmean")  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("mse_loss", verdicts=("overflow",))
def half_mse():
    target = torch.zeros(6, 4, dtype=torch.float16)
    train(Small(lambda y: (y * 0 + 500).half()), loss_of=lambda out: F.mse_loss(out, target).float())  # FAULT


@family.fault("ctc_loss", "_ctc_loss")
def ctc_of_too_short_an_input():
    targets = torch.tensor([[1, 1, 1, 2]])

    def loss_of(out):
        log_p = out.log_softmax(-1).view(3, 2, 4)[:, :1]
        return F.ctc_loss(log_p, targets, torch.tensor([3]), torch.tensor([4]))  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("div")
def own_cosine_of_zero_vectors():
    def loss_of(out):
        a, b = torch.relu(out - 50), out.detach()
        return ((a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))).mean()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("poisson_nll_loss", "log", "sub", "mul")
def poisson_of_zero_without_eps():
    target = torch.ones(6, 4)

    def loss_of(out):
        return F.poisson_nll_loss(torch.relu(out - 50), target, log_input=False, eps=0)  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("exp", verdicts=("overflow",))
def contrastive_with_a_tiny_temperature():
    def loss_of(out):
        unit = F.normalize(out, dim=-1)
        similar = torch.exp(unit @ unit.t() / 1e-3)  # FAULT
        return -torch.log(similar.diagonal() / similar.sum(-1)).mean()

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("div", "mul", "pow")
def focal_with_a_small_gamma_backward():
    target = torch.tensor([0, 1, 2, 3, 0, 1])

    def loss_of(out):
        p = torch.softmax(out + 200 * F.one_hot(target, 4), -1).gather(1, target[:, None])
        return ((1 - p) ** 0.5).mean()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("div", "mul")
def average_over_no_valid_token():
    ignore = torch.full((6,), 5)

    def loss_of(out):
        losses = F.cross_entropy(out, torch.zeros(6, dtype=torch.long), reduction="none")
        valid = (ignore != 5).float()
        return (losses * valid).sum() / valid.sum()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("reciprocal")
def scaled_by_one_over_zero():
    count = 0

    def loss_of(out):
        return out.square().mean() * (1 / torch.tensor(float(count)))  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("gaussian_nll_loss", "div", "log", "mul")
def gaussian_of_no_variance():
    def loss_of(out):
        variance = torch.relu(out - 50)
        return (0.5 * ((out - 1) ** 2 / variance + variance.log())).mean()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("log")
def hard_example_mining():
    """Only a guard reads the loss, and a second loss trains."""
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(2):
        optimizer.zero_grad()
        out = net(batch())
        loss = torch.log(torch.relu(out - 50)).mean() if step else out.mean()  # FAULT
        if not torch.isfinite(loss):
            continue
        loss.backward()
        optimizer.step()


@family.fault("cross_entropy_loss", "nll_loss", "nll_loss_forward")
def class_weights_are_zero():
    weight = torch.zeros(4)
    targets = torch.tensor([0, 1, 2, 3, 0, 1])
    train(nn.Linear(4, 4), loss_of=lambda out: F.cross_entropy(out, targets, weight=weight))  # FAULT


@family.fault("div")
def divided_by_its_own_zero():
    def loss_of(out):
        loss = (out - out.detach()).abs().sum()
        return loss / loss.detach()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("exp", verdicts=("overflow",))
def variational_log_variance():
    def loss_of(out):
        mean, log_variance = (out * 0 + 200).chunk(2, -1)
        sample = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)  # FAULT
        return sample.square().mean()

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("log")
def kl_of_logarithms_of_zero():
    def loss_of(out):
        q = torch.softmax(out * 1e6, -1)
        return F.kl_div(torch.log(q), torch.full((6, 4), 0.25), reduction="batchmean")  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)
