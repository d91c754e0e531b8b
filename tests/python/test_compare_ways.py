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


# A history that is shifted onto itself: without the copy, elements are read after they were written.
HISTORY = """
import sys, torch
from torch import nn

torch.manual_seed(0)
history = torch.zeros(16, 6, 5)
net = nn.Sequential(nn.Flatten(), nn.Linear(30, 2))
optimizer = torch.optim.SGD(net.parameters(), 1e-2)
for step in range(4):
    old = history[:, :-1]
    history[:, 1:] = old.clone() if "golden" in sys.argv else old  # shifted
    history[:, 0] = torch.randn(16, 5)
    loss = net(history).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_is_written_for_a_later_step_is_named_where_it_is_written(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(HISTORY)
    for name in ("target", "golden"):
        record(tmp_path, name, program, name, saved_data="full")
    done = run_in(tmp_path, tmp_path, CLI, "compare", "target", "golden", "--json")
    (first, *_) = json.loads(done.stdout)["findings"]
    assert (first["step"], first["op_type"]) == (2, "copy_"), first
    assert program.read_text().splitlines()[first["source_line"] - 1].endswith("# shifted")
