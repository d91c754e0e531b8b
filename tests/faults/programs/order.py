"""The golden program in another order: its statements, its definitions, the names of its parts, what it reads. Only a
fault beside that is a difference."""

import torch
import torch.nn.functional as F
from cases import Family
from finite_training import network_of, rows, training
from torch import nn
from torch.utils.checkpoint import checkpoint

family = Family("another order")


class Blocks(nn.Module):
    """Layers of equal shapes, defined in another order and under other names; they run in one order."""

    def __init__(self, other):
        super().__init__()
        names = ("third", "second", "first", "head") if other else ("a", "b", "c", "d")
        for name in names:
            setattr(self, name, nn.Linear(8, 8))
        self.order = [getattr(self, n) for n in (("first", "second", "third", "head") if other else names)]
        torch.manual_seed(7)
        for layer in self.order:
            nn.init.normal_(layer.weight, std=0.3)
            nn.init.normal_(layer.bias, std=0.3)

    def forward(self, x):
        for layer in self.order[:-1]:
            x = layer(x).tanh()
        return self.order[-1](x)


def optimizer_over_blocks(other, kind, **options):
    network = Blocks(other)
    training(network, rows(6, 8), optimizer=kind(network.parameters(), lr=0.01, **options))


@family.rounding(short=True)
def views_of_a_split(other):
    def forward(s, x):
        def heads(t):
            return t.view(2, 5, 2, 4).transpose(1, 2)

        q, k, v = s.qkv(x).split(8, -1)
        if other:
            v, k, q = heads(v), heads(k), heads(q)
        else:
            q, k, v = heads(q), heads(k), heads(v)
        return s.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 5, 8))

    training(network_of(forward, qkv=nn.Linear(8, 24), out=nn.Linear(8, 8)), rows(2, 5, 8))


@family.differs("scaled_dot_product_attention")
def views_of_a_split_and_a_scale(wrong):
    def forward(s, x):
        q, k, v = s.qkv(x).split(8, -1)
        if wrong:
            v, k, q = v.unflatten(-1, (2, 4)), k.unflatten(-1, (2, 4)), q.unflatten(-1, (2, 4))
        else:
            q, k, v = q.unflatten(-1, (2, 4)), k.unflatten(-1, (2, 4)), v.unflatten(-1, (2, 4))
        return s.out(F.scaled_dot_product_attention(q, k, v, scale=0.7 if wrong else 0.5).flatten(2))  # FAULT

    training(network_of(forward, qkv=nn.Linear(8, 24), out=nn.Linear(8, 8)), rows(2, 5, 8))


@family.rounding()
def branches_of_one_tensor(other):
    def forward(s, x):
        h = s.fc(x)
        if other:
            low, high = h[:, 4:].exp(), h[:, :4].exp()
        else:
            high, low = h[:, :4].exp(), h[:, 4:].exp()
        return s.out(torch.cat([high * low.log1p(), low], 1))

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 3)), rows(6, 8))


@family.rounding()
def unbind_of_three(other):
    def forward(s, x):
        parts = s.qkv(x).view(2, 5, 3, 8).unbind(2)
        order = (1, 2, 0) if other else (0, 1, 2)
        turned = {i: parts[i].transpose(0, 1).contiguous() for i in order}
        return s.out((turned[0] * turned[1]).softmax(-1) - turned[2])

    training(network_of(forward, qkv=nn.Linear(8, 24), out=nn.Linear(8, 3)), rows(2, 5, 8))


@family.rounding()
def data_in_another_order(other):
    torch.manual_seed(3)
    first, second, third = torch.randn(6, 8), torch.randn(6, 8), torch.randn(6, 8)

    def forward(s, x):
        if other:
            c, b, a = third.tanh(), second.exp(), first.exp()
        else:
            a, b, c = first.exp(), second.exp(), third.tanh()
        return s.out(x * a + b.log1p() - c)

    training(network_of(forward, out=nn.Linear(8, 3)), rows(6, 8))


@family.rounding(short=True)
def parameters_adamw(other):
    optimizer_over_blocks(other, torch.optim.AdamW, foreach=False)


@family.rounding()
def parameters_adamw_foreach(other):
    optimizer_over_blocks(other, torch.optim.AdamW, foreach=True)


@family.rounding()
def parameters_adam_fused(other):
    optimizer_over_blocks(other, torch.optim.Adam, fused=True)


@family.rounding()
def parameters_adam_fused_beside_plain(other):
    optimizer_over_blocks(other, torch.optim.Adam, **({"fused": True} if other else {"foreach": False}))


