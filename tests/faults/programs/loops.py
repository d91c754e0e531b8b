"""Loops whose state passes from one call of the model to the next: samplers, trainings without an optimizer.

And numbers that such loops only print."""

import torch
from cases import STATISTICS, TENSORS, Family
from torch import nn
from training import batch

family = Family("loops")


def denoise(steps, alpha, net):
    x = torch.randn(3, 4)
    for i in range(steps):
        x = (x - 0.1 * net(x)) / alpha[i].sqrt()  # FAULT
    return x


def fault(body, *ops, **what):
    def add(program):
        program.__wrapped__ = body
        return family.fault(*ops, **what)(program)

    return add


@fault(denoise, "div", short=True)
def sampler_divides_by_zero():
    with torch.no_grad():
        print(denoise(4, torch.tensor([0.9, 0.5, 0.0, 0.3]), nn.Linear(4, 4)).mean().item())


@family.fault("log")
def sampler_keeps_it_for_two_calls():
    """The bad value skips a call: it is in no operator of the step after it."""
    net = nn.Linear(4, 4)
    with torch.no_grad():
        older, old = torch.randn(3, 4), torch.randn(3, 4)
        for i in range(5):
            out = net(older)
            older, old = old, torch.log(out.abs() * (i != 1))  # FAULT
        print(net(old).sum().item())


@family.fault("div")
def generation_with_a_temperature_of_zero():
    net = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6))
    state = torch.ones(2, 4)
    with torch.no_grad():
        for i in range(3):
            logits = net(torch.tensor([1, 2])) + nn.functional.linear(state, net[1].weight)
            state = net[1].weight[logits.argmax(-1)] / (0.0 if i == 1 else 1.0)  # FAULT
            print(net[1](state).sum().item())


@family.fault("div", evidence=(TENSORS, STATISTICS))
def functional_training():
    from torch.func import functional_call, grad

    net = nn.Linear(4, 4)
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    for step in range(3):
        x, part = batch(), float(step != 1)

        def loss_of(p, x=x, part=part):
            return functional_call(net, p, (x,)).square().mean() * part

        gradients = grad(loss_of)(parameters)
        norm = torch.stack([g.norm() for g in gradients.values()]).norm()
        parameters = {name: parameters[name] - 0.1 * g / norm for name, g in gradients.items()}  # FAULT
        print(loss_of(parameters).item())


@family.fault("sqrt")
def recurrent_state_between_steps():
    cell = nn.GRUCell(4, 4)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
    state = torch.zeros(6, 4)
    for step in range(4):
        optimizer.zero_grad()
        state = cell(batch(), state)
        state.square().mean().backward()
        optimizer.step()
        state = torch.sqrt(state.detach() - (100 if step == 1 else -1))  # FAULT


# --- nothing is wrong -------------------------------------------------------------------------------------------------


def metric(read, value=torch.exp):
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    for _ in range(3):
        optimizer.zero_grad()
        loss = (net(batch()) * 100).square().mean()
        with torch.no_grad():
            read(value(loss))
        loss.backward()
        optimizer.step()


@family.healthy(short=True)
def infinite_metric_by_repr():
    metric(print)


@family.healthy()
def infinite_metric_in_a_vector():
    metric(lambda perplexity: print(torch.stack([perplexity, perplexity, torch.zeros(())])))


@family.healthy()
def infinite_metric_by_format():
    metric(lambda perplexity: print(f"{perplexity:.3f} {perplexity} {perplexity.tolist()}"))


@family.healthy()
def nan_metric_by_repr():
    metric(lambda ratio: print(ratio, [ratio]), value=lambda loss: (loss * 0) / (loss * 0))


@family.healthy()
def running_metric():
    """An average that an infinity has spoilt, and nothing but the log reads."""
    kept = []

    def read(perplexity):
        kept.append(perplexity if not kept else 0.9 * kept[-1] + 0.1 * perplexity)
        print("running", kept[-1].item(), torch.stack(kept).mean().item())

    metric(read)


@family.healthy()
def metric_of_a_module():
    """A counter of a library is a module, too."""

    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.total = 0.0

        def forward(self, value):
            self.total = self.total + value
            return self.total

    mean = Mean()
    metric(lambda perplexity: print(mean(perplexity).item()))


def double_backward(part):
    net = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        z = net(torch.ones(2, 4)) - torch.tensor([[50.0], [0.0]])  # row 0 is off
        part(z).sum().backward()
        optimizer.step()


@family.healthy(short=True)
def relu_drops_it_in_its_double_backward():
    def part(z):
        slope = torch.autograd.grad(z.relu().sum(), z, create_graph=True)[0]
        return (slope * z.relu()).square().sum(-1).sqrt()

    double_backward(part)


@family.healthy()
def threshold_drops_it():
    def part(z):
        slope = torch.autograd.grad(nn.functional.threshold(z, 0.1, 0.0).sum(), z, create_graph=True)[0]
        return (slope * z.relu()).norm(dim=-1) + (slope * z.relu()).square().sum(-1).sqrt()

    double_backward(part)


@family.healthy()
def gradient_of_an_input_that_no_optimizer_has():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        x = torch.zeros(6, 4, requires_grad=True)
        (net(torch.ones(6, 4)).sum() + x.square().sum().sqrt()).backward()
        optimizer.step()
