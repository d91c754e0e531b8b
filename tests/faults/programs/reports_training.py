"""Public reports: optimizers, clipping, schedules and ranks that compute something else. Rebuilt, not copied."""

import torch
import torch.distributed as dist
from cases import Family
from finite_training import network_of, repeat, slow, two_layers
from torch import nn

family = Family("reports")
NUMBER = ("number", "called with")


def loss_of(network):
    return network(torch.randn(6, 8)).square().mean()


@family.differs(
    "div_", "mul_", "linalg_vector_norm", "_foreach_norm", "_foreach_mul_", "clamp", "mul", "div", "stack",
    report="Lightning-AI/pytorch-lightning#9606",
)  # fmt: skip
def clipped_before_the_scale_is_removed(wrong):
    """Gradients are clipped while the loss scale is in them."""
    network = two_layers()
    optimizer = slow(network)

    def unscale():
        for p in network.parameters():
            p.grad.div_(1024.0)  # FAULT

    def step():
        optimizer.zero_grad()
        (loss_of(network) * 1024).backward()
        if not wrong:
            unscale()
        nn.utils.clip_grad_norm_(network.parameters(), 0.05)  # FAULT
        if wrong:
            unscale()
        optimizer.step()

    repeat(step)


@family.differs(
    "mul_", "_foreach_mul_", "clamp", "mul", "linalg_vector_norm", "_foreach_norm", "stack", "reciprocal", "add",
    report="deepspeedai/DeepSpeed#3790",
)  # fmt: skip
def clipping_skipped_in_bfloat16(wrong):
    """A change that skips the loss scale for bfloat16 skips the clipping too."""
    network = two_layers().bfloat16()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8).bfloat16()).square().mean().backward()
        if not wrong:
            nn.utils.clip_grad_norm_(network.parameters(), 0.01)  # FAULT
        optimizer.step()

    repeat(step)


@family.differs("add_", "_foreach_add_", report="huggingface/accelerate#963", cause=NUMBER, short=True)
def schedule_advances_with_every_micro_batch(wrong):
    """With gradient accumulation the scheduler steps although the optimizer did not."""
    network = two_layers()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)

    def step():
        optimizer.zero_grad()
        for micro in range(2):
            (loss_of(network) / 2).backward()
            if micro:
                optimizer.step()  # FAULT
            if micro or wrong:
                schedule.step()

    repeat(step)


@family.differs("mul", "add", "mul_", "add_", "sub_", "sub", "zero_", "div", report="joennlae/tensorli#1")
def decay_without_the_learning_rate(wrong):
    """AdamW: the weight decay is not multiplied by the learning rate."""
    network = two_layers()
    state = {p: (torch.zeros_like(p), torch.zeros_like(p)) for p in network.parameters()}

    def step():
        network.zero_grad()
        loss_of(network).backward()
        with torch.no_grad():
            for p, (m, v) in state.items():
                m.mul_(0.9).add_(p.grad, alpha=0.1)
                v.mul_(0.99).add_(p.grad**2, alpha=0.01)
                p.sub_(1e-3 * m / (v.sqrt() + 1e-8) + (0.01 * p if wrong else 1e-3 * 0.01 * p))  # FAULT

    repeat(step)


@family.differs("add", "add_", "div", "mul", "sqrt", "sub_", report="aiqm/torchani#261")
def epsilon_inside_the_bias_correction(wrong):
    """Adam's epsilon is scaled by the bias correction of the second moment."""
    network = two_layers()
    state = {p: (torch.zeros_like(p), torch.zeros_like(p)) for p in network.parameters()}
    steps = [0]

    def step():
        steps[0] += 1
        network.zero_grad()
        (loss_of(network) * 1e-3).backward()
        with torch.no_grad():
            for p, (m, v) in state.items():
                m.mul_(0.9).add_(p.grad, alpha=0.1)
                v.mul_(0.999).add_(p.grad**2, alpha=0.001)
                first, second = 1 - 0.9 ** steps[0], 1 - 0.999 ** steps[0]
                down = (v.sqrt() + 1e-4) / second**0.5 if wrong else v.sqrt() / second**0.5 + 1e-4  # FAULT
                p.sub_(1e-3 * m / first / down)  # FAULT

    repeat(step)


@family.differs("sub_", "add_", "mul", "sub", "add", report="chainer/chainer#261")
def decay_with_the_wrong_sign(wrong):
    """Weight decay is subtracted from the gradient, so weights grow."""
    network = two_layers()

    def step():
        network.zero_grad()
        loss_of(network).backward()
        with torch.no_grad():
            for p in network.parameters():
                p.grad.add_(p, alpha=-0.01 if wrong else 0.01)  # FAULT
                p.sub_(p.grad, alpha=0.01)

    repeat(step)


@family.differs("mul", "mul_", "sub_", "lerp_", "sub", report="huggingface/diffusers#1864", cause=NUMBER)
def average_whose_decay_is_overwritten(wrong):
    """The moving average writes the decay of this step over the decay of all steps."""
    network = two_layers()
    optimizer = slow(network)
    average = [p.detach().clone() for p in network.parameters()]
    kept = {"decay": 0.9999, "steps": 20}

    def step():
        optimizer.zero_grad()
        loss_of(network).backward()
        optimizer.step()
        decay = 1 - min(kept["decay"], (1 + kept["steps"]) / (10 + kept["steps"]))
        kept["steps"] += 1
        if wrong:
            kept["decay"] = decay
        with torch.no_grad():
            for a, p in zip(average, network.parameters(), strict=True):
                a.sub_(decay * (a - p))  # FAULT

    repeat(step, 3)


