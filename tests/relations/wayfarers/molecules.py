"""Graphs of torch_geometric, sums over edges, beside a dense matrix of neighbours for each graph, in training."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn
from torch_geometric.nn import GCNConv, SAGEConv, global_mean_pool  # before the forks: it takes seconds

SEEN, HIDDEN, KINDS, NODES, GRAPHS, STEPS, RATE = 10, 16, 3, (6, 9, 5), 3, 2, 0.3

pair = Pair("molecules")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(SEEN, HIDDEN), SAGEConv(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, KINDS)

    def forward(self, x, edges, graph):
        x = self.conv1(x, edges).relu()
        x = self.conv2(x, edges).relu()
        return self.head(global_mean_pool(x, graph))


def train(model, optimizer, batches, edges, graph):
    for x, kinds in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edges, graph), kinds)
        loss.backward()
        optimizer.step()


def smooth(w, x, near):
    """The graph convolution of Kipf and Welling."""
    if not bad("without_itself"):
        near = near + torch.diag_embed(w["is_node"])  # bad("without_itself")
    degrees = near.sum(-1)
    if bad("one_sided"):
        near = near / degrees.clamp(min=1)[..., None]  # bad("one_sided")
    else:
        share = degrees.clamp(min=1).rsqrt()
        near = share[..., None] * near * share[..., None, :]
    return near @ (x @ w["first"]) + w["first_bias"]  # bad("without_itself")


def gathered(w, x, near):
    total = near @ x
    if not bad("sum_for_mean"):
        total = total / near.sum(-1, keepdim=True).clamp(min=1)
    y = total @ w["neighbours"] + w["neighbours_bias"]  # bad("sum_for_mean")
    return y + total @ w["root"] if bad("root_of_neighbours") else y + x @ w["root"]  # bad("root_of_neighbours")


def forward(w, x, near):
    x = smooth(w, x, near).relu()
    x = gathered(w, x, near.mT if bad("turned_edges") else near).relu()  # bad("turned_edges")
    x = x * w["is_node"][..., None]
    x = x.mean(1) if bad("padded_mean") else x.sum(1) / w["is_node"].sum(1, keepdim=True)  # bad("padded_mean")
    return x @ w["head"] + w["head_bias"]


def train_dense(w, batches, near):
    learned = [name for name in w if name != "is_node"]
    for x, kinds in batches:
        loss = -forward(w, x, near).log_softmax(-1)[torch.arange(GRAPHS), kinds].mean()
        grads = torch.autograd.grad(loss, [w[name] for name in learned])
        with torch.no_grad():
            for name, grad in zip(learned, grads, strict=True):
                w[name] = (w[name] - RATE * grad).requires_grad_()


def carried_over(golden):
    w = {
        "first": golden.conv1.lin.weight.t(), "first_bias": golden.conv1.bias,
        "neighbours": golden.conv2.lin_l.weight.t(), "neighbours_bias": golden.conv2.lin_l.bias,
        "root": golden.conv2.lin_r.weight.t(), "head": golden.head.weight.t(), "head_bias": golden.head.bias,
    }  # fmt: skip
    return {name: weight.detach().clone(memory_format=torch.contiguous_format) for name, weight in w.items()}


def graphs():
    """Edges, the graph of each node, and the same as matrices: a row has what its node reads."""
    edges, graph, near, first = [], [], torch.zeros(GRAPHS, max(NODES), max(NODES)), 0
    for number, nodes in enumerate(NODES):
        chosen = torch.rand(nodes, nodes).fill_diagonal_(0) > 0.6
        chosen[0, 1] = True
        near[number, :nodes, :nodes] = chosen.t().float()
        edges.append(chosen.nonzero().t() + first)
        graph += [number] * nodes
        first += nodes
    return torch.cat(edges, 1), torch.tensor(graph), near


def padded(x):
    rows = torch.zeros(GRAPHS, max(NODES), SEEN)
    for number, part in enumerate(x.split(NODES)):
        rows[number, : len(part)] = part
    return rows


@pair.prepare
def prepare():
    golden = Golden()
    with torch.no_grad():
        golden.conv1.bias.normal_()
    optimizer = torch.optim.SGD(golden.parameters(), RATE)
    own = {name: weight.requires_grad_() for name, weight in carried_over(golden).items()}
    edges, graph, near = graphs()
    own["is_node"] = (torch.arange(max(NODES)) < torch.tensor(NODES)[:, None]).float()
    batches = [(torch.randn(sum(NODES), SEEN), torch.randint(0, KINDS, (GRAPHS,))) for _ in range(STEPS)]
    dense = [(padded(x), kinds) for x, kinds in batches]
    return lambda: train(golden, optimizer, batches, edges, graph), lambda: train_dense(own, dense, near)


pair.fault("without_itself", "add", "sum", "matmul", "mul")
pair.fault("one_sided", "div")
pair.fault("sum_for_mean", "matmul", "add")
pair.fault("root_of_neighbours", "matmul", "add")
pair.fault("turned_edges", "mT", "transpose", "numpy_t", "matmul")
pair.fault("padded_mean", "mean")
