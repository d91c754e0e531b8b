"""Losses, in two ways that compute the same."""

import math

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import rows, same_weights, sgd, train
from torch import nn

family = Family("rewrites")


def classes(loss, many=5):
    """A classifier; `loss` takes the logits and the labels."""
    network = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, many))
    labels = torch.tensor([0, 1, 2, 3, 4, 1, 0, 2])
    train(network, rows(8, 6), lambda y: loss(y, labels))


def values(loss, width=4):
    """A regression; `loss` takes what the network gives and the goal."""
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, width))
    goal = torch.randn(8, width)
    train(network, rows(8, 6), lambda y: loss(y, goal), optimizer=sgd(network, lr=0.05, momentum=0.9))


@family.rounding()
def cross_entropy_or_nll_of_log_softmax(other):
    classes(lambda y, t: F.nll_loss(F.log_softmax(y, dim=1), t) if other else F.cross_entropy(y, t))


@family.rounding()
def cross_entropy_by_logsumexp(other):
    def by_hand(y, t):
        return (torch.logsumexp(y, 1) - y[torch.arange(8), t]).mean()

    classes(lambda y, t: by_hand(y, t) if other else F.cross_entropy(y, t))


@family.rounding()
def cross_entropy_of_soft_targets(other):
    classes(lambda y, t: F.cross_entropy(y, F.one_hot(t, 5).float()) if other else F.cross_entropy(y, t))


@family.rounding()
def label_smoothing_by_hand(other):
    def by_hand(y, t):
        logs = y.log_softmax(-1)
        return -(0.9 * logs.gather(1, t[:, None]).squeeze(1) + 0.1 * logs.mean(-1)).mean()

    classes(lambda y, t: by_hand(y, t) if other else F.cross_entropy(y, t, label_smoothing=0.1))


@family.rounding()
def class_weights_by_hand(other):
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0])

    def by_hand(y, t):
        each = F.cross_entropy(y, t, reduction="none")
        return (weight[t] * each).sum() / weight[t].sum()

    classes(lambda y, t: by_hand(y, t) if other else F.cross_entropy(y, t, weight=weight))


@family.rounding()
def ignored_labels_or_chosen_rows(other):
    def loss(y, t):
        if other:
            keep = t != 1
            return F.cross_entropy(y[keep], t[keep])
        return F.cross_entropy(y, torch.where(t == 1, -100, t))

    classes(loss)


@family.rounding()
def ignored_labels_or_a_mean_over_a_mask(other):
    def loss(y, t):
        if other:
            mask = (t != 1).float()
            return (F.cross_entropy(y, t, reduction="none") * mask).sum() / mask.sum()
        return F.cross_entropy(y, t.masked_fill(t == 1, -100))

    classes(loss)


@family.rounding()
def loss_as_sum_over_number_or_mean(other):
    classes(lambda y, t: F.cross_entropy(y, t, reduction="sum") / len(t) if other else F.cross_entropy(y, t))


@family.rounding()
def focal_loss_in_two_spellings(other):
    def loss(y, t):
        if other:
            each = F.cross_entropy(y, t, reduction="none")
            return ((1 - torch.exp(-each)) ** 2 * each).mean()
        p = y.softmax(-1).gather(1, t[:, None]).squeeze(1)
        return -((1 - p).square() * p.log()).mean()

    classes(loss)


@family.rounding()
def logits_shifted_by_their_maximum(other):
    """A softmax does not see what all classes have in common."""
    classes(lambda y, t: F.cross_entropy(y - y.detach().amax(-1, keepdim=True) if other else y, t))


@family.rounding()
def labels_beside_a_shifted_sequence(other):
    """The next token as label: logits without the last place, or labels with -100 at the end."""

    def loss(y):
        ids = torch.arange(12).view(2, 6) % 5
        if other:
            labels = F.pad(ids[:, 1:], (0, 1), value=-100)
            return F.cross_entropy(y.flatten(0, 1), labels.flatten())
        return F.cross_entropy(y[:, :-1].reshape(-1, 5), ids[:, 1:].reshape(-1))

    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))
    train(network, rows(2, 6, 6), loss)


@family.rounding()
def classes_last_or_in_the_middle(other):
    labels = torch.arange(12).view(2, 6) % 5

    def loss(y):
        if other:
            return F.cross_entropy(y.transpose(1, 2), labels)
        return F.cross_entropy(y.view(-1, 5), labels.view(-1))

    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))
    train(network, rows(2, 6, 6), loss)


@family.rounding()
def log_probabilities_by_distribution(other):
    """A policy gradient: Categorical, or a log_softmax and a gather; with an entropy."""
    rewards = torch.linspace(-1, 1, 8)

    def loss(y, t):
        if other:
            policy = torch.distributions.Categorical(logits=y)
            return -(policy.log_prob(t) * rewards).mean() - 0.01 * policy.entropy().mean()
        logs = y.log_softmax(-1)
        entropy = -(logs.exp() * logs).sum(-1)
        return -(logs.gather(-1, t.unsqueeze(-1)).squeeze(-1) * rewards).mean() - 0.01 * entropy.mean()

    classes(loss)


def marks(loss):
    """A classifier of yes and no; `loss` takes logits and floats."""
    goal = (torch.arange(32).view(8, 4) % 3 == 0).float()
    values(lambda y, _goal: loss(y, goal))


@family.rounding()
def binary_cross_entropy_of_logits_by_hand(other):
    def by_hand(y, t):
        return (y.clamp(min=0) - y * t + torch.log1p(torch.exp(-y.abs()))).mean()

    marks(lambda y, t: by_hand(y, t) if other else F.binary_cross_entropy_with_logits(y, t))


