"""Optimizers, gradients and their clipping, in two ways that compute the same."""

import torch
from cases import Family
from rewrites_training import mean_square, note, rows, sgd, train
from torch import nn

family = Family("rewrites")


def network_of_two():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


class Own(torch.optim.Optimizer):
    """An optimizer of one function, which takes a parameter, its state and the number of the step."""

    def __init__(self, parameters, update):
        super().__init__(parameters, {})
        self.update = update

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            state["step"] = state.get("step", 0) + 1
            self.update(p, state, state["step"])


def either(other, update, library, steps=3):
    network = network_of_two()
    optimizer = Own(network.parameters(), update) if other else library(network.parameters())
    train(network, rows(4, 6), optimizer=optimizer, steps=steps)


@family.rounding()
def sgd_by_hand(other):
    def update(p, state, step):
        p -= 0.1 * p.grad

    either(other, update, lambda ps: torch.optim.SGD(ps, lr=0.1))


@family.rounding()
def momentum_by_hand(other):
    def update(p, state, step):
        gradient = p.grad + 0.01 * p
        state["buffer"] = gradient if step == 1 else 0.9 * state["buffer"] + gradient
        p.sub_(0.1 * state["buffer"])

    either(other, update, lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01))


@family.rounding()
def nesterov_by_hand(other):
    def update(p, state, step):
        state["buffer"] = p.grad.clone() if step == 1 else state["buffer"].mul(0.9).add(p.grad)
        p.add_(p.grad + 0.9 * state["buffer"], alpha=-0.1)

    either(other, update, lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True))


def adam(p, state, step, rate=1e-2, decay=0.0):
    mean, square = state.setdefault("m", torch.zeros_like(p)), state.setdefault("v", torch.zeros_like(p))
    p.mul_(1 - rate * decay)
    mean.mul_(0.9).add_(p.grad, alpha=0.1)
    square.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
    p.addcdiv_(mean / (1 - 0.9**step), (square / (1 - 0.999**step)).sqrt() + 1e-8, value=-rate)


@family.rounding()
def adam_by_hand(other):
    either(other, adam, lambda ps: torch.optim.Adam(ps, lr=1e-2))


@family.rounding()
def adamw_by_hand(other):
    either(other, lambda *what: adam(*what, decay=0.1), lambda ps: torch.optim.AdamW(ps, lr=1e-2, weight_decay=0.1))


