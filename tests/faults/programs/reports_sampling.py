"""Public reports: generation, caches, reinforcement learning, preferences, metric learning. Rebuilt, not copied."""

import torch
from cases import Family
from finite_training import network_of, repeat, rows, slow, training
from torch import nn
from torch.nn import functional as F
from training import train

family = Family("reports")
ZERO = ("0 divided by 0", "division by 0", "divided by 0")


@family.fault("log1p", report="huggingface/trl#1473", cause=("log1p of -1", "log of 0", "logarithm of 0"))
def odds_of_a_certain_answer():
    """ORPO takes log1p(-exp(logp)): a policy that is certain has logp = 0, and the odds are infinite."""

    def loss_of(out):
        spread = torch.tensor([200.0, 0, 0, 0])
        logp = (out + spread).log_softmax(-1)[:, 0]
        odds = logp - torch.log1p(-torch.exp(logp))  # FAULT
        return -F.logsigmoid(odds - odds.mean().detach()).mean()

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("div", report="KevinMusgrave/pytorch-metric-learning#107", cause=ZERO)
def average_of_no_triplet():
    """A batch in which every triplet keeps its margin: the sum of no loss is divided by their number, 0."""

    def loss_of(out):
        near, far = (out[:3] - out[3:]).norm(dim=1), (out[:3] + 90).norm(dim=1)
        losses = torch.relu(near - far + 0.1)
        count = (losses > 0).sum()
        return losses.sum() / count  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("div", report="nasa/delta#115", cause=ZERO)
def overlap_of_two_empty_masks():
    """The dice coefficient of an empty mask and an empty prediction is 0 / 0."""
    masks = torch.tensor([[0.0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]])

    def loss_of(out):
        found = (out[:3].sigmoid() - 0.2).relu() * (masks.sum(1, keepdim=True) > 0)
        overlap = (found * masks).sum(1)
        dice = 2 * overlap / (found.sum(1) + masks.sum(1))  # FAULT
        return 1 - dice.mean()

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("div", report="RBLN-SW/vllm-rbln#615", cause=ZERO)
def padded_row_with_temperature_zero():
    """The rows that pad a batch of a sampler have logits 0 and temperature 0."""
    net = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
    temperature = torch.tensor([[0.7], [1.0], [0.0]])
    tokens = torch.tensor([1, 2, 0])
    for _ in range(3):
        with torch.no_grad():
            logits = net(tokens) * torch.tensor([[1.0], [1.0], [0.0]])
            scaled = logits / temperature  # FAULT
            tokens = scaled.softmax(-1).argmax(-1)


@family.differs(
    "slice", "cross_entropy_loss", "flatten", "reshape", "view", report="huggingface/transformers#37830"
)  # fmt: skip
def labels_shifted_twice(wrong):
    """The model shifts logits and labels, and the loss function shifts them again."""

    def loss_function(logits, labels):
        logits, labels = logits[:, :-1], labels[:, 1:]  # FAULT
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())  # FAULT

    network = network_of(lambda s, ids: s.out(s.words(ids)), words=nn.Embedding(10, 8), out=nn.Linear(8, 10))
    optimizer = slow(network)

    def step():
        ids = torch.randint(0, 10, (2, 6))
        optimizer.zero_grad()
        logits = network(ids)
        if wrong:
            logits, labels = logits[:, :-1], ids[:, 1:]  # FAULT
        else:
            labels = ids
        loss_function(logits, labels).backward()
        optimizer.step()

    repeat(step)


@family.differs(
    "repeat", "repeat_interleave", "expand", "reshape", "index_select", "unsqueeze", report="apple/axlearn#842"
)  # fmt: skip
def groups_of_heads_in_another_order(wrong):
    """Grouped queries: keys and values are tiled, so heads read those of another group."""

    def forward(s, x):
        q = s.q(x).view(2, 5, 4, 4).transpose(1, 2)
        k, v = (f(x).view(2, 5, 2, 4).transpose(1, 2) for f in (s.k, s.v))
        k = k.repeat(1, 2, 1, 1) if wrong else k.repeat_interleave(2, 1)  # FAULT
        v = v.repeat(1, 2, 1, 1) if wrong else v.repeat_interleave(2, 1)  # FAULT
        y = (q @ k.transpose(2, 3) / 2).softmax(-1) @ v
        return s.out(y.transpose(1, 2).reshape(2, 5, 16))

    parts = {"q": nn.Linear(8, 16), "k": nn.Linear(8, 8), "v": nn.Linear(8, 8), "out": nn.Linear(16, 4)}
    training(network_of(forward, **parts), rows(2, 5, 8))


