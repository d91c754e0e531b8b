"""A block of diffusers that also attends to a text, beside one in the style of CompVis with heads in the batch."""

import torch
import torch.nn.functional as F
from diffusers.models.attention import BasicTransformerBlock  # before the forks: it takes seconds
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, HEADS, TEXT, SIDE, WORDS, GROUPS, BATCH = 24, 3, 20, 4, 5, 4, 2
HEAD = WIDTH // HEADS

pair = Pair("spatial")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, WIDTH, eps=1e-6)
        self.proj_in, self.proj_out = nn.Conv2d(WIDTH, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1)
        self.block = BasicTransformerBlock(WIDTH, HEADS, HEAD, cross_attention_dim=TEXT, activation_fn="geglu")

    def forward(self, x, text):
        y = self.proj_in(self.norm(x))
        y = y.permute(0, 2, 3, 1).reshape(BATCH, SIDE * SIDE, WIDTH)
        y = self.block(y, encoder_hidden_states=text)
        y = y.reshape(BATCH, SIDE, SIDE, WIDTH).permute(0, 3, 1, 2).contiguous()
        return self.proj_out(y) + x


def in_batch(x):
    return x.reshape(BATCH, -1, HEADS, HEAD).permute(0, 2, 1, 3).reshape(BATCH * HEADS, -1, HEAD)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        own["proj_in_weight"], own["proj_out_weight"] = (own[f"proj_{n}_weight"].flatten(1) for n in ("in", "out"))
        if bad("keys_and_values"):
            k, v = own["block_attn2_to_k_weight"], own["block_attn2_to_v_weight"]
            own["block_attn2_to_k_weight"], own["block_attn2_to_v_weight"] = v, k
        self.w = nn.ParameterDict(own)

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.w[f"block_{name}_weight"], self.w[f"block_{name}_bias"])

    def linear(self, x, name):
        return F.linear(x, self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def attend(self, x, context, name):
        q = in_batch(x @ self.w[f"block_{name}_to_q_weight"].t())
        k, v = (in_batch(context @ self.w[f"block_{name}_to_{n}_weight"].t()) for n in "kv")
        alpha = WIDTH**-0.5 if bad("whole_width") else HEAD**-0.5
        empty = torch.empty(q.shape[0], q.shape[1], k.shape[1])
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0, alpha=alpha)  # bad("whole_width")
        y = torch.bmm(scores.softmax(-1), v)
        y = y.reshape(BATCH, HEADS, -1, HEAD).permute(0, 2, 1, 3).reshape(x.shape)
        return self.linear(y, f"block_{name}_to_out_0")

    def forward(self, x, text):
        groups = x.reshape(BATCH, GROUPS, -1)
        spread, mean = torch.var_mean(groups, -1, correction=0, keepdim=True)
        eps = 1e-2 if bad("epsilon") else 1e-6
        y = ((groups - mean) * torch.rsqrt(spread + eps)).reshape(BATCH, WIDTH, -1).mT  # bad("epsilon")
        y = self.linear(y * self.w["norm_weight"] + self.w["norm_bias"], "proj_in")
        own = self.norm(y, "norm1")
        y = self.attend(own, own, "attn1") + y
        y = self.attend(self.norm(y, "norm2"), text, "attn2") + y
        h, gate = self.linear(self.norm(y, "norm3"), "block_ff_net_0_proj").chunk(2, -1)
        if bad("halves"):
            h, gate = gate, h  # bad("halves")
        y = self.linear(h * F.gelu(gate), "block_ff_net_2") + y  # bad("halves")
        y = self.linear(y, "proj_out")
        return y.mT.reshape(x.shape) + x


@pair.prepare
def prepare():
    golden = Golden().eval()
    unsettle(golden, "norm")
    target, x, text = Own(golden), torch.randn(BATCH, WIDTH, SIDE, SIDE), torch.randn(BATCH, WORDS, TEXT)

    def run(model):
        with torch.no_grad():
            return model(x, text)

    return lambda: run(golden), lambda: run(target)


pair.weight("keys_and_values", "attn2_to_")
pair.fault("whole_width", "baddbmm")
pair.fault("epsilon", "add", "rsqrt")
pair.fault("halves", "gelu")
