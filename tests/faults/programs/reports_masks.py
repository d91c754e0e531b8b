"""Public reports: NaN and infinities of masks, of softmax and of probabilities that are zero. Rebuilt, not copied."""

import torch
from cases import Family
from torch import nn
from torch.nn import functional as F
from training import Small, batch, train

family = Family("reports")
INF = float("inf")

# A row without a single finite score, in the words of an answer.
ALL_MASKED = (
    "all masked",
    "fully masked",
    "are -inf",
    "is all -inf",
    "only -inf",
    "row is -inf",
    "-inf minus -inf",
    "masks all",
)
MINUS = ("-inf minus -inf", "-inf - -inf", "inf minus inf", "infinity subtracted from itself")
ZERO_TIMES = ("0 times inf", "0 times -inf", "-inf times 0", "inf times 0", "0 * inf", "0 * -inf", "0 times infinity")


@family.fault("add", "add_", report="huggingface/transformers#17306", cause="overflow", short=True)
def smallest_half_plus_a_negative_score():
    """A mask of the smallest float16 is added to negative scores: -inf in whole rows, NaN after softmax."""

    def attend(q):
        q = q.half()
        mask = torch.full((4, 4), torch.finfo(torch.float16).min, dtype=torch.float16)
        scores = -(q @ q.t()).abs() - 40
        scores = scores + mask  # FAULT
        return scores.softmax(-1).float() @ q.float()

    train(Small(attend), batch(4, 4))


@family.fault("sub", report="flashinfer-ai/flashinfer#4401", cause=MINUS)
def online_softmax_whose_first_block_is_masked():
    """The running maximum of an online softmax is -inf before and after a block that is all masked."""

    def attend(q):
        scores = (q @ q.t()).masked_fill(torch.arange(6) < 3, -INF)
        top, total = torch.full((6, 1), -INF), torch.zeros(6, 1)
        out = torch.zeros(6, 4)
        for s, v in zip(scores.chunk(2, 1), q.chunk(2, 0), strict=True):
            new = torch.maximum(top, s.amax(1, keepdim=True))
            shrink = torch.exp(top - new)  # FAULT
            weight = torch.exp(s - new)  # FAULT
            out, total, top = out * shrink + weight @ v, total * shrink + weight.sum(1, keepdim=True), new
        return out / total

    train(Small(attend))


@family.fault("sub", report="tracel-ai/burn#4697", cause=MINUS)
def own_softmax_of_a_masked_row():
    """A softmax by hand subtracts the row's maximum, which is -inf where both masks together cover the row."""

    def attend(q):
        padding = torch.tensor([1, 1, 0, 0, 0, 0]).bool()
        causal = torch.ones(6, 6).triu(1).bool()
        scores = (q @ q.t()).masked_fill(causal | padding, -INF)
        weight = (scores - scores.amax(-1, keepdim=True)).exp()  # FAULT
        return weight / weight.sum(-1, keepdim=True) @ q

    train(Small(attend))


@family.fault("sub", report="pytorch/pytorch#52213", cause=MINUS)
def running_logaddexp_of_two_minus_infinities():
    """A cumulative logsumexp takes min(x, y) - max(x, y) where both are -inf."""

    def body(y):
        y = y.masked_fill(torch.tensor([False, True, True, False]), -INF)
        total = torch.full((6,), -INF)
        kept = []
        for x in y.roll(1, 1).unbind(1):
            low, high = torch.minimum(total, x), torch.maximum(total, x)
            total = torch.log1p(torch.exp(low - high)) + high  # FAULT
            kept.append(total)
        return kept[-1]

    train(Small(lambda y: body(y.masked_fill(torch.arange(4) == 3, -INF))))


@family.fault("sub", "exp", "mul", "logsumexp", report="pytorch/pytorch#31829", cause=(*MINUS, *ALL_MASKED))
def forward_algorithm_with_unreachable_states():
    """The logsumexp of states that no path reaches is -inf; its gradient subtracts -inf from -inf."""

    def body(y):
        reached = torch.full((6, 4), -INF)
        reached[:, 0] = 0
        for _ in range(2):
            moved = torch.stack([reached, F.pad(reached, (1, 0), value=-INF)[:, :-1]])
            reached = torch.logsumexp(moved, 0) + y.log_softmax(-1)  # FAULT
        return reached[:, 1]

    train(Small(body))


@family.fault("mul", report="pytorch/pytorch#40553", cause=ZERO_TIMES)
def entropy_of_logits_with_minus_infinity():
    """The entropy of a distribution with a forbidden action: probability 0 times logit -inf."""
    forbidden = torch.tensor([False, False, False, True])

    def loss_of(out):
        logits = out.masked_fill(forbidden, -INF)
        logits = logits - logits.logsumexp(-1, keepdim=True)
        p_log_p = logits * logits.softmax(-1)  # FAULT
        return p_log_p.sum(-1).mean()

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault(
    "mul", "log_softmax", "_log_softmax", report="huggingface/trl#7221", cause=("overflow", *ZERO_TIMES)
)  # fmt: skip
def entropy_of_half_logits():
    """Finite float16 logits: a log probability below -65504 is -inf, and times its probability NaN."""

    def loss_of(out):
        spread = torch.tensor([60000.0, 0, 0, -60000])
        logps = F.log_softmax((out * 0 + spread).half(), -1)  # FAULT
        return -(torch.exp(logps) * logps).sum(-1).float().mean()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("mul", "log", report="pyro-ppl/numpyro#2276", cause=(*ZERO_TIMES, "log of 0"))
def entropy_of_a_probability_that_is_zero():
    """The entropy multiplies a probability of exactly 0 with its logarithm."""

    def loss_of(out):
        p = F.relu(out.softmax(-1) - 0.2)
        return -(p * p.log()).sum(-1).mean()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("log", report="pytorch/pytorch#22442", cause="log of 0")
def gumbel_noise_of_an_exponential_that_is_zero():
    """The sampler of the exponential distribution returns 0 once; its -log is infinite, and softmax gives NaN."""

    def body(y):
        exponential = torch.empty_like(y).exponential_()
        exponential = exponential * (exponential > exponential.min())
        gumbel = -exponential.log()  # FAULT
        return F.softmax(y + gumbel, -1)

    train(Small(body), loss_of=lambda out: out.square().mean())


@family.fault("exp", report="mlberkeley/scae-pytorch#4", cause="overflow")
def likelihood_by_exp_sum_log():
    """A mixture's log likelihood by log(sum(exp(x))) without the subtraction of the maximum."""

    def loss_of(out):
        votes = out * 50 + 80
        return -torch.log(torch.exp(votes).sum(-1)).mean()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("softmax", "_softmax", report="pytorch/pytorch#63271", cause=ALL_MASKED)
def padding_mask_covers_rows_and_columns():
    """A 3D attention mask is merged with the padding so that the rows of padded queries are masked too."""

    def attend(q):
        x = q.view(2, 3, 4)
        padding = torch.tensor([[False, False, False], [False, False, True]])
        mask = torch.ones(3, 3).triu(1).bool() | padding[:, None] | padding[:, :, None]
        scores = (x @ x.transpose(1, 2)).masked_fill(mask, -INF)
        return scores.softmax(-1) @ x  # FAULT

    train(Small(attend))
