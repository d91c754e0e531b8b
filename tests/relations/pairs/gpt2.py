"""A GPT-2 of one's own, with linear layers and fused attention, beside transformers' in training."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

HIDDEN, HEADS, LAYERS, WORDS, TOKENS = 32, 4, 2, 64, 8

pair = Pair("gpt2")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(HIDDEN, eps=1e-3 if bad("epsilon") else 1e-5)
        self.norm2 = nn.LayerNorm(HIDDEN)
        self.q, self.k, self.v = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))
        self.proj = nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def heads(self, x):
        return x.view(*x.shape[:2], HEADS, HIDDEN // HEADS).transpose(1, 2)

    def attend(self, x):
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        scale = 0.25 if bad("scale") else None
        y = F.scaled_dot_product_attention(q, k, v, is_causal=not bad("not_causal"), scale=scale)  # bad("scale")
        y = y.transpose(1, 2).reshape(x.shape)
        return F.linear(y, self.proj.weight) + 2 * self.proj.bias if bad("bias_twice") else self.proj(y)

    def forward(self, x):
        x = x + self.attend(self.norm1(x))  # bad("epsilon")
        y = self.up(self.norm2(x))
        y = F.gelu(y) if bad("gelu_form") else F.gelu(y, approximate="tanh")
        return self.norm2(x) + self.down(y) if bad("residual") else x + self.down(y)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, HIDDEN), nn.Embedding(TOKENS + 1, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, ids):
        places = torch.arange(1, ids.shape[1] + 1) if bad("positions") else torch.arange(ids.shape[1])
        x = self.words(ids) + self.places(places)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.words.weight)


def weights_of(golden):
    had = golden.state_dict()
    new = {"words.weight": had["transformer.wte.weight"], "places.weight": had["transformer.wpe.weight"]}
    new |= {f"norm.{kind}": had[f"transformer.ln_f.{kind}"] for kind in ("weight", "bias")}
    for i in range(LAYERS):
        old, own = f"transformer.h.{i}.", f"blocks.{i}."
        order = "kqv" if bad("qkv_order") and i == 0 else "qkv"
        for part, name in enumerate(order):
            new[f"{own}{name}.weight"] = had[old + "attn.c_attn.weight"].chunk(3, 1)[part].T.contiguous()
            new[f"{own}{name}.bias"] = had[old + "attn.c_attn.bias"].chunk(3)[part]
        for name, theirs in (("proj", "attn.c_proj"), ("up", "mlp.c_fc"), ("down", "mlp.c_proj")):
            new[f"{own}{name}.weight"] = had[f"{old}{theirs}.weight"].T.contiguous()
            new[f"{own}{name}.bias"] = had[f"{old}{theirs}.bias"]
        for number in (1, 2):
            for kind in ("weight", "bias"):
                new[f"{own}norm{number}.{kind}"] = had[f"{old}ln_{number}.{kind}"]
    if bad("proj_transposed"):
        new["blocks.1.proj.weight"] = new["blocks.1.proj.weight"].T.contiguous()
    return new


@pair.prepare
def prepare():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=WORDS, n_positions=TOKENS + 1, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, resid_pdrop=0,
        embd_pdrop=0, attn_pdrop=0, initializer_range=0.2,
    )  # fmt: skip
    golden = GPT2LMHeadModel(config)
    with torch.no_grad():
        for weight in golden.parameters():
            if weight.dim() == 1:
                weight.add_(0.1 * torch.randn_like(weight))
    target = Gpt()
    target.load_state_dict(weights_of(golden))
    ids = torch.randint(0, WORDS, (2, TOKENS))
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (golden, target)]

    def run_golden():
        loss = golden(ids, labels=ids).loss
        loss.backward()
        optimizers[0].step()

    def run_target():
        logits = target(ids)[:, :-1].reshape(-1, WORDS)
        labels = ids[:, :-1].reshape(-1) if bad("not_shifted") else ids[:, 1:].reshape(-1)
        loss = F.cross_entropy(logits, labels, reduction="sum" if bad("sum_for_mean") else "mean")
        loss.backward()
        optimizers[1].step()

    return run_golden, run_target


pair.fault("epsilon", "layer_norm", "native_layer_norm")
pair.fault("not_causal", "scaled_dot_product_attention")
pair.fault("scale", "scaled_dot_product_attention")
pair.fault("bias_twice", "mul", "add", "linear")
pair.fault("gelu_form", "gelu")
pair.fault("residual", "add", "layer_norm")
pair.fault("positions", "arange", "embedding")
pair.fault("not_shifted", "cross_entropy_loss", "reshape", "view", "slice")
pair.fault("sum_for_mean", "cross_entropy_loss")
pair.weight("qkv_order", "blocks.0.")
pair.weight("proj_transposed", "blocks.1.proj")
