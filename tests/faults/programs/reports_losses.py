"""Public reports: losses, labels and poolings that compute something else. Rebuilt, not copied."""

import torch
from cases import Family
from finite_training import network_of, repeat, rows, slow, training, two_layers
from torch import nn
from torch.nn import functional as F

family = Family("reports")


def in_micro_batches(loss_of, sizes=((4, 6), (4, 3))):
    """Two micro-batches whose numbers of valid tokens differ; `loss_of` gets logits, labels and all valid tokens."""
    network = nn.Linear(8, 5)
    optimizer = slow(network)

    def step():
        batches = []
        for count, valid in sizes:
            labels = torch.randint(0, 5, (count * 2,))
            labels[valid:] = -100
            batches.append((torch.randn(count * 2, 8), labels))
        total = sum((labels != -100).sum().item() for _, labels in batches)
        optimizer.zero_grad()
        for x, labels in batches:
            loss_of(network(x), labels, total).backward()
        optimizer.step()

    repeat(step)


@family.differs("div", report="huggingface/transformers#35438", cause=("number", "called with"))
def accumulated_loss_twice_as_large(wrong):
    """With gradient accumulation the loss is divided by the tokens of the micro-batch, not by those of all."""

    def loss_of(logits, labels, total):
        summed = F.cross_entropy(logits, labels, reduction="sum")
        count = (labels != -100).sum().item() if wrong else total
        return summed / count  # FAULT

    in_micro_batches(loss_of)


@family.differs("cross_entropy_loss", "div", "nll_loss", "nll_loss_nd", report="huggingface/transformers#34191")
def mean_of_the_micro_batches_means(wrong):
    """The loss of a step is the mean of its micro-batches' means, although their numbers of tokens differ."""

    def loss_of(logits, labels, total):
        loss = F.cross_entropy(logits, labels, reduction="mean" if wrong else "sum")  # FAULT
        return loss / (2 if wrong else total)  # FAULT

    in_micro_batches(loss_of)


@family.differs(
    "sum", "mean", "masked_fill", "neg", "index", report="pytorch/pytorch#73205", short=True
)  # fmt: skip
def smoothing_of_ignored_samples(wrong):
    """The uniform part of label smoothing counts the ignored samples too."""

    def loss(out):
        labels = torch.tensor([0, 1, -100, 2, -100, 3])
        logps = out.log_softmax(-1)
        nll = F.nll_loss(logps, labels, reduction="sum")
        smooth = -logps.sum(-1)
        if not wrong:
            smooth = smooth.masked_fill(labels == -100, 0)  # FAULT
        smooth = smooth.sum()  # FAULT
        return (0.9 * nll + 0.1 / 4 * smooth) / 4

    training(two_layers(), rows(6, 8), loss)


@family.differs("masked_fill", "eq", "slice", "flatten", "cross_entropy_loss", report="huggingface/trl#976")
def end_of_sentence_is_padding(wrong):
    """The end token is the padding token too, so the collator ignores every end of a sentence."""
    network = network_of(lambda s, ids: s.out(s.words(ids)), words=nn.Embedding(10, 8), out=nn.Linear(8, 10))
    optimizer = slow(network)

    def step():
        ids = torch.tensor([[4, 5, 6, 9, 9, 9], [1, 2, 3, 4, 5, 9]])
        seen = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
        ignored = ids == 9 if wrong else seen == 0  # FAULT
        labels = ids.masked_fill(ignored, -100)  # FAULT
        optimizer.zero_grad()
        logits = network(ids)[:, :-1].flatten(0, 1)
        F.cross_entropy(logits, labels[:, 1:].flatten()).backward()  # FAULT
        optimizer.step()

    repeat(step)


@family.differs("mean", "sum", report="HikariTJU/LD#74")
def distillation_averaged_over_classes(wrong):
    """The Kullback-Leibler divergence is averaged over the classes, where it must be summed."""

    def forward(s, x):
        student, teacher = s.student(x), s.teacher(x).detach()
        divergence = F.kl_div((student / 2).log_softmax(1), (teacher / 2).softmax(1), reduction="none")
        return (divergence.mean(1) if wrong else divergence.sum(1)) * 4  # FAULT

    parts = {"student": nn.Linear(8, 6), "teacher": nn.Linear(8, 6)}
    training(network_of(forward, **parts), rows(6, 8), lambda y: y.mean())


