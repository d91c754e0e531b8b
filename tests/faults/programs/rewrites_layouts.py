"""Views, shapes, orders of axes and writing in place, in two ways that compute the same."""

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import rows, sgd, tokens, train
from torch import nn

family = Family("rewrites")


class Middle(nn.Module):
    """(batch, time, width): a linear layer, the function in question, and another linear layer."""

    def __init__(self, function, **parts):
        super().__init__()
        self.inner, self.outer, self.function = nn.Linear(6, 8), nn.Linear(8, 4), function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        return self.outer(self.function(self, self.inner(x)))


def either(other, one, another, **parts):
    train(Middle(one if other else another, **parts), rows(2, 5, 6))


@family.rounding()
def batch_folded_into_rows(other):
    def folded(s, h):
        return s.more(h.reshape(-1, 8)).view(2, 5, 8)

    either(other, folded, lambda s, h: s.more(h), more=nn.Linear(8, 8))


@family.rounding()
def contiguous_or_view(other):
    def forward(s, h):
        h = h.transpose(1, 2)
        h = h.contiguous() if other else h
        return s.more(h.tanh()).transpose(1, 2)

    either(other, forward, forward, more=nn.Linear(5, 5))


@family.rounding()
def product_transposed(other):
    either(
        other,
        lambda s, h: (s.more.weight @ h.mT).mT + s.more.bias,
        lambda s, h: h @ s.more.weight.T + s.more.bias,
        more=nn.Linear(8, 8),
    )


