"""RoBERTa of transformers in training, with padded sentences and a loss of labels, beside one's own encoder."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import RobertaConfig, RobertaForSequenceClassification  # before the forks: it takes seconds

HIDDEN, HEADS, INNER, LAYERS, WORDS, PAD, LABELS, STEPS = 32, 4, 48, 2, 60, 1, 3, 2
EPSILON = 1e-5

pair = Pair("roberta")


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(WORDS, HIDDEN, padding_idx=PAD)
        self.pos = nn.Embedding(40, HIDDEN, padding_idx=PAD)
        self.seg = nn.Parameter(torch.zeros(1, HIDDEN))
        self.norm = nn.LayerNorm(HIDDEN, eps=EPSILON)

    def forward(self, ids, seen):
        places = seen.cumsum(1) * seen + PAD
        if bad("positions"):
            places = torch.arange(ids.shape[1]).expand_as(ids)  # bad("positions")
        return self.norm(self.tok(ids) + self.pos(places) + self.seg)  # bad("positions")


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))

    def forward(self, x, mask):
        q, k, v = (w(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        if bad("padding_seen"):
            mask = None
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # bad("padding_seen")
        return self.wo(y.transpose(1, 2).flatten(2))


class EncoderBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = SelfAttention()
        self.norm1 = nn.LayerNorm(HIDDEN, eps=EPSILON)
        self.up, self.down = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)
        self.norm2 = nn.LayerNorm(HIDDEN, eps=1e-2 if bad("epsilon") else EPSILON)

    def forward(self, x, mask):
        x = self.norm1(x + self.attn(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))  # bad("epsilon")


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = Embeddings()
        self.blocks = nn.ModuleList(EncoderBlock() for _ in range(LAYERS))
        self.pool, self.out = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, LABELS)

    def forward(self, ids, seen):
        x = self.embeddings(ids, seen)
        mask = seen[:, None, None, :].bool()
        for block in self.blocks:
            x = block(x, mask)
        x = x.mean(1) if bad("pooled") else x[:, 0]  # bad("pooled")
        return self.out(torch.tanh(self.pool(x)))


def names():
    """The own name of each of the golden parts."""
    yield "roberta.embeddings.LayerNorm", "embeddings.norm"
    for i in range(LAYERS):
        theirs, ours = f"roberta.encoder.layer.{i}", f"blocks.{i}"
        for their, our in (("query", "wq"), ("key", "wk"), ("value", "wv")):
            yield f"{theirs}.attention.self.{their}", f"{ours}.attn.{our}"
        yield f"{theirs}.attention.output.dense", f"{ours}.attn.wo"
        yield f"{theirs}.attention.output.LayerNorm", f"{ours}.norm1"
        yield f"{theirs}.intermediate.dense", f"{ours}.up"
        yield f"{theirs}.output.dense", f"{ours}.down"
        yield f"{theirs}.output.LayerNorm", f"{ours}.norm2"
    yield "classifier.dense", "pool"
    yield "classifier.out_proj", "out"


def carried_over(golden):
    own = Classifier()
    weights = golden.state_dict()
    own.embeddings.tok.weight.data.copy_(weights["roberta.embeddings.word_embeddings.weight"])
    own.embeddings.pos.weight.data.copy_(weights["roberta.embeddings.position_embeddings.weight"])
    own.embeddings.seg.data.copy_(weights["roberta.embeddings.token_type_embeddings.weight"])
    for theirs, ours in names():
        part = own.get_submodule(ours)
        part.weight.data.copy_(weights[f"{theirs}.weight"])
        part.bias.data.copy_(weights[f"{theirs}.bias"])
    if bad("exchanged"):
        attention = own.blocks[1].attn
        attention.wq.weight.data, attention.wk.weight.data = (  # bad("exchanged")
            attention.wk.weight.data, attention.wq.weight.data,
        )  # fmt: skip
    return own


@pair.prepare
def prepare():
    config = RobertaConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=INNER, max_position_embeddings=40, type_vocab_size=1, num_labels=LABELS,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.2, pad_token_id=PAD,
        layer_norm_eps=EPSILON,
    )  # fmt: skip
    golden = RobertaForSequenceClassification(config)
    unsettle(golden, "Norm", "bias")
    own = carried_over(golden)
    batches = []
    for _ in range(STEPS):
        ids = torch.randint(3, WORDS, (4, 9))
        ids[1, -3:] = ids[2, -1:] = PAD
        batches.append((ids, (ids != PAD).long(), torch.randint(0, LABELS, (4,))))

    def run_golden():
        optimizer = torch.optim.SGD(golden.parameters(), lr=0.05)
        for ids, seen, labels in batches:
            golden(ids, attention_mask=seen, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    def run_own():
        optimizer = torch.optim.SGD(own.parameters(), lr=0.05)
        for ids, seen, labels in batches:
            logits = own(ids, seen)
            loss = F.cross_entropy(logits, labels, reduction="sum" if bad("loss_sum") else "mean")  # bad("loss_sum")
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return run_golden, run_own


pair.fault("positions", "arange", "expand", "embedding")
pair.fault("padding_seen", "scaled_dot_product_attention")
pair.fault("epsilon", "layer_norm")
pair.fault("pooled", "mean")
pair.fault("loss_sum", "cross_entropy_loss")
pair.weight("exchanged", "attn.w")
