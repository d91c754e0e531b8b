"""Causes that counts, shapes and extremes decide: statistics say as much as tensors."""

import torch
from cases import Family
from torch import nn
from torch.nn import functional as F
from training import Small, batch, train

family = Family("counts")
INF = float("inf")


class Masked(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.attend = attend

    def forward(self, x):
        keep = torch.ones(6, 4, dtype=torch.bool)
        keep[1] = False
        return self.attend(self.fc(x).masked_fill(~keep, -INF))


@family.fault("sub", verdicts=("operator",), short=True)
def row_without_a_maximum():
    train(Masked(lambda s: torch.exp(s - s.amax(-1, keepdim=True))), batch())  # FAULT


@family.fault("softmax", "log_softmax", verdicts=("operator",))
def row_without_an_element():
    train(Masked(lambda s: F.log_softmax(s, -1).clamp(min=-9)), batch())  # FAULT


@family.fault("add", verdicts=("operator",))
def infinities_of_both_signs():
    def body(y):
        high = torch.full_like(y, -INF).where(torch.arange(4) > 1, y.detach())
        low = torch.full_like(y, INF).where(torch.arange(4) > 1, y.detach())
        return y * (high + low)  # FAULT

    train(Small(body))


@family.fault("addcdiv_", "_foreach_addcdiv_", "_fused_adam_", verdicts=("operator",))
def half_adam_without_an_epsilon():
    net = nn.Embedding(6, 4).half()
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.tensor([0, 1])).float().sum().backward()
        optimizer.step()  # FAULT


@family.fault("var", verdicts=("operator",))
def variance_of_one_row():
    train(Small(lambda y: y / (1 + y.var(0))), batch(rows=1))  # FAULT


@family.fault("std", verdicts=("operator",))
def deviation_of_one_column():
    train(Small(lambda y: y - y[:, :1].std(1, keepdim=True)))  # FAULT


@family.fault("mean", verdicts=("operator",), report="Project-MONAI/MONAI#7504", cause="of no elements", short=True)
def mean_of_the_classes_that_are_there():
    """No sample of the batch has a class but the background."""

    def body(y):
        present = torch.zeros(6, 4, dtype=torch.bool)
        return y + (1 - y[present].mean())  # FAULT

    train(Small(body))


@family.fault("mse_loss", verdicts=("operator",), cause="of no elements")
def loss_of_no_positives():
    def loss_of(out):
        positive = out.detach() > 1e6
        return F.mse_loss(out[positive], torch.ones_like(out)[positive]) + out.square().mean()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("std", "var", verdicts=("operator",), cause="of no elements")
def deviation_of_no_elements():
    train(Small(lambda y: y + y[:0].std()))  # FAULT


@family.fault("logsumexp", verdicts=("operator",), cause="of no elements")
def sum_of_no_negatives():
    train(Small(lambda y: y + y[:, :0].logsumexp(1, keepdim=True)))  # FAULT


@family.fault("lgamma", verdicts=("operator",), report="awslabs/gluonts#833", cause="pole at 0")
def count_of_a_product_that_nobody_buys():
    train(Small(lambda y: y + torch.lgamma(torch.relu(y) * 0)))  # FAULT


@family.fault("div", verdicts=("operator",), cause="division by 0")
def infinity_that_a_nan_of_the_same_loss_hides():
    def body(y):
        share = (y.square() + 1) / (y * 0).abs()  # FAULT
        return y + 0.1 * share.mean() + ((y * 0) / (y * 0)).mean()

    train(Small(body))


@family.fault("div", verdicts=("operator",), cause="0 divided by 0")
def nan_beside_the_logarithm_of_a_mask():
    def body(y):
        mask = torch.log((torch.arange(4) != 2).float())
        scores = (y * 0) / (y * 0)  # FAULT
        return torch.softmax(scores + mask, -1) + y

    train(Small(body))


@family.fault("_linalg_slogdet", "linalg_slogdet", "slogdet", verdicts=("operator",), cause="singular")
def volume_of_a_flow_that_is_singular():
    train(Small(lambda y: y + torch.linalg.slogdet(torch.outer(y[0], torch.tensor([1.0, 1, 1, 0]))).logabsdet))  # FAULT


@family.fault("logdet", "_linalg_slogdet", verdicts=("operator",), cause="negative")
def volume_that_is_turned():
    train(Small(lambda y: y + torch.logdet(torch.diag(y[0] * 0 + torch.tensor([1.0, 1, 1, -1])))))  # FAULT


@family.fault("ctc_loss", verdicts=("operator",))
def more_labels_than_frames():
    targets = torch.ones(2, 4, dtype=torch.long)

    def loss_of(out):
        log_p = out.log_softmax(-1).view(6, 2, 4)
        return F.ctc_loss(log_p, targets, torch.tensor([6, 2]), torch.tensor([3, 4]))  # FAULT

    train(nn.Linear(4, 4), batch(rows=12), loss_of=loss_of)


@family.fault("ctc_loss", verdicts=("operator",))
def equal_labels_without_a_blank():
    targets = torch.tensor([[1, 1, 1]])

    def loss_of(out):
        log_p = out.log_softmax(-1).view(4, 1, 4)
        return F.ctc_loss(log_p, targets, (4,), (3,))  # FAULT

    train(nn.Linear(4, 4), batch(rows=4), loss_of=loss_of)


@family.fault("div", verdicts=("operator",), short=True)
def root_of_a_silent_spectrum():
    """Complex tensors have no statistics: the division leads through them to the op that reads the real part."""
    window, sound = torch.hann_window(4), (torch.arange(24) < 16).float()

    def body(y):
        spectrum = torch.stft((y.flatten() * sound)[None], 4, 4, window=window, center=False, return_complex=True)
        return torch.sqrt(spectrum.real**2 + spectrum.imag**2)  # FAULT

    train(Small(body), loss_of=lambda out: out.sum())


@family.fault("div", verdicts=("operator",), cause=("0 divided by 0",), short=True)
def hook_that_divides_by_the_largest_gradient():
    def body(y):
        if y.requires_grad:
            y.register_hook(lambda g: g / g.abs().amax())  # FAULT
        return y * 0.0

    train(Small(body))


@family.fault("ctc_loss", verdicts=("operator",), cause=("no path",), short=True)
def ctc_of_repeated_labels():
    targets = torch.tensor([[1, 1, 1]])

    def loss_of(out):
        log_p = out.log_softmax(-1).view(6, 1, 4)[:4]
        return F.ctc_loss(log_p, targets, torch.tensor([4]), torch.tensor([3]))  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)
