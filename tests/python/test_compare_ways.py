"""`sonde compare` of two healthy ways to compute the same, which differ in rows that nothing reads."""

import json

import pytest
from processes import CLI, run_in
from test_first_bad import record

# Rows of padding have no key that they may look at: the eager softmax of them is even, the fused one gives 0.
ATTENTION = """
import sys, torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def eager(q, k, v, mask, scale):
    k, v = (x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(q.shape) for x in (k, v))
    scores = torch.matmul(q, k.transpose(2, 3)) * scale + mask
    return torch.matmul(F.dropout(scores.softmax(-1), 0.0), v)


def fused(q, k, v, mask, scale):
    k, v = (x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(q.shape) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(32, 32, bias=False), nn.Linear(32, 16, bias=False)
        self.v_proj, self.o_proj = nn.Linear(32, 16, bias=False), nn.Linear(32, 32, bias=False)

    def forward(self, x, mask):
        q, k, v = (p(x).view(3, 10, -1, 8).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        y = (eager if "eager" in sys.argv else fused)(q, k, v, mask, 8 ** -0.5 * (1.1 if "fault" in sys.argv else 1))
        return self.o_proj(y.transpose(1, 2).reshape(3, 10, 32))


embedding, layers, head = nn.Embedding(50, 32), nn.ModuleList(Attention() for _ in range(2)), nn.Linear(32, 50)
net = nn.ModuleList([embedding, layers, head])
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(3):
    ids = torch.randint(0, 50, (3, 10))
    seen = torch.ones_like(ids)
    seen[1, :3] = 0
    allowed = torch.ones(10, 10).tril().bool() & seen[:, None, None, :].bool()
    mask = torch.zeros(3, 1, 10, 10).masked_fill(~allowed, torch.finfo(torch.float32).min)
    x = embedding(ids)
    for layer in layers:
        x = x + layer(x, mask)
    labels = ids.clone()
    labels[1, :4] = -100  # nothing is learnt at padding
    loss = F.cross_entropy(head(x)[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ways")
    (directory / "train.py").write_text(ATTENTION)
    for words in ("eager", "fused", "fused fault"):
        record(directory, words.replace(" ", "_"), directory / "train.py", *words.split(), saved_data="full")
    return directory


@pytest.mark.parametrize("pair", [("eager", "fused"), ("fused", "eager")], ids=" ".join)
def test_padding_that_nothing_reads_is_no_difference(dumps, pair):
    done = run_in(dumps, dumps, CLI, "compare", *pair, "--json")
    assert (done.status, json.loads(done.stdout)["findings"]) == (0, []), done


def test_another_scale_is_a_difference_in_spite_of_it(dumps):
    done = run_in(dumps, dumps, CLI, "compare", "fused_fault", "eager", "--json")
    (first, *_) = json.loads(done.stdout)["findings"]
    where = [first["op_name"], first["golden"]]
    assert done.status == 1 and first["step"] == 0 and all("/0-Attention/" in name for name in where if name), first
