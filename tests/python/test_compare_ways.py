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


# The same modules and lines; with a cache a step computes one token, without it all of them again.
DECODER = """
import sys, torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(40, 16), nn.Linear(16, 40)
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)
        self.kept = None

    def forward(self, ids):
        x = self.embedding(ids)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        if self.kept is not None and "cached" in sys.argv:
            k, v = (torch.cat(pair, 1) for pair in zip(self.kept, (k, v)))
        kept = k[:, :-1], v[:, :-1]
        self.kept = kept if "stale" in sys.argv and self.kept is not None and k.shape[1] == 8 else (k, v)
        far = torch.ones(q.shape[1], k.shape[1]).tril(k.shape[1] - q.shape[1]).bool()
        scores = (q @ k.transpose(1, 2) / 4).masked_fill(~far, float("-inf"))
        return self.head(x + self.out(F.softmax(scores, -1) @ v))


decoder = Decoder().eval()
ids = torch.randint(0, 40, (2, 6))
with torch.no_grad():
    for step in range(5):
        logits = decoder(ids[:, -1:] if step and "cached" in sys.argv else ids)
        ids = torch.cat([ids, torch.full((2, 1), 3 * step + 1)], 1)
"""


def test_a_decoder_with_a_cache_is_compared_with_one_that_computes_all_tokens_again(tmp_path):
    program = tmp_path / "decode.py"
    program.write_text(DECODER)
    for words in ("cached", "whole", "cached stale"):
        record(tmp_path, words.replace(" ", "_"), program, *words.split(), saved_data="full")
    for pair in (("cached", "whole"), ("whole", "cached")):
        done = run_in(tmp_path, tmp_path, CLI, "compare", *pair)
        assert done.status == 0 and "two implementations" in done.stdout, done
    done = run_in(tmp_path, tmp_path, CLI, "compare", "cached_stale", "whole", "--json")
    (first, *_) = json.loads(done.stdout)["findings"]
    line = program.read_text().splitlines()[first["source_line"] - 1]
    assert (done.status, first["step"]) == (1, 3) and "scores = (q @ k" in line, first


LOADER = """
import sys, numpy, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        return torch.from_numpy(i / 16 + 0.1 * numpy.random.randn(6).astype(numpy.float32))


def seed(worker):
    numpy.random.seed(2 + worker)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    numpy.random.seed(1)
    for x in DataLoader(Noisy(), batch_size=4, num_workers=int(sys.argv[1]), worker_init_fn=seed):
        loss = net(x).square().mean()  # read
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_a_batch_that_a_worker_made_is_data(tmp_path):
    (tmp_path / "train.py").write_text(LOADER)
    for workers in ("0", "2"):
        record(tmp_path, f"workers{workers}", tmp_path / "train.py", workers, saved_data="full")
    run = run_in(tmp_path, None, CLI, "compare", "workers2", "workers0")
    assert run.status == 1, run.stdout + run.stderr
    line = 1 + next(i for i, text in enumerate(LOADER.splitlines()) if text.endswith("# read"))
    first = " ".join(run.stdout.partition("\n  source")[0].split())
    assert ", data data-" in first and "input.0 of linear" in first, first
    assert f"train.py:{line}: " in first, first


BATCHES = """
import sys, torch
from torch import nn

way = sys.argv[1]
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
optimizer = torch.optim.SGD(net.parameters(), 0.05)
pictures = torch.rand(24, 3, 8, 8)
for step in range(3):
    x = pictures[step * 8 : step * 8 + 8].clone()
    if way == "flip":
        x = x.flip(1)  # flip
    if way == "index":
        x = x[:, [2, 1, 0]]  # index
    if way == "cat":
        x = torch.cat([x[:, 1:], x[:, :1]], 1)  # cat
    if way == "roll":
        x = x.roll(1, dims=2)  # roll
    loss = nn.functional.cross_entropy(net(x), torch.arange(8) % 3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_arranges_the_next_batch_in_one_run_alone_is_named(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(BATCHES)
    for way in ("none", "flip", "index", "cat", "roll"):
        record(tmp_path, way, program, way, saved_data="full")
    for way in ("flip", "index", "cat", "roll"):
        line = next(n for n, text in enumerate(BATCHES.splitlines(), 1) if text.endswith(f"# {way}"))
        for sides in ((way, "none"), ("none", way)):
            done = run_in(tmp_path, tmp_path, CLI, "compare", *sides, "--json")
            first = json.loads(done.stdout)["findings"][0]
            assert (first["op_type"], first["source_line"]) == (way, line), first["text"]
            assert "has no counterpart in the" in first["text"]