@family.rounding()
def weights_stored_transposed(other):
    """As GPT-2's Conv1D stores them."""

    class Stored(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.weight, self.bias = nn.Parameter(layer.weight.detach().t().contiguous()), layer.bias

        def forward(self, x):
            return torch.addmm(self.bias, x.view(-1, 8), self.weight).view(*x.shape[:-1], -1)

    layer = nn.Linear(8, 8)
    either(other, lambda s, h: s.more(h), lambda s, h: s.more(h), more=Stored(layer) if other else layer)


@family.rounding()
def relu_in_place(other):
    either(other, lambda s, h: F.relu(h, inplace=True), lambda s, h: F.relu(h))


@family.rounding()
def residual_in_place(other):
    def in_place(s, h):
        y = s.more(h)
        y += h
        return y.mul_(0.5).tanh_()

    either(other, in_place, lambda s, h: ((s.more(h) + h) * 0.5).tanh(), more=nn.Linear(8, 8))


@family.rounding()
def written_into_a_buffer_or_concatenated(other):
    def forward(s, h):
        parts = [h[:, i].tanh() * (i + 1) for i in range(5)]
        if other:
            y = torch.empty(2, 5, 8)
            for i, part in enumerate(parts):
                y[:, i] = part
            return y
        return torch.stack(parts, 1)

    either(other, forward, forward)


@family.rounding()
def masked_in_place_or_where(other):
    def forward(s, h):
        mask = torch.arange(5) % 2 == 0
        if other:
            h = h.clone()
            h[:, mask] = 0.0
            return h
        return torch.where(mask[:, None], 0.0, h)

    either(other, forward, forward)


@family.rounding()
def masked_by_product_or_fill(other):
    def forward(s, h):
        mask = h > 0.2
        return h * (~mask) if other else h.masked_fill(mask, 0.0)

    either(other, forward, forward)


@family.rounding()
def stacked_or_concatenated(other):
    def forward(s, h):
        a, b = h[..., :4], h[..., 4:]
        y = torch.cat([a.unsqueeze(2), b.unsqueeze(2)], 2) if other else torch.stack([a, b], dim=2)
        return y.tanh().reshape(2, 5, 8)

    either(other, forward, forward)


@family.rounding()
def chunks_slices_or_splits(other):
    def forward(s, h):
        if other:
            a, b, c = h[:, :, 0:2], h[:, :, 2:4], h.narrow(-1, 4, 4)
        else:
            a, b, c = h.split([2, 2, 4], dim=-1)
        return torch.cat([c.tanh(), a * b, a + b], -1)

    either(other, forward, forward)


@family.rounding()
def unbound_or_selected(other):
    def forward(s, h):
        parts = h.unbind(1) if other else [h.select(1, i) for i in range(5)]
        y = parts[0]
        for part in parts[1:]:
            y = (y + part).tanh()
        return y

    either(other, forward, forward)


@family.rounding()
def expanded_or_repeated(other):
    def forward(s, h):
        first = h[:, :1]
        return (h + (first.expand(-1, 5, -1) if other else first.repeat(1, 5, 1))).tanh()

    either(other, forward, forward)


@family.rounding()
def permuted_or_transposed_twice(other):
    def forward(s, h):
        h = h.unflatten(-1, (2, 4))
        h = h.permute(0, 2, 3, 1) if other else h.transpose(1, 2).transpose(2, 3)
        return h.softmax(-1).permute(0, 3, 1, 2).flatten(2)

    either(other, forward, forward)


@family.rounding()
def negative_dimensions(other):
    def forward(s, h):
        a, b = (-1, -2) if other else (2, 1)
        return h.softmax(a) + h.mean(b, keepdim=True) + h.cumsum(dim=b)

    either(other, forward, forward)


@family.rounding()
def dimension_kept_or_restored(other):
    def forward(s, h):
        if other:
            return h - h.amax(-1).unsqueeze(-1) + h.sum(1)[:, None, :]
        return h - h.amax(-1, keepdim=True) + h.sum(1, keepdim=True)

    either(other, forward, forward)


@family.rounding()
def dimensions_as_list_or_one_by_one(other):
    def forward(s, h):
        mean = h.mean(2, keepdim=True).mean(1, keepdim=True) if other else h.mean([1, 2], keepdim=True)
        return (h - mean).tanh()

    either(other, forward, forward)


@family.rounding()
def types_given_or_implied(other):
    def forward(s, h):
        if other:
            places = torch.arange(5, dtype=torch.float32, device=h.device)
            return h.softmax(-1, dtype=torch.float32) * torch.ones((5,), dtype=h.dtype)[:, None] + places[:, None]
        return h.softmax(-1) * torch.ones(5)[:, None] + torch.arange(5.0)[:, None]

    either(other, forward, forward)


@family.rounding()
def selected_by_index_or_gather(other):
    order = torch.tensor([3, 1, 0, 4, 2])

    def forward(s, h):
        if other:
            return h.gather(1, order[None, :, None].expand(2, 5, 8))
        return h.index_select(1, order)

    either(other, forward, forward)


@family.rounding()
def selected_by_index_or_one_hot(other):
    order = torch.tensor([3, 1, 0, 4, 2])

    def forward(s, h):
        return F.one_hot(order, 5).float() @ h if other else h[:, order]

    either(other, forward, forward)


@family.rounding()
def last_token_by_index_or_gather(other):
    ends = torch.tensor([2, 4])

    def forward(s, h):
        if other:
            return h.gather(1, ends.view(2, 1, 1).expand(-1, -1, 8)).squeeze(1)
        return h[torch.arange(2), ends]

    either(other, forward, forward)


@family.rounding()
def flipped_or_indexed(other):
    def forward(s, h):
        return h + 0.5 * (h[:, torch.arange(4, -1, -1)] if other else h.flip(1))

    either(other, forward, forward)


@family.rounding()
def rolled_or_concatenated(other):
    def forward(s, h):
        return h * (torch.cat([h[:, -1:], h[:, :-1]], 1) if other else h.roll(1, 1))

    either(other, forward, forward)


@family.rounding()
def scattered_by_index_or_product(other):
    groups = torch.tensor([0, 2, 1, 0, 2])

    def forward(s, h):
        if other:
            return F.one_hot(groups, 3).float().T @ h
        return torch.zeros(2, 3, 8).index_add(1, groups, h)

    either(other, forward, forward)


@family.rounding()
def scatter_add_or_index_add(other):
    groups = torch.tensor([0, 2, 1, 0, 2])

    def forward(s, h):
        start = torch.zeros(2, 3, 8)
        if other:
            return start.scatter_add(1, groups[None, :, None].expand(2, 5, 8), h)
        return start.index_add(1, groups, h)

    either(other, forward, forward)


@family.rounding()
def sequence_first_or_batch_first(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(9, 8), nn.Linear(8, 9)
            self.rnn = nn.GRU(8, 8, batch_first=not other)

        def forward(self, ids):
            h = self.words(ids.t() if other else ids)
            y = self.head(self.rnn(h)[0])
            return y.transpose(0, 1) if other else y

    network = Net()
    train(network, tokens(9, 3, 5), optimizer=sgd(network, momentum=0.9))