@family.differs(
    "copy_", "slice", "index_put_", "slice_scatter", "narrow", report="microsoft/onnxruntime-genai#2354"
)  # fmt: skip
def cache_with_a_hole(wrong):
    """Decoding writes one place too far: an unwritten key of the cache takes part in attention."""

    def forward(s, x):
        keys, values = torch.zeros(2, 8, 8), torch.zeros(2, 8, 8)
        outs, end = [], 0
        for part in x.split([3, 1, 1], 1):
            start = end + 1 if wrong and end == 3 else end  # the prefill has 3 places
            end = start + part.shape[1]
            keys[:, start:end] = s.k(part)  # FAULT
            values[:, start:end] = s.v(part)  # FAULT
            k, v = keys[:, :end], values[:, :end]  # FAULT
            outs.append((s.q(part) @ k.transpose(1, 2)).softmax(-1) @ v)
        return s.out(torch.cat(outs, 1))

    network = network_of(forward, **{name: nn.Linear(8, 8) for name in ("q", "k", "v", "out")})
    for _ in range(2):
        with torch.no_grad():
            network(torch.randn(2, 5, 8))


@family.differs("div", "log_softmax", report="OpenNMT/CTranslate2#1620")
def score_without_its_temperature(wrong):
    """Tokens are drawn with a temperature, and their log probabilities are returned without it."""
    network = network_of(lambda s, x: s.out(s.fc(x).tanh()), fc=nn.Linear(8, 8), out=nn.Linear(8, 5))
    torch.manual_seed(1)
    for _ in range(2):
        with torch.no_grad():
            logits = network(torch.randn(3, 8))
            cooled = logits / 0.5
            token = cooled.softmax(-1).argmax(-1)
            logps = (logits if wrong else cooled).log_softmax(-1)  # FAULT
            score = logps.gather(1, token[:, None]).exp()
            score.sum()


@family.differs("add", report="vwxyzjn/cleanrl#337", cause="wiring")
def returns_of_the_old_advantages(wrong):
    """The returns add the values to the stored advantages, which are still zero, not to the new ones."""
    network = network_of(lambda s, x: s.out(s.fc(x).tanh()), fc=nn.Linear(8, 8), out=nn.Linear(8, 1))
    optimizer = slow(network)

    def step():
        states, rewards = torch.randn(6, 8), torch.randn(6)
        values = network(states)[:, 0]
        stored, advantages = torch.zeros(6), torch.zeros(6)
        last = torch.zeros(())
        for t in range(4, -1, -1):
            delta = rewards[t] + 0.99 * values[t + 1].detach() - values[t].detach()
            last = delta + 0.99 * 0.95 * last
            advantages[t] = last
        returns = (stored if wrong else advantages) + values.detach()  # FAULT
        optimizer.zero_grad()
        (values - returns).square().mean().backward()
        optimizer.step()

    repeat(step)


@family.differs("sub", "mul", "add", report="AI4Finance-Foundation/ElegantRL#183")
def value_lost_at_the_end_of_an_episode(wrong):
    """Generalised advantages: the mask of the end of an episode multiplies the value of the last state too."""
    network = network_of(lambda s, x: s.out(s.fc(x).tanh()), fc=nn.Linear(8, 8), out=nn.Linear(8, 1))
    optimizer = slow(network)

    def step():
        states, rewards, goes_on = torch.randn(5, 8), torch.randn(5), torch.tensor([1.0, 1, 0, 1, 0])
        values = network(states)[:, 0]
        later, advantages = torch.zeros(()), []
        for reward, mask, value in zip(rewards.flip(0), goes_on.flip(0), values.detach().flip(0), strict=True):
            advantage = reward + mask * (later - value) if wrong else reward + mask * later - value  # FAULT
            later = value + 0.95 * advantage
            advantages.append(advantage)
        optimizer.zero_grad()
        (torch.stack(advantages).flip(0) * values).mean().backward()
        optimizer.step()

    repeat(step)