@family.rounding()
def binary_cross_entropy_of_probabilities(other):
    def loss(y, t):
        return F.binary_cross_entropy(y.sigmoid(), t) if other else F.binary_cross_entropy_with_logits(y, t)

    marks(loss)


@family.rounding()
def binary_cross_entropy_by_logsigmoid(other):
    def by_hand(y, t):
        return -(t * F.logsigmoid(y) + (1 - t) * F.logsigmoid(-y)).mean()

    marks(lambda y, t: by_hand(y, t) if other else F.binary_cross_entropy_with_logits(y, t))


@family.rounding()
def preference_loss_by_softplus(other):
    """DPO: the logarithm of a sigmoid of a difference."""

    def loss(y, goal):
        gap = 0.5 * ((y[:4] - y[4:]) - (goal[:4] - goal[4:])).sum(-1)
        return F.softplus(-gap).mean() if other else -F.logsigmoid(gap).mean()

    values(loss)


@family.rounding()
def mean_square_error_by_hand(other):
    values(lambda y, goal: (y - goal).pow(2).mean() if other else F.mse_loss(y, goal))


@family.rounding()
def mean_square_error_by_dot_product(other):
    def loss(y, goal):
        gap = (y - goal).flatten()
        return torch.dot(gap, gap) / gap.numel() if other else F.mse_loss(y, goal)

    values(loss)


@family.rounding()
def huber_by_where(other):
    def by_hand(y, goal):
        gap = (y - goal).abs()
        return torch.where(gap < 1, 0.5 * gap**2, gap - 0.5).mean()

    values(lambda y, goal: by_hand(y, goal) if other else F.smooth_l1_loss(y, goal))


@family.rounding()
def gaussian_likelihood_by_distribution(other):
    def loss(y, goal):
        mean, spread = y[:, :2], F.softplus(y[:, 2:]) + 0.1
        if other:
            return -torch.distributions.Normal(mean, spread).log_prob(goal[:, :2]).mean()
        gap = (goal[:, :2] - mean) / spread
        return (0.5 * gap.square() + spread.log()).mean() + 0.5 * math.log(2 * math.pi)

    values(loss)


@family.rounding()
def divergence_of_gaussians_in_two_spellings(other):
    """The loss of a variational autoencoder."""

    def loss(y, goal):
        mean, log_var = y.chunk(2, -1)
        if other:
            posterior = torch.distributions.Normal(mean, (0.5 * log_var).exp())
            prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
            return torch.distributions.kl_divergence(posterior, prior).sum(-1).mean()
        return -0.5 * torch.sum(1 + log_var - mean.pow(2) - log_var.exp(), dim=1).mean()

    values(loss)


@family.rounding()
def distillation_by_kl_div_or_by_hand(other):
    def loss(y, goal):
        teacher = (goal / 2).softmax(-1)
        logs = (y / 2).log_softmax(-1)
        if other:
            return (teacher * (teacher.log() - logs)).sum() / len(y) * 4
        return F.kl_div(logs, teacher, reduction="batchmean") * 4

    values(loss)


@family.rounding()
def contrast_by_cross_entropy_or_diagonal(other):
    """InfoNCE between two views of a batch."""

    def loss(y, goal):
        a, b = F.normalize(y, dim=-1), F.normalize(goal, dim=-1)
        scores = a @ b.mT / 0.1
        if other:
            return (scores.logsumexp(-1) - scores.diagonal()).mean()
        return F.cross_entropy(scores, torch.arange(len(y)))

    values(loss)


@family.rounding()
def similarity_by_function_or_norms(other):
    def loss(y, goal):
        if other:
            return 1 - ((y * goal).sum(-1) / (y.norm(dim=-1) * goal.norm(dim=-1))).mean()
        return (1 - F.cosine_similarity(y, goal, dim=-1)).mean()

    values(loss)


@family.rounding()
def distances_by_cdist_or_products(other):
    def loss(y, goal):
        if other:
            squares = y.square().sum(-1)[:, None] + goal.square().sum(-1) - 2 * y @ goal.T
            return squares.clamp(min=1e-9).sqrt().amin(-1).mean()
        return torch.cdist(y, goal).min(-1).values.mean()

    values(loss)


@family.rounding()
def triplet_loss_by_hand(other):
    def loss(y, goal):
        anchor, near, far = y[:2], y[2:4], y[4:6]
        if other:
            return F.relu((anchor - near + 1e-6).norm(dim=1) - (anchor - far + 1e-6).norm(dim=1) + 1).mean()
        return F.triplet_margin_loss(anchor, near, far)

    values(loss)


@family.rounding()
def parts_of_a_loss_in_another_order(other):
    network = nn.ModuleDict({"body": nn.Linear(6, 8), "mark": nn.Linear(8, 3), "box": nn.Linear(8, 4)})
    same_weights(network)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = network

        def forward(self, x):
            h = self.parts["body"](x).relu()
            return self.parts["mark"](h), self.parts["box"](h)

    def loss(y):
        mark, box = y
        if other:
            of_box = F.l1_loss(box, torch.ones(8, 4))
            of_mark = F.cross_entropy(mark, torch.arange(8) % 3)
            return 0.5 * of_box + of_mark
        of_mark = F.cross_entropy(mark, torch.arange(8) % 3)
        of_box = F.l1_loss(box, torch.ones(8, 4))
        return of_mark + 0.5 * of_box

    train(Net(), rows(8, 6), loss)
