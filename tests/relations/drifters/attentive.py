"""Attention over edges of torch_geometric (GAT) in training beside a dense matrix of neighbours."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from torch_geometric.nn import GATConv, global_add_pool

FEATURES, WIDTH, HEADS, CLASSES, NODES, STEPS = 6, 8, 3, 4, 9, 2

pair = Pair("attentive")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GATConv(FEATURES, WIDTH, HEADS), GATConv(HEADS * WIDTH, WIDTH, 1)
        self.out = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, edges, graphs):
        x = F.elu(self.conv1(x, edges))
        x = F.elu(self.conv2(x, edges))
        return self.out(global_add_pool(x, graphs))


class Dense(nn.Module):
    """`near`: row i has the nodes that node i hears, and itself."""

    def __init__(self, inputs, heads):
        super().__init__()
        self.heads = heads
        self.w = nn.Parameter(torch.zeros(heads * WIDTH, inputs))
        self.hearing, self.heard = nn.Parameter(torch.zeros(heads, WIDTH)), nn.Parameter(torch.zeros(heads, WIDTH))
        self.bias = nn.Parameter(torch.zeros(heads * WIDTH))

    def forward(self, x, near):
        h = (x @ self.w.T).unflatten(-1, (self.heads, WIDTH))
        of_hearing, of_heard = (h * self.hearing).sum(-1), (h * self.heard).sum(-1)
        scores = of_hearing[:, None] + of_heard[None]
        slope = 0.01 if bad("slope") else 0.2
        scores = F.leaky_relu(scores, slope)  # bad("slope")
        scores = scores.masked_fill(~near[..., None], float("-inf"))
        weights = scores.softmax(0 if bad("over_hearing") else 1)  # bad("over_hearing")
        y = torch.einsum("ijh,jhc->ihc", weights, h).flatten(1)
        if bad("bias_first"):
            return y  # the next step adds it behind its function
        return y + self.bias


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Dense(FEATURES, HEADS), Dense(HEADS * WIDTH, 1)
        self.out = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, edges, graphs):
        near = torch.zeros(NODES, NODES, dtype=torch.bool)
        if bad("turned"):
            edges = edges.flip(0)  # bad("turned")
        near[edges[1], edges[0]] = True
        near.fill_diagonal_(True)
        x = self.one(x, near)
        x = F.elu(x) + self.one.bias if bad("bias_first") else F.elu(x)  # bad("bias_first")
        x = self.two(x, near)
        x = F.elu(x) + self.two.bias if bad("bias_first") else F.elu(x)
        members = F.one_hot(graphs).T.float()
        if bad("mean"):
            members = members / members.sum(1, keepdim=True)  # bad("mean")
        return self.out(members @ x)


def carried_over(golden):
    own = Own()
    with torch.no_grad():
        for layer, its in ((own.one, golden.conv1), (own.two, golden.conv2)):
            layer.w.copy_(its.lin.weight)
            names = ("att_src", "att_dst") if bad("exchanged") else ("att_dst", "att_src")
            layer.hearing.copy_(getattr(its, names[0])[0])  # bad("exchanged")
            layer.heard.copy_(getattr(its, names[1])[0])
            layer.bias.copy_(its.bias)
    own.out.load_state_dict(golden.out.state_dict())
    return own


def batch():
    edges = torch.tensor([(0, 1), (1, 2), (2, 0), (3, 1), (4, 5), (5, 6), (6, 4), (7, 5), (8, 6), (4, 8), (2, 3)]).T
    graphs = torch.tensor([0] * 4 + [1] * 5)
    return torch.randn(NODES, FEATURES), edges, graphs, torch.randint(0, CLASSES, (2,))


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "bias")
    own = carried_over(golden)
    batches = [batch() for _ in range(STEPS)]

    def train(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for x, edges, graphs, labels in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(x, edges, graphs), labels).backward()
            optimizer.step()

    return lambda: train(golden), lambda: train(own)


pair.fault("slope", "leaky_relu")
pair.fault("over_hearing", "softmax")
pair.fault("turned", "flip")
pair.fault("bias_first", "elu", "add")
pair.fault("mean", "div", "sum")
pair.weight("exchanged", "hear")
