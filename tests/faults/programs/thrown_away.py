"""Runs without gradients whose results nobody uses, before the training or before the requests; and results that
somebody does use, though no gradient sees them."""

import torch
import torch.distributed as dist
from cases import STATISTICS, TENSORS, Family
from torch import nn
from torch.nn import functional as F
from training import batch, train

family = Family("thrown away")
BOTH = (TENSORS, STATISTICS)


class Adapting(nn.Module):
    """Divides by what it has seen in training: before that by 0."""

    def __init__(self, counts_always=False):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.out = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(()))
        self.counts_always = counts_always

    def forward(self, x):
        y = self.fc(x).tanh()
        if torch.is_grad_enabled() or self.counts_always:
            self.seen += 1
        return self.out(y * self.seen / self.seen)  # FAULT


def fault(*ops, **what):
    def add(program):
        program.__wrapped__ = Adapting
        return family.fault(*ops, evidence=BOTH, **what)(program)

    return add


@family.healthy(evidence=BOTH, short=True)
def warm_up_before_the_training():
    net = Adapting()
    with torch.no_grad():
        net(batch())
    train(net, batch())


@family.healthy(evidence=BOTH)
def warm_up_of_several_calls_in_evaluation_mode():
    net = Adapting()
    net.eval()
    for _ in range(3):
        with torch.inference_mode():
            net(batch())
    net.train()
    train(net, batch())


@family.healthy(evidence=BOTH)
def warm_up_with_an_optimizer_alive():
    net = Adapting()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with torch.no_grad():
        net(batch())
    train(net, batch(), optimizer=optimizer)


@family.healthy(evidence=BOTH)
def memory_is_measured_with_a_huge_batch():
    """The sizes are what is wanted: the numbers overflow, and nobody looks at them."""
    net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 4))
    with torch.no_grad():
        net(torch.full((32, 4), 3e38))
    train(net, batch())


@family.healthy(evidence=BOTH)
def loss_of_the_warm_up_is_used_by_nobody():
    net = Adapting()
    with torch.no_grad():
        F.mse_loss(net(batch()), batch())
    train(net, batch())


@family.healthy(evidence=BOTH)
def dummy_run_of_an_engine():
    """The requests come afterwards, and somebody takes their tokens."""
    net = Adapting()
    with torch.inference_mode():
        net(batch(16))
        net.seen += 1
        tokens = [net(batch(1)).argmax(-1).item() for _ in range(3)]
    print(tokens)


@family.healthy(evidence=BOTH, ranks=2)
def warm_up_of_two_ranks():
    """They add up their parts inside the model."""

    class Adds(Adapting):
        def forward(self, x):
            y = super().forward(x)
            total = y.detach().clone()
            dist.all_reduce(total)
            return y + total

    dist.init_process_group("gloo")
    net = Adds()
    with torch.no_grad():
        net(batch())
    train(net, batch())
    dist.destroy_process_group()


@family.healthy(evidence=BOTH)
def branch_that_is_computed_and_dropped():
    class Branches(Adapting):
        def forward(self, x):
            y = self.fc(x)
            torch.log(-y.square() - 1).mean(-1)
            return self.out(y)

    net = Branches()
    with torch.no_grad():
        net(batch())
    train(net, batch())


@family.healthy(evidence=BOTH)
def second_loss_that_nobody_adds():
    def loss_of(out):
        torch.log(-out.square() - 1).mean()
        return out.mean()

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.healthy(evidence=BOTH)
def statistic_of_an_activation_is_only_logged():
    class Logs(Adapting):
        def forward(self, x):
            y = self.fc(x)
            print("largest share", (y.abs().max() * 0 / (y * 0).sum()).item())
            return self.out(y)

    train(Logs(), batch())


@fault("div", short=True)
def loss_before_the_training_is_printed():
    net = Adapting()
    with torch.no_grad():
        print("before", F.mse_loss(net(batch()), batch()).item())
    train(net, batch())


@fault("div")
def result_before_the_training_is_printed():
    net = Adapting()
    with torch.no_grad():
        print("before", net(batch()))
    train(net, batch())


@fault("div")
def result_before_the_training_is_taken_to_the_host():
    net = Adapting()
    with torch.no_grad():
        kept = net(batch()).cpu()
    train(net, batch())
    print(kept.tolist())


@fault("div")
def losses_before_the_training_are_averaged_after_it():
    net = Adapting()
    with torch.no_grad():
        kept = [net(batch()).mean() for _ in range(2)]
    train(net, batch())
    print(torch.stack(kept).mean().item())


@fault("div")
def targets_are_computed_before_the_training():
    net, teacher = nn.Linear(4, 4), Adapting()
    x = batch()
    with torch.no_grad():
        goal = teacher(x)
    train(net, x, loss_of=lambda out: F.mse_loss(out, goal))


@fault("div")
def warm_up_fills_a_buffer():
    """Nobody uses the result. But the buffer keeps it, and the training reads that."""

    class Remembers(Adapting):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x):
            y = super().forward(x)
            self.mean.lerp_(y.detach().mean(0), 0.1)
            return y - self.mean

    net = Remembers()
    with torch.no_grad():
        net(batch())
    train(net, batch())


@fault("div")
def validation_after_the_training_is_the_result():
    class Breaks(Adapting):
        def forward(self, x):
            self.seen *= 0 if not torch.is_grad_enabled() else 1
            return super().forward(x)

    net = Breaks()
    train(net, batch())
    with torch.no_grad():
        result = net(batch())
    print(result.tolist())


@fault("div")
def the_only_call_is_the_result():
    with torch.no_grad():
        result = Adapting()(batch())
    print(result.tolist())


@fault("div")
def every_request_fails():
    """The results become lists; no operator reads them."""
    net = Adapting()
    with torch.inference_mode():
        print([net(batch(1)).tolist() for _ in range(3)])
