"""Public reports: numbers too large for their type, in losses, networks, norms and optimizers. Rebuilt, not copied."""

import numpy as np
import torch
import torch.distributed as dist
from cases import Family
from torch import nn
from torch.nn import functional as F
from training import Small, batch, train

family = Family("reports")
INF = float("inf")
LINEAR = ("linear", "addmm", "mm", "matmul")


@family.fault("sum", report="huggingface/transformers#10815", cause="overflow")
def smoothed_loss_summed_in_half():
    """Label smoothing sums the log probabilities of the vocabulary in float16."""

    def loss_of(out):
        logps = F.log_softmax(torch.cat([out, out.new_full((6, 9000), 9.0)], 1).half(), -1)
        smoothed = -logps.sum(-1)  # FAULT
        return smoothed.float().mean() / 9004

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault(*LINEAR, report="huggingface/transformers#5651", cause="overflow")
def feed_forward_of_t5_in_half():
    """The second matrix of T5's feed-forward gives 66246 in float16."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.wi, self.wo = nn.Linear(4, 64, bias=False), nn.Linear(64, 4, bias=False)
            nn.init.constant_(self.wo.weight, 40.0)

        def forward(self, x):
            h = torch.relu(self.wi(x)) + 30
            h = self.wo(h)  # FAULT
            return F.layer_norm(h + x, (4,))

    train(Block().half(), batch().half())


@family.fault("add", report="huggingface/transformers#19229", cause="overflow")
def residual_of_a_deep_encoder_in_half():
    """Both the hidden states and the block's output fit float16, and their sum does not."""

    def body(y):
        hidden, forwarded = torch.relu(y.half()) + 40000, torch.relu(y.half()) + 30000
        hidden = hidden + forwarded  # FAULT
        return F.layer_norm(hidden.float(), (4,))

    train(Small(body))


@family.fault("add_", "add", report="deepspeedai/DeepSpeed#8035", cause="overflow")
def gradients_added_up_in_bfloat16():
    """Gradients of micro-batches are added in bfloat16 and overflow; Adam then divides infinity by infinity."""
    w = nn.Parameter(torch.randn(4, 2) * 1e-3)
    total, m, v = torch.zeros(4, 2, dtype=torch.bfloat16), torch.zeros(4, 2), torch.zeros(4, 2)
    for scale in (1.0, 2.2e38):
        total.zero_()
        for _ in range(2):
            loss = ((batch().abs() + 1) @ w).mean() * scale
            (gradient,) = torch.autograd.grad(loss, w)
            total.add_(gradient.bfloat16())  # FAULT
        with torch.no_grad():
            g = total.float()
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * (g * 1e-20) ** 2
            w -= 1e-3 * m / (v.sqrt() * 1e20 + 1e-8)


@family.fault("mul", report="deepspeedai/DeepSpeed#7171", cause=("0 times", "times 0"))
def infinite_norm_times_false():
    """An infinite gradient norm is to be replaced by -1: `isfinite * norm` is 0 times infinity."""
    net = nn.Linear(4, 2)
    for other_rank in (0.0, INF):
        net.zero_grad()
        net(batch()).square().mean().backward()
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in net.parameters()]).norm()
            norm = torch.maximum(norm, torch.full((), other_rank))
            finite = torch.isfinite(norm)
            norm = finite * norm - (~finite) * 1.0  # FAULT
            for p in net.parameters():
                p.sub_(0.1 * p.grad / norm.clamp(min=1.0))


@family.fault("linalg_vector_norm", "_foreach_norm", "norm", report="pytorch/pytorch#46849", cause="overflow")
def clipping_by_a_norm_that_overflows():
    """The squares of the gradients overflow; the infinite norm clips every gradient to zero, without a message."""
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (net(batch()).square().mean() * 1e25).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # FAULT
        optimizer.step()


