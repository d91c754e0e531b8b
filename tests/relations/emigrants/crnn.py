"""A reader of lines of text in training: torch.nn's LSTM in both directions, beside steps by hand and a CTC loss."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

HEIGHT, LENGTH, CHANNELS, HIDDEN, SYMBOLS, STEPS = 8, 20, 6, 10, 7, 2
PARTS = (0, 3, 1, 2)  # ONNX has input, output, forget and cell; torch.nn input, forget, cell and output

pair = Pair("crnn")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(1, CHANNELS, 3, padding=1), nn.BatchNorm2d(CHANNELS)
        self.pool = nn.MaxPool2d(2)
        self.lstm = nn.LSTM(CHANNELS * HEIGHT // 2, HIDDEN, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * HIDDEN, SYMBOLS)

    def forward(self, x):
        x = self.pool(F.relu(self.bn(self.conv(x))))
        x, _ = self.lstm(x.permute(0, 3, 1, 2).flatten(2))
        return self.out(x).log_softmax(-1).transpose(0, 1)


class Direction(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.r = (
            nn.Parameter(torch.zeros(4 * HIDDEN, CHANNELS * HEIGHT // 2)),
            nn.Parameter(torch.zeros(4 * HIDDEN, HIDDEN)),
        )
        self.b = nn.Parameter(torch.zeros(8 * HIDDEN))

    def forward(self, xs):
        h = c = xs.new_zeros(xs.shape[1], HIDDEN)
        wb, rb = self.b.chunk(2)
        hs = []
        for x in xs:
            i, o, f, g = (x @ self.w.T + wb + h @ self.r.T + rb).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * (c if bad("cell_not_bounded") else c.tanh())  # bad("cell_not_bounded")
            hs.append(h)
        return torch.stack(hs)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, CHANNELS, 3, padding=1)
        self.gain, self.shift = nn.Parameter(torch.ones(CHANNELS)), nn.Parameter(torch.zeros(CHANNELS))
        self.there, self.back = Direction(), Direction()
        self.out = nn.Linear(2 * HIDDEN, SYMBOLS)

    def forward(self, x):
        x = F.batch_norm(self.conv(x), None, None, self.gain, self.shift, training=True)
        x = F.relu(x).unflatten(2, (-1, 2)).unflatten(4, (-1, 2)).amax((3, 5))
        xs = x.permute(3, 0, 1, 2).flatten(2)
        back = self.back(xs.flip(0))
        if not bad("not_flipped_back"):
            back = back.flip(0)
        both = torch.cat((self.there(xs), back), -1)  # bad("not_flipped_back")
        return self.out(both).log_softmax(-1)


def in_order(weight, order):
    return torch.cat([weight.chunk(4)[part] for part in order])


def carried_over(golden):
    own = Own()
    own.conv.load_state_dict(golden.conv.state_dict())
    own.out.load_state_dict(golden.out.state_dict())
    own.gain.data.copy_(golden.bn.weight)
    own.shift.data.copy_(golden.bn.bias)
    for mine, end in ((own.there, ""), (own.back, "_reverse")):
        order = (0, 1, 2, 3) if bad("gates") and end else PARTS
        weight, again = getattr(golden.lstm, f"weight_ih_l0{end}"), getattr(golden.lstm, f"weight_hh_l0{end}")
        mine.w.data.copy_(in_order(weight, order))  # bad("gates")
        mine.r.data.copy_(in_order(again, PARTS))
        biases = (getattr(golden.lstm, f"bias_{kind}_l0{end}") for kind in ("ih", "hh"))
        mine.b.data.copy_(torch.cat([in_order(bias, PARTS) for bias in biases]))
    return own


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "bn")
    own = carried_over(golden)
    batches = [(torch.randn(3, 1, HEIGHT, LENGTH), torch.randint(1, SYMBOLS, (3, 4))) for _ in range(STEPS)]
    sizes = torch.full((3,), LENGTH // 2), torch.full((3,), 4)

    def train(model, loss):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for images, words in batches:
            optimizer.zero_grad()
            loss(model(images), words).backward()
            optimizer.step()

    def original(chances, words):
        return F.ctc_loss(chances, words, *sizes)

    def ported(chances, words):
        each = F.ctc_loss(chances, words, *sizes, reduction="none")
        if bad("mean_of_sums"):
            return each.mean()  # bad("mean_of_sums")
        return (each / sizes[1]).mean()

    return lambda: train(golden, original), lambda: train(own, ported)


pair.fault("cell_not_bounded", "mul")
pair.fault("not_flipped_back", "cat")
pair.fault("mean_of_sums", "mean")
pair.weight("gates", "back.w")
