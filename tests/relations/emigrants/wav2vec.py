"""wav2vec 2.0 of transformers beside one's own: a position kernel made from its norm, an even kernel cut at its end."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC  # before the forks: it takes seconds

WIDTH, HEADS, INNER, LAYERS, KERNEL, GROUPS, LETTERS, SAMPLES = 16, 2, 24, 2, 6, 2, 11, 140
CONVS = ((8, 5, 3), (8, 3, 2))

pair = Pair("wav2vec")


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def attend(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.o(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        if bad("pre_norm"):
            x = x + self.attend(self.norm1(x))  # bad("pre_norm")
            return x + self.down(F.gelu(self.up(self.norm2(x))))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = zip((1, CONVS[0][0]), CONVS, strict=True)
        self.convs = nn.ModuleList(nn.Conv1d(last, wide, k, s, bias=False) for last, (wide, k, s) in sizes)
        self.gain, self.shift = nn.Parameter(torch.ones(CONVS[0][0])), nn.Parameter(torch.zeros(CONVS[0][0]))
        self.norm, self.lift = nn.LayerNorm(CONVS[-1][0]), nn.Linear(CONVS[-1][0], WIDTH)
        self.g, self.v = (
            nn.Parameter(torch.ones(1, 1, KERNEL)),
            nn.Parameter(torch.zeros(WIDTH, WIDTH // GROUPS, KERNEL)),
        )
        self.bias, self.first = nn.Parameter(torch.zeros(WIDTH)), nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, LETTERS)

    def placed(self, x):
        axes = (1, 2) if bad("norm_of_rows") else (0, 1)
        kernel = self.g * self.v / self.v.norm(dim=axes, keepdim=True)  # bad("norm_of_rows")
        y = F.conv1d(x.mT, kernel, self.bias, padding=KERNEL // 2, groups=GROUPS)
        y = y[..., 1:] if bad("first_cut") else y[..., :-1]  # bad("first_cut")
        return F.gelu(y).mT  # bad("first_cut")

    @torch.no_grad()
    def forward(self, wave):
        x = self.convs[0](wave[:, None])
        if bad("one_group"):
            x = F.group_norm(x, 1, self.gain, self.shift)  # bad("one_group")
        else:
            x = F.instance_norm(x, weight=self.gain, bias=self.shift)
        x = F.gelu(self.convs[1](F.gelu(x)))
        x = self.lift(self.norm(x.mT))
        x = self.first(x + self.placed(x))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def carried_over(golden):
    own, of = Own(), golden.wav2vec2
    with torch.no_grad():
        for conv, its in zip(own.convs, of.feature_extractor.conv_layers, strict=True):
            conv.weight.copy_(its.conv.weight)
        own.gain.copy_(of.feature_extractor.conv_layers[0].layer_norm.weight)
        own.shift.copy_(of.feature_extractor.conv_layers[0].layer_norm.bias)
        own.norm.load_state_dict(of.feature_projection.layer_norm.state_dict())
        own.lift.load_state_dict(of.feature_projection.projection.state_dict())
        place = of.encoder.pos_conv_embed.conv
        own.g.copy_(place.parametrizations.weight.original0)
        own.v.copy_(place.parametrizations.weight.original1)
        own.bias.copy_(place.bias)
        own.first.load_state_dict(of.encoder.layer_norm.state_dict())
        for layer, its in zip(own.layers, of.encoder.layers, strict=True):
            a = its.attention
            layer.qkv.weight.copy_(torch.cat([part.weight for part in (a.q_proj, a.k_proj, a.v_proj)]))
            layer.qkv.bias.copy_(torch.cat([part.bias for part in (a.q_proj, a.k_proj, a.v_proj)]))
            layer.o.load_state_dict(a.out_proj.state_dict())
            layer.norm1.load_state_dict(its.layer_norm.state_dict())
            layer.up.load_state_dict(its.feed_forward.intermediate_dense.state_dict())
            layer.down.load_state_dict(its.feed_forward.output_dense.state_dict())
            layer.norm2.load_state_dict(its.final_layer_norm.state_dict())
        own.head.load_state_dict(golden.lm_head.state_dict())
    return own.eval()


@pair.prepare
def prepare():
    config = Wav2Vec2Config(
        vocab_size=LETTERS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=INNER, conv_dim=[c[0] for c in CONVS], conv_kernel=[c[1] for c in CONVS],
        conv_stride=[c[2] for c in CONVS], num_conv_pos_embeddings=KERNEL, num_conv_pos_embedding_groups=GROUPS,
        num_feat_extract_layers=len(CONVS), initializer_range=0.3,
    )  # fmt: skip
    golden = Wav2Vec2ForCTC(config).eval()
    unsettle(golden, "norm", "bias", "original")
    own = carried_over(golden)
    wave = torch.randn(2, SAMPLES)

    @torch.no_grad()
    def original():
        golden(wave)

    return original, lambda: own(wave)


pair.fault("pre_norm", "layer_norm")
pair.fault("norm_of_rows", "linalg_vector_norm", "norm", "div", "mul")
pair.fault("first_cut", "slice", "gelu")
pair.fault("one_group", "group_norm")