@family.rounding()
def adamw_or_adam_with_decay_by_hand(other):
    network = network_of_two()
    kind = torch.optim.Adam if other else torch.optim.AdamW
    optimizer = kind(network.parameters(), lr=1e-2, weight_decay=0.0 if other else 0.1)
    for step in range(3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss = mean_square(network(torch.randn(4, 6)))
        loss.backward()
        if other:
            with torch.no_grad():
                for p in network.parameters():
                    p.mul_(1 - 1e-2 * 0.1)
        optimizer.step()
        note(loss)


@family.rounding()
def rmsprop_by_hand(other):
    def update(p, state, step):
        square = state.setdefault("square", torch.zeros_like(p))
        square.lerp_(p.grad.square(), 0.01)
        p -= 1e-3 * p.grad / (square.sqrt() + 1e-8)

    either(other, update, lambda ps: torch.optim.RMSprop(ps, lr=1e-3, alpha=0.99))


@family.rounding()
def adagrad_foreach(other):
    network = network_of_two()
    train(network, rows(4, 6), optimizer=torch.optim.Adagrad(network.parameters(), lr=0.05, foreach=other))


@family.rounding()
def nadam_foreach(other):
    network = network_of_two()
    train(network, rows(4, 6), optimizer=torch.optim.NAdam(network.parameters(), lr=1e-2, foreach=other))


@family.rounding()
def adamax_foreach(other):
    network = network_of_two()
    train(network, rows(4, 6), optimizer=torch.optim.Adamax(network.parameters(), lr=1e-2, foreach=other))


@family.rounding()
def adadelta_foreach(other):
    network = network_of_two()
    train(network, rows(4, 6), optimizer=torch.optim.Adadelta(network.parameters(), lr=0.5, foreach=other))


@family.rounding()
def adam_amsgrad_fused(other):
    network = network_of_two()
    options = {"fused": True} if other else {"foreach": False}
    train(network, rows(4, 6), optimizer=torch.optim.Adam(network.parameters(), lr=1e-2, amsgrad=True, **options))


@family.rounding()
def learning_rate_as_tensor(other):
    network = network_of_two()
    rate = torch.tensor(1e-2) if other else 1e-2
    train(network, rows(4, 6), optimizer=torch.optim.Adam(network.parameters(), lr=rate, foreach=False))


@family.rounding()
def schedule_or_rates_by_hand(other):
    network = network_of_two()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    schedule = None if other else torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    for step in range(3):
        torch.manual_seed(step)
        if other:
            for group in optimizer.param_groups:
                group["lr"] = 1e-2 / (1 + step)
        optimizer.zero_grad()
        loss = mean_square(network(torch.randn(4, 6)))
        loss.backward()
        optimizer.step()
        if schedule:
            schedule.step()
        note(loss)


@family.rounding()
def weight_decay_in_the_loss(other):
    network = network_of_two()
    optimizer = sgd(network, weight_decay=0 if other else 0.01)
    for step in range(3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        plain = mean_square(network(torch.randn(4, 6)))
        loss = plain + 0.005 * sum(p.square().sum() for p in network.parameters()) if other else plain
        loss.backward()
        optimizer.step()
        note(plain)


def stepped(between, gradients=None, optimizer=sgd):
    """A training by hand; `between` changes the gradients."""
    network = network_of_two()
    optimizer = optimizer(network)
    for step in range(3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss = mean_square(network(torch.randn(4, 6)) - 1)
        if gradients:
            gradients(loss, network)
        else:
            loss.backward()
        between(network)
        optimizer.step()
        note(loss)


@family.rounding()
def norm_clipped_by_hand(other):
    def between(network):
        if not other:
            nn.utils.clip_grad_norm_(network.parameters(), 0.1)
            return
        total = torch.cat([p.grad.flatten() for p in network.parameters()]).norm()
        for p in network.parameters():
            p.grad.mul_(0.1 / (total + 1e-6))

    stepped(between)


@family.rounding()
def norm_clipped_by_squares(other):
    def between(network):
        if not other:
            nn.utils.clip_grad_norm_(network.parameters(), 0.1, foreach=False)
            return
        total = sum(p.grad.square().sum() for p in network.parameters()).sqrt().item()
        if total > 0.1:
            for p in network.parameters():
                p.grad = p.grad * (0.1 / (total + 1e-6))

    stepped(between)


@family.rounding()
def norm_clipped_one_by_one(other):
    stepped(
        lambda network: nn.utils.clip_grad_norm_(network.parameters(), 0.1, foreach=other),
        optimizer=lambda network: torch.optim.Adam(network.parameters(), lr=1e-2),
    )


@family.rounding()
def norm_clipped_in_two_halves(other):
    """get_total_norm and clip_grads_with_norm_ are the two halves of clip_grad_norm_."""

    def between(network):
        parameters = list(network.parameters())
        if other:
            total = nn.utils.get_total_norm([p.grad for p in parameters])
            nn.utils.clip_grads_with_norm_(parameters, 0.1, total)
        else:
            nn.utils.clip_grad_norm_(parameters, 0.1)

    stepped(between)


@family.rounding()
def values_clipped_by_hand(other):
    def between(network):
        if other:
            for p in network.parameters():
                p.grad = p.grad.clamp(-0.05, 0.05)
        else:
            nn.utils.clip_grad_value_(network.parameters(), 0.05)

    stepped(between)


@family.rounding()
def gradients_by_grad_or_backward(other):
    def gradients(loss, network):
        parameters = list(network.parameters())
        for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            p.grad = gradient

    stepped(lambda network: None, gradients if other else None)


@family.rounding()
def losses_backward_alone_or_together(other):
    network = network_of_two()
    optimizer = sgd(network)
    for step in range(3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        y = network(torch.randn(4, 6))
        one, two = y[:, 0].square().mean(), y[:, 1:].abs().mean()
        if other:
            one.backward(retain_graph=True)
            two.backward()
        else:
            (one + two).backward()
        optimizer.step()
        note(one + two)


def accumulated(other, optimizer, parts=2):
    """Parts of the batch, each with its part of the loss, or the whole batch."""
    network = network_of_two()
    optimizer = optimizer(network)
    for step in range(3):
        torch.manual_seed(step)
        x, total = torch.randn(8, 6), 0.0
        optimizer.zero_grad()
        for part in x.chunk(parts if other else 1):
            loss = mean_square(network(part) - 1) / (parts if other else 1)
            loss.backward()
            total += loss.item()
        optimizer.step()
        note(torch.tensor(total))


@family.rounding()
def accumulated_or_whole_sgd(other):
    accumulated(other, lambda network: sgd(network, momentum=0.9))


@family.rounding()
def accumulated_or_whole_adamw(other):
    accumulated(other, lambda network: torch.optim.AdamW(network.parameters(), lr=1e-2), parts=4)


@family.rounding()
def accumulated_by_hand(other):
    """Gradients of two halves, which the loop adds itself or PyTorch accumulates."""
    network = network_of_two()
    optimizer = sgd(network)
    for step in range(3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        sums = [torch.zeros_like(p) for p in network.parameters()]
        for _ in range(2):
            loss = mean_square(network(torch.randn(4, 6)))
            if other:
                gradients = torch.autograd.grad(loss, list(network.parameters()))
                sums = [total + gradient for total, gradient in zip(sums, gradients, strict=True)]
            else:
                loss.backward()
        if other:
            for p, total in zip(network.parameters(), sums, strict=True):
                p.grad = total
        optimizer.step()
        note(loss)


@family.rounding()
def loss_scaled_and_gradients_unscaled(other):
    """As an own scaler of float16 does it, with a power of two."""

    def gradients(loss, network):
        (loss * 1024).backward()
        for p in network.parameters():
            p.grad.div_(1024)

    stepped(lambda network: None, gradients if other else None)


@family.rounding()
def optimizer_in_the_backward_pass(other):
    """Each parameter is updated as soon as its gradient is there."""
    network = network_of_two()
    if other:
        optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in network.parameters()}

        def update(p):
            optimizers[p].step()
            optimizers[p].zero_grad()

        for p in network.parameters():
            p.register_post_accumulate_grad_hook(update)
    else:
        optimizer = sgd(network)
    for step in range(3):
        torch.manual_seed(step)
        loss = mean_square(network(torch.randn(4, 6)))
        loss.backward()
        if not other:
            optimizer.step()
            optimizer.zero_grad()
        note(loss)


@family.rounding()
def average_of_weights_by_lists(other):
    """An exponential average beside the training: one by one, or by foreach; then a prediction with it."""
    network, average = network_of_two(), network_of_two()
    average.load_state_dict(network.state_dict())
    optimizer = sgd(network)
    for step in range(3):
        torch.manual_seed(step)
        x = torch.randn(4, 6)
        optimizer.zero_grad()
        mean_square(network(x)).backward()
        optimizer.step()
        with torch.no_grad():
            if other:
                torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), 0.1)
            else:
                for kept, new in zip(average.parameters(), network.parameters(), strict=True):
                    kept.mul_(0.9).add_(new, alpha=0.1)
            note(average(x).square().mean())