@family.rounding()
def parameters_sgd_momentum(other):
    optimizer_over_blocks(other, torch.optim.SGD, momentum=0.9, weight_decay=0.01, foreach=False)


@family.rounding()
def parameters_sgd_foreach(other):
    optimizer_over_blocks(other, torch.optim.SGD, momentum=0.9, foreach=True)


@family.rounding()
def parameters_nadam(other):
    optimizer_over_blocks(other, torch.optim.NAdam, foreach=False)


@family.rounding()
def parameters_nadam_foreach(other):
    optimizer_over_blocks(other, torch.optim.NAdam, foreach=True)


@family.rounding()
def parameters_rmsprop(other):
    optimizer_over_blocks(other, torch.optim.RMSprop, momentum=0.5, centered=True, foreach=False)


@family.rounding()
def parameters_adagrad(other):
    optimizer_over_blocks(other, torch.optim.Adagrad, foreach=False)


@family.rounding()
def parameters_radam_foreach(other):
    optimizer_over_blocks(other, torch.optim.RAdam, foreach=True)


@family.differs("mul")
def parameters_and_a_hook(wrong):
    network = Blocks(wrong)
    factor = 1.5 if wrong else 1.0
    network.order[1].weight.register_hook(lambda gradient: gradient * factor)  # FAULT
    training(network, rows(6, 8), optimizer=torch.optim.AdamW(network.parameters(), lr=0.01, foreach=False))


@family.differs("mul_", "addcmul_")
def parameters_and_a_decay(wrong):
    network = Blocks(wrong)
    decay = 0.1 if wrong else 0.01
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=decay, foreach=False)
    data = rows(6, 8)
    torch.manual_seed(1)
    for _ in range(2):
        optimizer.zero_grad()
        network(*data()).square().mean().backward()
        optimizer.step()  # FAULT


def checkpointed(again):
    """A checkpointed block on one side only."""

    def forward(s, x):
        def block(h):
            return s.fc(F.dropout(s.up(h).relu(), 0.5))

        if again:
            return s.out(checkpoint(block, x, use_reentrant=False))
        return s.out(block(x))

    parts = {"up": nn.Linear(8, 16), "fc": nn.Linear(16, 8), "out": nn.Linear(8, 3)}
    training(network_of(forward, **parts), rows(6, 8))


@family.rounding(short=True)
def checkpoint_in_the_target(other):
    checkpointed(other)


@family.rounding()
def checkpoint_in_the_golden_run(other):
    checkpointed(not other)


@family.differs("dropout", short=True)
def checkpoint_with_another_mask(wrong):
    def forward(s, x):
        def block(h):
            return s.fc(F.dropout(s.up(h).relu(), 0.5))  # FAULT

        again = checkpoint(block, x, use_reentrant=False, preserve_rng_state=False) if wrong else block(x)
        return s.out(again)

    parts = {"up": nn.Linear(8, 16), "fc": nn.Linear(16, 8), "out": nn.Linear(8, 3)}
    training(network_of(forward, **parts), rows(6, 8))


@family.differs("dropout")
def checkpoint_with_another_mask_in_the_golden_run(wrong):
    def forward(s, x):
        def block(h):
            return s.fc(F.dropout(s.up(h).relu(), 0.5))  # FAULT

        again = block(x) if wrong else checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)
        return s.out(again)

    parts = {"up": nn.Linear(8, 16), "fc": nn.Linear(16, 8), "out": nn.Linear(8, 3)}
    training(network_of(forward, **parts), rows(6, 8))


@family.rounding()
def checkpointed_layers_with_one_scope(other):
    def forward(s, x):
        for _ in range(3):
            x = checkpoint(s.fc, x, use_reentrant=False).tanh() if other else s.fc(x).tanh()
        return s.out(x)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 3)), rows(6, 8))


def in_parts(parts):
    """One batch of 8 rows, or parts of it whose gradients are added up."""
    network = Blocks(False)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    torch.manual_seed(1)
    for _ in range(2):
        batch = torch.randn(8, 8)
        optimizer.zero_grad()
        for part in batch.chunk(parts):
            loss = network(part).square().mean()
            (loss / parts).backward()
        optimizer.step()


@family.rounding()
def accumulated_batch(other):
    in_parts(4 if other else 1)


@family.differs("ones_like", "add_", "_foreach_add_", short=True)
def accumulated_without_division(wrong):
    network = Blocks(False)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    torch.manual_seed(1)
    for _ in range(2):
        batch = torch.randn(8, 8)
        optimizer.zero_grad()
        for part in batch.chunk(4 if wrong else 1):
            network(part).square().mean().backward()  # FAULT
        optimizer.step()  # FAULT
