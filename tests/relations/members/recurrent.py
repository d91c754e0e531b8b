"""An LSTM with one product for input and state, step by step, beside torch.nn's, with a loss of labels."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

INPUT, HIDDEN, CLASSES, STEPS = 10, 14, 9, 5

pair = Pair("recurrent")


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {name: weight.detach() for name, weight in golden.named_parameters()}
        self.w = nn.Parameter(torch.cat((own["lstm.weight_ih_l0"], own["lstm.weight_hh_l0"]), 1))
        self.b = nn.Parameter(own["lstm.bias_ih_l0"] + own["lstm.bias_hh_l0"])
        self.head = nn.Linear(HIDDEN, CLASSES)
        self.head.load_state_dict(golden.head.state_dict())

    def step(self, x, h, c):
        i, f, g, o = F.linear(torch.cat((x, h), -1), self.w, self.b).split(HIDDEN, -1)
        f = f.tanh() if bad("forget_tanh") else f.sigmoid()
        g = F.relu(g) if bad("fresh_relu") else g.tanh()
        c = c * f + g * i.sigmoid()
        o = (o - 0.5).sigmoid() if bad("out_bias") else o.sigmoid()
        return c.tanh() * o, c

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], HIDDEN)
        results = []
        for t in range(STEPS):
            h, c = self.step(x[:, t], h, c)
            if bad("state_cut") and t == 2:
                c = c.clamp(-0.1, 0.1)  # bad("state_cut")
            results.append(h)
        return self.head(torch.stack(results, 1))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(INPUT, HIDDEN, batch_first=True), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


@pair.prepare
def prepare():
    golden = Golden()
    target = Own(golden)
    x, labels = torch.randn(4, STEPS, INPUT), torch.randint(0, CLASSES, (4, STEPS))

    def run_golden():
        shifted = F.pad(labels, (0, 1), value=-100)[:, 1:].reshape(-1)
        F.cross_entropy(golden(x).reshape(-1, CLASSES), shifted).backward()

    def run_target():
        kept = labels[:, 1:]
        logits = target(x)[:, : kept.shape[1]].reshape(-1, CLASSES)
        F.cross_entropy(logits, kept.reshape(-1)).backward()

    return run_golden, run_target


pair.fault("forget_tanh", "tanh")
pair.fault("fresh_relu", "relu")
pair.fault("out_bias", "sub")
pair.fault("state_cut", "clamp")
