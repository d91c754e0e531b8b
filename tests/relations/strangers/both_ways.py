"""A bidirectional LSTM beside cells whose gates are in another framework's order (in, fresh, forget, out)."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WORDS, WIDTH, HIDDEN, STEPS, CLASSES = 30, 10, 8, 6, 5

pair = Pair("both_ways")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(WORDS, WIDTH), nn.LSTM(WIDTH, HIDDEN, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * HIDDEN, CLASSES)

    def forward(self, ids):
        return self.head(self.lstm(self.embed(ids))[0])


def reordered(weight):
    i, f, g, o = weight.chunk(4)
    return torch.cat((i, g, f, o))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        state = {name: value.detach().clone() for name, value in golden.state_dict().items()}
        self.embed, self.head_w, self.head_b = (
            nn.Parameter(state[n]) for n in ("embed.weight", "head.weight", "head.bias")
        )
        self.w = nn.ParameterDict()
        for way, end in (("ahead", ""), ("back", "_reverse")):
            kernels = [state[f"lstm.weight_{n}_l0{end}"] for n in ("ih", "hh")]
            bias = state[f"lstm.bias_ih_l0{end}"] + state[f"lstm.bias_hh_l0{end}"]
            kernel = torch.cat([reordered(k) for k in kernels], 1).t().contiguous()
            if bad("order_kept") and way == "back":
                kernel = torch.cat(kernels, 1).t().contiguous()
            self.w[f"{way}_kernel"], self.w[f"{way}_bias"] = kernel, reordered(bias)

    def run(self, x, way):
        h = c = x.new_zeros(x.shape[0], HIDDEN)
        out = []
        for t in range(STEPS):
            gates = torch.cat((x[:, t], h), 1) @ self.w[f"{way}_kernel"] + self.w[f"{way}_bias"]
            i, g, f, o = gates.chunk(4, 1)
            if bad("forget_bias"):
                f = f + 1.0  # bad("forget_bias")
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c if bad("no_tanh") else o.sigmoid() * c.tanh()
            out.append(h)
        return torch.stack(out, 1)

    def forward(self, ids):
        x = F.embedding(ids, self.embed)
        ahead = self.run(x, "ahead")
        back = self.run(x.flip(1), "back")
        if not bad("not_turned_back"):
            back = back.flip(1)
        ways = (back, ahead) if bad("ways_exchanged") else (ahead, back)
        both = torch.cat(ways, -1)  # bad("not_turned_back"), bad("ways_exchanged")
        return both @ self.head_w.t() + self.head_b


@pair.prepare
def prepare():
    golden = Golden()
    target, ids = Own(golden), torch.randint(0, WORDS, (3, STEPS))

    def no_gradients(model):
        with torch.no_grad():
            model(ids)

    return lambda: no_gradients(golden), lambda: no_gradients(target)


pair.weight("order_kept", "back_kernel")
pair.fault("forget_bias", "add")
pair.fault("no_tanh", "mul")
pair.fault("not_turned_back", "cat")
pair.fault("ways_exchanged", "cat")
