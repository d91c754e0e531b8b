"""Whisper's encoder of transformers beside one's own with the names of openai-whisper."""

import math

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import WhisperConfig, WhisperModel  # before the forks: it takes seconds

MELS, FRAMES, STATE, HEADS, LAYERS = 10, 24, 32, 4, 2
HEAD = STATE // HEADS

pair = Pair("whisper")


def sinusoids(length, channels):
    step = math.log(10000) / (channels // 2 - 1)
    rates = torch.exp(-step * torch.arange(channels // 2))
    angles = torch.arange(length)[:, None] * rates[None]
    return torch.cat((angles.sin(), angles.cos()), 1)


class MultiHeadAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.value = nn.Linear(STATE, STATE), nn.Linear(STATE, STATE)
        self.key = nn.Linear(STATE, STATE, bias=False)
        self.out = nn.Linear(STATE, STATE)

    def forward(self, x):
        batch, length, _ = x.shape
        scale = HEAD**-0.25
        q = self.query(x).view(batch, length, HEADS, HEAD).permute(0, 2, 1, 3) * scale
        k = self.key(x).view(batch, length, HEADS, HEAD).permute(0, 2, 3, 1)
        k = k * (scale**2 if bad("scale") else scale)  # bad("scale")
        weights = F.softmax((q @ k).float(), dim=-1)
        v = self.value(x).view(batch, length, HEADS, HEAD).permute(0, 2, 1, 3)
        y = weights @ v
        if bad("heads_last"):
            return self.out(y.permute(0, 2, 3, 1).flatten(2))  # bad("heads_last")
        return self.out(y.permute(0, 2, 1, 3).flatten(2))


class ResidualAttentionBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn_ln, self.mlp_ln = nn.LayerNorm(STATE), nn.LayerNorm(STATE)
        self.attn = MultiHeadAttention()
        self.mlp = nn.Sequential(nn.Linear(STATE, 4 * STATE), nn.GELU(), nn.Linear(4 * STATE, STATE))

    def forward(self, x):
        x = x + self.attn(self.attn_ln(x))
        y = self.mlp_ln(x)
        if bad("residual_of_norm"):
            return y + self.mlp(y)  # bad("residual_of_norm")
        return x + self.mlp(y)


class AudioEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(MELS, STATE, 3, padding=1)
        self.conv2 = nn.Conv1d(STATE, STATE, 3, stride=2)
        self.register_buffer("positional_embedding", sinusoids(FRAMES // 2, STATE))
        self.blocks = nn.ModuleList(ResidualAttentionBlock() for _ in range(LAYERS))
        self.ln_post = nn.LayerNorm(STATE)

    @torch.no_grad()
    def forward(self, mel):
        x = F.gelu(self.conv1(mel), approximate="tanh" if bad("gelu") else "none")  # bad("gelu")
        x = F.pad(x, (0, 2) if bad("pad") else (1, 1))  # bad("pad")
        x = self.conv2(x)
        x = F.gelu(x).transpose(1, 2) + self.positional_embedding
        for block in self.blocks:
            x = block(x)
        return self.ln_post(x)


def carried_over(golden):
    own = AudioEncoder()
    own.conv1.load_state_dict(golden.conv1.state_dict())
    own.conv2.load_state_dict(golden.conv2.state_dict())
    for block, layer in zip(own.blocks, golden.layers, strict=True):
        block.attn_ln.load_state_dict(layer.self_attn_layer_norm.state_dict())
        block.mlp_ln.load_state_dict(layer.final_layer_norm.state_dict())
        if bad("ln_exchanged"):
            block.mlp_ln.load_state_dict(layer.self_attn_layer_norm.state_dict())  # bad("ln_exchanged")
        of = layer.self_attn
        for mine, its in (("query", of.q_proj), ("key", of.k_proj), ("value", of.v_proj), ("out", of.out_proj)):
            getattr(block.attn, mine).load_state_dict(its.state_dict())
        block.mlp[0].load_state_dict(layer.fc1.state_dict())
        block.mlp[2].load_state_dict(layer.fc2.state_dict())
    own.ln_post.load_state_dict(golden.layer_norm.state_dict())
    return own.eval()


@pair.prepare
def prepare():
    config = WhisperConfig(
        vocab_size=40, num_mel_bins=MELS, d_model=STATE, encoder_layers=LAYERS, encoder_attention_heads=HEADS,
        encoder_ffn_dim=4 * STATE, decoder_layers=1, decoder_attention_heads=HEADS, decoder_ffn_dim=STATE,
        max_source_positions=FRAMES // 2, max_target_positions=16, init_std=0.2, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    golden = WhisperModel(config).eval().encoder
    unsettle(golden, "norm", "bias")
    own = carried_over(golden)
    mel = torch.randn(2, MELS, FRAMES)

    @torch.no_grad()
    def run():
        return golden(mel)

    return run, lambda: own(mel)


pair.fault("scale", "mul")
pair.fault("heads_last", "permute", "flatten", "reshape")
pair.fault("residual_of_norm", "add")
pair.fault("gelu", "gelu")
pair.fault("pad", "pad", "constant_pad_nd")
pair.weight("ln_exchanged", "mlp_ln")