@family.differs(
    "copy_", "lerp_", "mul_", "add_", "batch_norm", report="lucidrains/ema-pytorch#8"
)  # fmt: skip
def average_without_the_buffers(wrong):
    """The moving average of a network goes over its parameters twice and leaves out its buffers."""
    network, average = (nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)) for _ in range(2))
    average.load_state_dict(network.state_dict())
    average.eval()
    optimizer = slow(network)

    def step():
        x = torch.randn(6, 8)
        optimizer.zero_grad()
        network(x).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), network.parameters(), strict=True):
                a.lerp_(p, 0.1)
            if not wrong:
                for a, b in zip(average.buffers(), network.buffers(), strict=True):
                    a.copy_(b)  # FAULT
            average(x)  # FAULT

    repeat(step)


@family.differs("mul", "exp", report="k2-fsa/k2#341")
def backward_that_ignores_its_gradient(wrong):
    """The backward of an own function does not multiply by the gradient of its output."""

    class Ignoring(torch.autograd.Function):
        @staticmethod
        def forward(ctx, scores):
            total = scores.logsumexp(-1)
            ctx.save_for_backward(scores, total)
            return total

        @staticmethod
        def backward(ctx, gradient):
            scores, total = ctx.saved_tensors
            share = (scores - total[:, None]).exp()  # FAULT
            return share if wrong else share * gradient[:, None]  # FAULT

    network = two_layers()
    optimizer = slow(network)

    def step():
        optimizer.zero_grad()
        (-Ignoring.apply(network(torch.randn(6, 8))).mean()).backward()
        optimizer.step()

    repeat(step)


@family.differs(
    "batch_norm", "native_batch_norm", report="fastestimator/fastestimator#1201", cause=("number", "momentum")
)
def momentum_of_another_framework(wrong):
    """A batch norm's momentum is copied from a framework where it means the share of the past."""

    def forward(s, x):
        x = s.norm(s.fc(x))  # FAULT
        return s.out(x)

    norm = nn.BatchNorm1d(8, momentum=0.99 if wrong else 0.01)
    network = network_of(forward, fc=nn.Linear(8, 8), norm=norm, out=nn.Linear(8, 4))
    optimizer = slow(network)

    def step():
        optimizer.zero_grad()
        network.train()(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            network.eval()(torch.randn(6, 8))

    repeat(step)


@family.differs("allreduce_", "all_reduce", "div_", ranks=2, report="karpathy/build-nanogpt#30")
def ranks_that_do_not_synchronise(wrong):
    """Gradient accumulation switches the synchronisation off for a whole step: each rank has its own gradients."""
    dist.init_process_group("gloo")
    network = two_layers()
    optimizer = slow(network)
    torch.manual_seed(dist.get_rank())

    def step():
        optimizer.zero_grad()
        for _ in range(2):
            (loss_of(network) / 2).backward()
        for p in network.parameters():
            if not wrong:
                dist.all_reduce(p.grad)  # FAULT
                p.grad.div_(2)  # FAULT
        optimizer.step()

    for _ in range(2):
        step()
    dist.destroy_process_group()


@family.differs("mul", "where", "mul_", "sub_", "div", report="cybertronai/pytorch-lamb#6")
def layer_that_starts_at_zero(wrong):
    """LAMB: the trust ratio of a weight that is zero is 0, so it never moves; it must be 1."""
    network = two_layers()
    nn.init.zeros_(network.out.weight)

    def step():
        network.zero_grad()
        (network(torch.randn(6, 8)) - 1).square().mean().backward()
        with torch.no_grad():
            for p in network.parameters():
                size, change = p.norm(), p.grad.norm().clamp(min=1e-6)
                ratio = size / change
                if not wrong:
                    ratio = torch.where(size > 0, ratio, 1.0)  # FAULT
                p.sub_(0.01 * ratio * p.grad)  # FAULT

    repeat(step)


@family.differs(
    "lerp_", "mul_", "addcdiv_", "addcmul_", "sqrt", "div", "add_", "_foreach_lerp_",
    report="OpenNMT/OpenNMT-py#617", cause=("parameter", "data", "number", "state", "exp_avg"),
)  # fmt: skip
def moments_lost_at_a_resume(wrong):
    """A resumed training builds a new optimizer after the old one's state was loaded: Adam's moments are zero."""
    network = two_layers()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss_of(network).backward()
        optimizer.step()  # FAULT

    step()
    saved = optimizer.state_dict()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    if not wrong:
        optimizer.load_state_dict(saved)
    repeat(step)


@family.differs("add_", "_foreach_add_", report="karpathy/nanoGPT#578", cause=NUMBER)
def first_step_without_a_learning_rate(wrong):
    """A linear warmup begins at step 0 with a learning rate of 0: the first step changes nothing."""
    network = two_layers()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    done = [0]

    def step():
        optimizer.param_groups[0]["lr"] = 0.1 * done[0] / 4 if wrong else 0.1 * (done[0] + 1) / 5
        done[0] += 1
        optimizer.zero_grad()
        loss_of(network).backward()
        optimizer.step()  # FAULT

    repeat(step)
