"""Functions outside of their domain."""

import torch
from cases import Family
from torch import nn
from torch.nn import functional as F
from training import Small, batch, train

family = Family("domain errors")


@family.fault("log", verdicts=("operator",), short=True)
def log_of_zero():
    def body(y):
        weight = torch.relu(y).sum(-1) * 0
        return y + torch.log(weight).unsqueeze(-1)  # FAULT

    train(Small(body))


@family.fault("log")
def log_of_negative():
    train(Small(lambda y: torch.log(y - 10)))  # FAULT


@family.fault("sqrt")
def variance_by_two_means():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            y = self.fc(x) + 1e4
            variance = (y * y).mean(-1) - y.mean(-1).square() - 1e-3  # rounding makes it negative
            return y / torch.sqrt(variance - variance.max()).unsqueeze(-1)  # FAULT

    train(Scale())


@family.fault("acos")
def angle_beyond_one():
    def body(y):
        unit = F.normalize(y, dim=-1)
        cosine = (unit @ unit.t()) * 1.0001
        return torch.acos(cosine)  # FAULT

    train(Small(body))


@family.fault("div")
def mean_of_no_tokens():
    def body(y, keep):
        return (y * keep).sum(0) / keep.sum(0)  # FAULT

    train(Small(body), batch(), torch.zeros(6, 4))


@family.fault("pow")
def root_of_negative_by_pow():
    train(Small(lambda y: (y - 5) ** 0.5))  # FAULT


@family.fault("reciprocal")
def reciprocal_of_zero():
    train(Small(lambda y: y * torch.reciprocal(torch.relu(y - 100))))  # FAULT


@family.fault("rsqrt")
def rsqrt_of_no_variance():
    def body(y):
        same = y[:, :1].expand(-1, 4)
        centred = same - same.mean(-1, keepdim=True) * 1.0
        return same * torch.rsqrt((centred * 0).square().mean(-1, keepdim=True))  # FAULT

    train(Small(body))


@family.fault("atanh")
def atanh_of_one():
    train(Small(lambda y: torch.atanh(torch.tanh(y * 0 + 100))))  # FAULT


@family.fault("log", "mul")
def entropy_of_certainty():
    def body(y):
        p = torch.softmax(y * 1e5, -1)
        return -(p * torch.log(p)).sum(-1)  # FAULT

    train(Small(body))


@family.fault("div", "mul", "sqrt", "pow", short=True)
def distance_of_equal_points_backward():
    def body(y):
        other = y.detach().clone()
        return ((y - other) ** 2).sum(-1).sqrt()  # FAULT

    train(Small(body))


@family.fault("rsqrt", "mul", "div", "acos")
def acos_of_one_backward():
    def body(y):
        cosine = torch.clamp(y * 0 + 1, -1, 1)
        return torch.acos(cosine)  # FAULT

    train(Small(body))


@family.fault("div")
def where_behind_the_log():
    def body(y):
        z = y - y.detach()
        return torch.where(z > 0, torch.log(z), torch.zeros_like(z))  # FAULT

    train(Small(body))


@family.fault("log_")
def log_in_place():
    def body(y):
        z = y.abs() * 0
        z.log_()  # FAULT
        return y + z

    train(Small(body))