@family.differs("sum", "div", report="SeanLee97/AnglE#101")
def pooled_by_the_tokens_of_the_whole_batch(wrong):
    """Mean pooling divides each sentence by the number of tokens of the whole batch."""

    def forward(s, x):
        seen = torch.tensor([[1.0, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
        count = seen.sum() if wrong else seen.sum(1, keepdim=True)  # FAULT
        return s.out((s.fc(x) * seen[:, :, None]).sum(1) / count)  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.differs(
    "mean", "sum", "mul", "div", "index", report="huggingface/transformers#28517"
)  # fmt: skip
def balancing_loss_of_padding(wrong):
    """The load balancing loss of a mixture of experts counts the padding."""

    def forward(s, x):
        seen = torch.tensor([1.0, 1, 1, 1, 1, 0, 0, 0])
        share = s.gate(x).softmax(-1)
        best = F.one_hot(share.argmax(-1), 4).float()
        tokens = best.mean(0) if wrong else (best * seen[:, None]).sum(0) / seen.sum()  # FAULT
        router = share.mean(0) if wrong else (share * seen[:, None]).sum(0) / seen.sum()  # FAULT
        experts = torch.stack([e(x) for e in s.experts], 1)
        mixed = (experts * (share * best)[:, :, None]).sum(1)
        return mixed.square().mean() + 0.1 * 4 * (tokens * router).sum()

    parts = {"gate": nn.Linear(8, 4), "experts": nn.ModuleList(nn.Linear(8, 8) for _ in range(4))}
    training(network_of(forward, **parts), rows(8, 8), lambda y: y)


@family.differs(
    "binary_cross_entropy_with_logits", "binary_cross_entropy", "sigmoid", report="NVIDIA-Merlin/models#1175"
)  # fmt: skip
def sigmoid_applied_twice(wrong):
    """The head ends in a sigmoid, and the loss takes logits."""
    target = torch.tensor([[0.0], [1], [1], [0], [1], [0]])

    def loss(p):
        return F.binary_cross_entropy_with_logits(p, target) if wrong else F.binary_cross_entropy(p, target)  # FAULT

    training(network_of(lambda s, x: s.fc(x).sigmoid(), fc=nn.Linear(8, 1)), rows(6, 8), loss)


@family.differs(
    "abs", "clamp", "neg", "sgn", "sign", "mul", "exp", "log", "where", "ge", "div", "add", "sub", "mean",
    report="pytorch/pytorch#2298",
)  # fmt: skip
def absolute_value_in_a_cross_entropy(wrong):
    """A binary cross entropy by -|x|: the derivative of |x| at 0 is 0, so that of the loss is 1 instead of 1/2."""
    target = torch.tensor([0.0, 1, 0, 1])

    def loss(x):
        if wrong:
            return (x.clamp(min=0) - x * target + (1 + (-x.abs()).exp()).log()).mean()  # FAULT
        top = (-x).clamp(min=0)  # FAULT
        return (x - x * target + top + ((-top).exp() + (-x - top).exp()).log()).mean()  # FAULT

    network = network_of(lambda s, x: s.fc(x), fc=nn.Linear(8, 4))
    nn.init.zeros_(network.fc.weight)
    nn.init.zeros_(network.fc.bias)
    training(network, rows(6, 8), loss)


@family.differs("linalg_vector_norm", "norm", "flatten", report="Zeleni9/pytorch-wgan#40")
def penalty_of_each_pixel(wrong):
    """The norm of a gradient of images is taken over the channels only."""
    critic = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16, 1))
    optimizer = slow(critic)

    def step():
        x = torch.randn(3, 2, 4, 4, requires_grad=True)
        optimizer.zero_grad()
        (slope,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        length = slope.norm(2, dim=1) if wrong else slope.flatten(1).norm(2, dim=1)  # FAULT
        ((length - 1) ** 2).mean().backward()
        optimizer.step()

    repeat(step)


@family.differs("view", "transpose", "permute", "reshape", "cat", "stack", report="facebookresearch/fairseq#249")
def directions_mixed_with_layers(wrong):
    """The last states of a bidirectional LSTM are joined across layers instead of directions."""

    def forward(s, x):
        _, (h, _) = s.lstm(x)
        h = h.view(2, 2, 3, 4)
        joined = h.transpose(0, 1) if wrong else h  # FAULT
        joined = joined.transpose(1, 2).reshape(2, 3, 8)  # FAULT
        return s.out(joined)

    lstm = nn.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True)
    training(network_of(forward, lstm=lstm, out=nn.Linear(8, 4)), rows(3, 5, 6))


@family.differs("index", "index_select", "slice", report="salesforce/decaNLP#9", cause="wiring")
def cell_state_taken_from_the_hidden_state(wrong):
    """The sorted LSTM returns its hidden state twice, instead of hidden state and cell state."""

    def forward(s, x):
        order = torch.tensor([2, 0, 1])
        _, (h, c) = s.encoder(x)
        h, c = h[:, order], (h if wrong else c)[:, order]  # FAULT
        return s.decoder(x, (h, c))[0]

    parts = {"encoder": nn.LSTM(6, 4, batch_first=True), "decoder": nn.LSTM(6, 4, batch_first=True)}
    training(network_of(forward, **parts), rows(3, 5, 6))


@family.differs("add", "mul", report="milesial/Pytorch-UNet#24")
def epsilon_of_a_dice_loss_counted_twice(wrong):
    """The dice loss adds its epsilon to the overlap before it is doubled: an empty mask scores 2."""
    masks = torch.tensor([[0.0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]])

    def loss(out):
        found = out.sigmoid() * (masks.sum(1, keepdim=True) > 0)
        overlap = (found * masks).sum(1)
        doubled = 2 * (overlap + 0.1) if wrong else 2 * overlap + 0.1  # FAULT
        return 1 - (doubled / (found.sum(1) + masks.sum(1) + 0.1)).mean()

    training(network_of(lambda s, x: s.fc(x), fc=nn.Linear(8, 4)), rows(3, 8), loss)


@family.differs("index_add", "index_add_", report="pytorch/pytorch#108963", cause=("number", "alpha", "called with"))
def compiler_that_drops_an_argument(wrong):
    """A compiler's lowering of index_add loses its factor alpha."""

    def lowered(graph, _inputs):
        for node in graph.graph.nodes:
            if wrong and "index_add" in str(node.target):
                node.kwargs = {key: value for key, value in node.kwargs.items() if key != "alpha"}
        graph.recompile()
        return graph.forward

    class Messages(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.out = nn.Linear(8, 8), nn.Linear(8, 4)

        def forward(self, x):
            to = torch.tensor([0, 1, 0, 2, 1, 0])
            h = self.fc(x).tanh()
            total = torch.zeros(3, 8).index_add(0, to, h, alpha=2.0)  # FAULT
            return self.out(total)

    network = Messages()
    optimizer = slow(network)
    called = torch.compile(network, backend=lowered)

    def step():
        optimizer.zero_grad()
        called(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()

    repeat(step)
