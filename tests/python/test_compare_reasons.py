"""`sonde compare` says more of a first difference than its place: parameters that one run shares, gradients that were
not set to zero, weights that were not loaded; it also says what is not certain, or no difference at all."""

import json

import pytest
from processes import CLI, run_in
from test_first_bad import record

SHARED = """
import sys, torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
embedding, head = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
with torch.no_grad():
    head.weight.copy_(embedding.weight)
if "tied" in sys.argv:
    head.weight = embedding.weight
net = nn.Sequential(embedding, nn.Tanh(), head)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    ids = torch.arange(12) % 7 + step
    if "kept" not in sys.argv:
        optimizer.zero_grad()
    F.cross_entropy(net(ids[:-1]), ids[1:]).backward()
    optimizer.step()
"""

LOADED = """
import sys, torch
from torch import nn

torch.manual_seed(1)
trained = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4))
for _ in range(2):  # another network runs first, with results of its own
    print(trained(torch.randn(3, 6) * (2 if "fault" in sys.argv else 1)).sum().item())
torch.manual_seed(2)
model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4))
weights = {("model." if "fault" in sys.argv else "") + name: value for name, value in trained.state_dict().items()}
model.load_state_dict(weights, strict=False)
with torch.no_grad():
    print(model(torch.ones(2, 6)).sum().item())
"""

BEAMS = """
import sys, torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(8, 30)
x = torch.randn(6, 8)
for step in range(2):
    with torch.no_grad():
        scores = net(x).log_softmax(-1)
        chosen = torch.arange(6)[:, None] + torch.tensor([0, 3])
        score = scores.gather(1, chosen)
        score = score / 1.5 if "fault" in sys.argv else torch.where(score < 0, score * 1.5, score / 1.5)
        scores = scores.scatter(1, chosen, score)
        beams = torch.tensor([0.0, -1e9, -1e9]).repeat(2)[:, None]  # all beams but the first are hidden
        print((scores + beams).view(2, -1).topk(4)[0].sum().item())
"""

SPECTRUM = """
import sys, torch
from torch import nn

norm = sys.argv[1]
torch.manual_seed(0)
net, optimizer = nn.Linear(16, 16), None
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    spectrum = torch.fft.rfft(net(torch.randn(4, 16)), norm=norm) * 0.5
    y = torch.fft.irfft(spectrum, n=16, norm=sys.argv[-1])
    optimizer.zero_grad()
    y.square().mean().backward()
    optimizer.step()
"""

SPARSE = """
import sys, torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(6, 5)
places = torch.tensor([[0, 1, 3], [2, 0, 1]])
adjacency = torch.sparse_coo_tensor(places.flip(0) if "fault" in sys.argv else places, torch.ones(3), (4, 4))
print(torch.sparse.mm(adjacency, net(torch.randn(4, 6))).sum().item())
"""

SORTED = """
import sys, torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 12)
        self.rnn = nn.GRU(12, 16, batch_first=True, bidirectional=True)

    def forward(self, ids, lengths):
        x = self.embedding(ids)
        if "packed" in sys.argv:
            return self.rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[1]
        ordered, order = lengths.sort(descending=True)
        return self.rnn(pack_padded_sequence(x[order], ordered, batch_first=True))[1][:, order.argsort()]


torch.manual_seed(0)
encoder = Encoder()
optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
for step in range(2):
    loss = encoder(torch.randint(0, 30, (5, 7)), torch.tensor([3, 7, 5, 2, 6])).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

COUNTED = """
import sys, torch
from torch import nn

torch.manual_seed(0)


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.seen = torch.zeros((), dtype=torch.int64)  # no buffer: data for Sonde

    def forward(self, x):
        if "counts" in sys.argv:
            self.seen.add_(1)
        return self.layer(x + torch.ones(6) * 0.5).relu_()


net = Cache()
extra = torch.tensor([3, 1, 2])
with torch.no_grad():
    for _ in range(2):
        print(net(torch.ones(2, 6)).sum().item() + (0 if "counts" in sys.argv else extra.sum().item()))
"""


def recorded(directory, program, saved_data="full", **runs):
    """Dumps with these names; the values are the words that each run is called with."""
    (directory / "run.py").write_text(program)
    for name, words in runs.items():
        record(directory, name, directory / "run.py", *words.split(), saved_data=saved_data)


def compared(directory, *dumps):
    done = run_in(directory, directory, CLI, "compare", *dumps, "--json")
    return done.status, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("target", "golden", "words"),
    [
        ("tied", "own", "one parameter of the target, 0.weight, is 2 in the golden run: 0.weight, 2.weight"),
        ("own", "tied", "one parameter of the golden run, 0.weight, is 2 in the target: 0.weight, 2.weight"),
        ("kept", "own", "it adds to a gradient that was there before (is zero_grad called in between?)"),
        ("own", "kept", "it adds to a gradient that was there before (is zero_grad called in between?)"),
    ],
)
def test_a_gradient_that_differs_says_what_is_shared_or_kept(tmp_path, target, golden, words):
    recorded(tmp_path, SHARED, **{name: name for name in (target, golden)})
    status, answer = compared(tmp_path, target, golden)
    first = answer["findings"][0]
    assert status == 1 and words in first["text"] and "uncertain" not in first["tags"], first["text"]


def test_weights_that_one_run_did_not_load_are_named_though_another_network_ran_before(tmp_path):
    recorded(tmp_path, LOADED, fault="fault", golden="golden")
    status, answer = compared(tmp_path, "fault", "golden")
    texts = [finding["text"] for finding in answer["findings"]]
    named = [text for text in texts if "golden op copy_" in text and ", run.py:12: has no counterpart" in text]
    assert status == 1 and len(named) == 4 and "and writes network1-Sequential.0.weight" in named[0], texts


@pytest.mark.parametrize("saved_data", ["full", "statistic"])
def test_numbers_that_a_mask_of_large_numbers_hides_are_a_difference(tmp_path, saved_data):
    recorded(tmp_path, BEAMS, saved_data, fault="fault", golden="golden", again="golden")
    assert compared(tmp_path, "again", "golden")[0] == 0
    status, answer = compared(tmp_path, "fault", "golden")
    first = answer["findings"][0]
    assert status == 1 and first["in_golden"] and first["source_line"] == 13, first["text"]


def test_a_call_whose_effect_another_undoes_is_not_certain(tmp_path):
    recorded(tmp_path, SPECTRUM, backward="backward", forward="forward", other="forward ortho")
    status, answer = compared(tmp_path, "backward", "forward")
    first = answer["findings"][0]
    assert status == 1 and "uncertain" in first["tags"] and "what the step leaves agrees" in first["text"], first
    first = compared(tmp_path, "other", "forward")[1]["findings"][0]
    assert "uncertain" not in first["tags"] and "called with norm=ortho" in first["text"], first


def test_an_op_is_not_blamed_with_certainty_if_it_reads_something_unknown(tmp_path):
    recorded(tmp_path, SPARSE, fault="fault", golden="golden")
    first = compared(tmp_path, "fault", "golden")[1]["findings"][0]
    assert "uncertain" in first["tags"] and "nothing is known of input.0 (data" in first["text"], first


@pytest.mark.parametrize(
    ("program", "target", "golden"), [(SORTED, "sorted", "packed"), (COUNTED, "counts", "plain")], ids=["sort", "count"]
)
def test_another_way_to_the_same_is_no_difference(tmp_path, program, target, golden):
    recorded(tmp_path, program, **{name: name for name in (target, golden)})
    status, answer = compared(tmp_path, target, golden)
    assert (status, answer["findings"]) == (0, []), answer["findings"]