@family.fault("div", "reciprocal")
def custom_function_forward():
    class Invert(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 1 / x  # FAULT

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return -grad / (x * x)

    train(Small(lambda y: Invert.apply(torch.relu(y - 50))))


@family.fault("div", short=True)
def custom_function_backward():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad / (x - x)  # FAULT

    train(Small(Scaled.apply))


@family.fault("div")
def division_into_a_buffer():
    class Ratio(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.register_buffer("ratio", torch.zeros(6, 4))

        def forward(self, x):
            y = self.fc(x)
            with torch.no_grad():
                torch.div(y, torch.relu(y - 50), out=self.ratio)  # FAULT
            return y + self.ratio

    train(Ratio())


@family.fault("logit")
def logit_of_one():
    train(Small(lambda y: torch.logit(torch.sigmoid(y * 0 + 50))))  # FAULT


@family.fault("erfinv")
def erfinv_of_one():
    train(Small(lambda y: torch.erfinv(torch.tanh(y * 0 + 50))))  # FAULT


@family.fault("fmod", "remainder")
def remainder_by_zero():
    train(Small(lambda y: torch.fmod(y, torch.relu(y - 50))))  # FAULT


@family.fault("xlogy")
def xlogy_of_zero():
    train(Small(lambda y: torch.xlogy(torch.sigmoid(y), torch.relu(y - 50))))  # FAULT


@family.fault("mul", "reciprocal", "div")
def hook_divides_by_zero():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    def scale(module, inputs, output):
        return output / (output - output)  # FAULT

    net[0].register_forward_hook(scale)
    train(net)


@family.fault("log")
def under_checkpointing():
    from torch.utils.checkpoint import checkpoint

    def body(y):
        return torch.log(torch.relu(y - 50))  # FAULT

    train(Small(lambda y: checkpoint(body, y, use_reentrant=False)))


@family.fault("sqrt")
def second_micro_batch():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(2):
        optimizer.zero_grad()
        for micro in range(3):
            y = net(batch())
            if (step, micro) == (1, 2):
                y = y - 100
            loss = torch.sqrt(y + 50).mean()  # FAULT
            (loss / 3).backward()
        optimizer.step()


@family.fault("div")
def printed_before_it_kills():
    """A metric of 0 / 0 is printed in step 0 and does no harm; in step 2 the loss is NaN."""
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        y = net(batch())
        found = (y.detach() > 100).float().sum()
        print("precision", (found / (found + 0)).item())
        scale = y.detach().abs().max() if step < 2 else y.detach().abs().max() * 0
        loss = (y / scale).mean()  # FAULT
        loss.backward()
        optimizer.step()


@family.fault("sqrt")
def in_a_buffer_only():
    """A running statistic becomes bad, but this step does not use it."""

    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.register_buffer("spread", torch.ones(4))

        def forward(self, x):
            y = self.fc(x)
            with torch.no_grad():
                self.spread.copy_(torch.sqrt(y.mean(0) - 10))  # FAULT
            return y

    train(Running(), steps=1)


@family.fault("log")
def under_reentrant_checkpointing():
    from torch.utils.checkpoint import checkpoint

    def body(y):
        return torch.log(torch.relu(y - 50)) + y  # FAULT

    train(Small(lambda y: checkpoint(body, y, use_reentrant=True)))


@family.fault("div")
def in_a_pre_hook():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net[1].register_forward_pre_hook(lambda module, inputs: (inputs[0] / (inputs[0] * 0),))  # FAULT
    train(net)


@family.fault("_foreach_div_", "_foreach_div")
def foreach_by_zero():
    net = nn.Linear(4, 4)
    (net(batch()) * 0).sum().backward()
    grads = [p.grad for p in net.parameters()]
    torch._foreach_div_(grads, torch._foreach_norm(grads))  # FAULT
    torch.optim.SGD(net.parameters(), lr=0.1).step()


@family.fault("log", evidence=("tensors", "statistics"))
def bad_validation():
    """Training is healthy; the model's evaluation is not."""
    net = Small(lambda y: y if torch.is_grad_enabled() else torch.log(y - 50))  # FAULT
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        net(batch()).mean().backward()
        optimizer.step()
        with torch.no_grad():
            print("validation", F.mse_loss(net(batch()), torch.zeros(6, 4)).item())


@family.fault("log", short=True)
def inference_only():
    net = Small(lambda y: torch.log(y - 50)).eval()  # FAULT
    with torch.no_grad():
        for _ in range(2):
            print(net(batch()).argmax(-1).tolist())


@family.fault("reciprocal")
def detached_scale():
    def body(y):
        scale = (y.detach() * 0).abs().amax()
        return y * (1 / scale)  # FAULT

    train(Small(body))


@family.fault("bmm", "matmul", "mul")
def zero_times_infinity_in_a_matmul():
    """A mask of -inf multiplied, not added."""

    def body(y):
        mask = torch.triu(torch.full((6, 6), -float("inf")), 1)
        return mask @ y  # FAULT

    train(Small(body))


@family.fault("mul")
def mask_multiplied():
    def body(y):
        mask = torch.full((6, 4), -float("inf"))
        return y + mask * (y.detach() > 100)  # FAULT

    train(Small(body))


@family.fault("tan", "lgamma", "digamma")
def digamma_of_zero():
    train(Small(lambda y: torch.digamma(torch.relu(y - 50))))  # FAULT
