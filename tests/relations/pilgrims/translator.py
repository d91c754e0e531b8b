"""torch.nn.Transformer in training beside one's own: a product for each of q, k and v, norms first, masks by hand."""

import math

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, HEADS, INNER, WORDS, SOURCE, TARGET, STEPS = 24, 4, 40, 37, 6, 5, 2
HEAD = WIDTH // HEADS

pair = Pair("translator")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.transformer = nn.Transformer(WIDTH, HEADS, 1, 2, INNER, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        x = self.transformer(self.embed(source), self.embed(target), tgt_mask=mask)
        return self.head(x)


class MultiHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.merge = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], HEADS, HEAD)

    def forward(self, x, memory, causal=False):
        q = self.heads(self.query(x))  # bad("cross_not_normed")
        k, v = self.heads(self.key(memory)), self.heads(self.value(memory))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(HEAD)
        if causal:
            length = x.shape[1]
            hidden = torch.ones(length, length, dtype=torch.bool)
            hidden = hidden.triu(0 if bad("not_itself") else 1)  # bad("not_itself")
            if bad("not_itself"):
                hidden[0, 0] = False  # bad("not_itself")
            scores = scores.masked_fill(hidden, float("-inf"))  # bad("not_itself")
        return self.merge(torch.einsum("bhqk,bkhd->bqhd", F.softmax(scores, -1), v).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x):
        x = self.fc1(x)
        return self.fc2(F.gelu(x) if bad("gelu") else F.relu(x))  # bad("gelu")


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, self.ffn = MultiHead(), FeedForward()

    def forward(self, x):
        y = self.ln1(x)
        x = x + self.attn(y, y)
        return x + self.ffn(self.ln2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.ln3 = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.attn, self.cross, self.ffn = MultiHead(), MultiHead(), FeedForward()

    def forward(self, x, memory):
        y = self.ln1(x)
        x = x + self.attn(y, y, causal=True)
        y = x if bad("cross_not_normed") else self.ln2(x)
        x = x + self.cross(y, memory)
        return x + self.ffn(self.ln3(x))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(WORDS, WIDTH)
        self.encoder, self.encoder_norm = Encoder(), nn.LayerNorm(WIDTH)
        self.decoders, self.decoder_norm = nn.ModuleList(Decoder() for _ in range(2)), nn.LayerNorm(WIDTH)
        self.project = nn.Linear(WIDTH, WORDS)

    def forward(self, source, target):
        memory = self.encoder(self.tokens(source))
        memory = self.encoder_norm(memory)
        x = self.tokens(target)
        for decoder in self.decoders:
            x = decoder(x, memory)
        return self.project(self.decoder_norm(x))


def carry_attention(own, of):
    q, k, v = of.in_proj_weight.chunk(3)
    own.query.weight.copy_(q)
    own.key.weight.copy_(k)
    own.value.weight.copy_(v)
    for part, bias in zip((own.query, own.key, own.value), of.in_proj_bias.chunk(3), strict=True):
        part.bias.copy_(bias)
    own.merge.load_state_dict(of.out_proj.state_dict())


def carry_ffn(own, of):
    own.fc1.load_state_dict(of.linear1.state_dict())
    own.fc2.load_state_dict(of.linear2.state_dict())


def carried_over(golden):
    own, of = Own(), golden.transformer
    with torch.no_grad():
        own.tokens.weight.copy_(golden.embed.weight)
        own.project.load_state_dict(golden.head.state_dict())
        own.encoder_norm.load_state_dict(of.encoder.norm.state_dict())
        own.decoder_norm.load_state_dict(of.decoder.norm.state_dict())
        layer = of.encoder.layers[0]
        carry_attention(own.encoder.attn, layer.self_attn)
        carry_ffn(own.encoder.ffn, layer)
        own.encoder.ln1.load_state_dict(layer.norm1.state_dict())
        own.encoder.ln2.load_state_dict(layer.norm2.state_dict())
        for decoder, layer in zip(own.decoders, of.decoder.layers, strict=True):
            carry_attention(decoder.attn, layer.self_attn)
            carry_attention(decoder.cross, layer.multihead_attn)
            carry_ffn(decoder.ffn, layer)
            for own_norm, norm in zip((decoder.ln1, decoder.ln2, decoder.ln3), norms_of(layer), strict=True):
                own_norm.load_state_dict(norm.state_dict())
    return own


def norms_of(layer):
    if bad("norms_exchanged"):
        return layer.norm2, layer.norm1, layer.norm3  # bad("norms_exchanged")
    return layer.norm1, layer.norm2, layer.norm3


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm", "bias")
    own = carried_over(golden)
    batches = [
        (torch.randint(0, WORDS, (3, SOURCE)), torch.randint(0, WORDS, (3, TARGET + 1))) for _ in range(STEPS)
    ]  # fmt: skip

    def train(model):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
        for source, target in batches:
            optimizer.zero_grad()
            logits = model(source, target[:, :-1])
            if model is own and bad("not_shifted"):
                loss = F.cross_entropy(logits.transpose(1, 2), target[:, :-1])  # bad("not_shifted")
            elif model is own and bad("summed"):
                loss = F.cross_entropy(logits.transpose(1, 2), target[:, 1:], reduction="sum")  # bad("summed")
            else:
                loss = F.cross_entropy(logits.transpose(1, 2), target[:, 1:])
            loss.backward()
            optimizer.step()

    return lambda: train(golden), lambda: train(own)


pair.fault("not_itself", "triu", "masked_fill", "copy_", "fill_")
pair.fault("gelu", "gelu")
pair.fault("not_shifted", "slice", "cross_entropy_loss")
pair.fault("cross_not_normed", "linear")
pair.fault("summed", "cross_entropy_loss")
pair.weight("norms_exchanged", "ln")