@family.fault("exp", report="radixark/miles#1363", cause="overflow")
def importance_ratio_of_a_drifted_policy():
    """PPO's importance ratio is the exponential of a large difference of log probabilities."""
    old = torch.tensor([-1.0, -2, -200, -1, -1, -2])

    def loss_of(out):
        new = out.log_softmax(-1)[:, 0]
        advantage = torch.tensor([1.0, -1, 0, 1, -1, 1])
        ratio = torch.exp(new - old)  # FAULT
        return -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("matmul", "mm", "bmm", report="ultralytics/ultralytics#24990", cause="overflow")
def scores_before_their_scale_in_half():
    """Queries and keys are multiplied in float16 before the scale makes them small."""

    def attend(q):
        q = (q * 0 + 150).half().repeat(1, 4)
        scores = q @ q.t()  # FAULT
        return (scores * 16**-0.5).softmax(-1).float() @ q.float()

    train(Small(attend))


@family.fault("exp", report="pytorch/pytorch#2221", cause="overflow")
def cross_entropy_with_a_lost_sign():
    """A binary cross entropy with logits: the maximum that keeps exp small lacks its minus sign."""
    target = torch.zeros(6, 4)

    def loss_of(out):
        x = out * 0 - 100
        top = x.clamp(min=0)
        return (x - x * target + top + torch.log(torch.exp(-top) + torch.exp(-x - top))).mean()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("div", report="facebookresearch/fairchem#1574", cause=("division by 0", "divided by 0"))
def angle_of_a_tiny_edge():
    """An own derivative of atan2 divides by x² + y², which underflows to 0 for a tiny edge."""

    class Angle(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, x):
            ctx.save_for_backward(y, x)
            return torch.atan2(y, x)

        @staticmethod
        def backward(ctx, gradient):
            y, x = ctx.saved_tensors
            length = x.pow(2) + y.pow(2)
            return gradient * (x / length), gradient * (-y / length)  # FAULT

    def body(edges):
        edges = edges * torch.tensor([[1.0], [1], [1e-25], [1], [1], [1]])
        return Angle.apply(edges[:, 0], edges[:, 1])

    train(Small(body))


@family.fault("exp", report="facebookresearch/xformers#98", cause="overflow")
def softmax_kernel_in_half():
    """The random features that approximate a softmax take exponentials in float16."""

    def attend(q):
        features = torch.randn(4, 8).half()
        q = (q * 0 + 4).half()
        mapped = torch.exp(q @ features.abs() - 2)  # FAULT
        return (mapped @ mapped.t()).float() @ q.float()

    train(Small(attend))


@family.fault(
    "allreduce_", "all_reduce", ranks=2, report="NVIDIA-NeMo/Automodel#825", cause=("overflow", "collective")
)  # fmt: skip
def norms_added_over_ranks_in_bfloat16():
    """Each rank's sum of squares fits bfloat16, and the sum over the ranks does not; the norm clips to zero."""
    dist.init_process_group("gloo")
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        (net(batch()).square().mean() * (2e19 if step else 1.0)).backward()
        squares = torch.stack([p.grad.square().sum() for p in net.parameters()]).sum().bfloat16()
        dist.all_reduce(squares)  # FAULT
        scale = (1.0 / (squares.float().sqrt() + 1e-6)).clamp(max=1)
        for p in net.parameters():
            p.grad.mul_(scale)
        optimizer.step()
    dist.destroy_process_group()


@family.fault("add_", "_foreach_add_", report="mlcommons/hpc#27", cause=("nan", "NaN", "alpha"))
def learning_rate_without_a_warmup():
    """Without a warmup the schedule computes 0 / 0 in NumPy: the learning rate is NaN, and so are all weights."""
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(2):
        with np.errstate(invalid="ignore"):
            optimizer.param_groups[0]["lr"] = float(np.float64(step * 0.0) / np.float64(0)) if step else 0.1
        optimizer.zero_grad()
        net(batch()).square().mean().backward()
        optimizer.step()  # FAULT
