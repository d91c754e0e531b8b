"""Public reports: attention and positions that compute something else. Rebuilt, not copied."""

import torch
from cases import Family
from finite_training import network_of, repeat, rows, slow, training
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

family = Family("reports")
INF = float("inf")
NEW_TYPE = ("type", "bfloat16", "float16", "parameter", "data", "inserted")  # a cast


def qkv(**more):
    return {name: nn.Linear(8, 8) for name in ("q", "k", "v", "out")} | more


def half_turned(x):
    return torch.cat([-x[..., 4:], x[..., :4]], -1)


@family.differs(
    "outer", "mul", "ger", "to", "_to_copy", "type_as", "arange",
    report="huggingface/transformers#29496", cause=NEW_TYPE,
)  # fmt: skip
def rotary_frequencies_in_bfloat16(wrong):
    """The buffer of rotary frequencies is bfloat16 in mixed precision, and so are the angles."""

    def forward(s, x):
        t = torch.arange(64).type_as(s.frequencies)  # FAULT
        angles = torch.outer(t, s.frequencies)  # FAULT
        cos, sin = (f(torch.cat([angles, angles], -1)).to(x.dtype) for f in (torch.cos, torch.sin))
        q, k = s.q(x), s.k(x)
        q, k = q * cos + half_turned(q) * sin, k * cos + half_turned(k) * sin
        return s.out((q @ k.transpose(1, 2)).softmax(-1) @ s.v(x))

    network = network_of(forward, **qkv())
    frequencies = 1 / 10000 ** (torch.arange(0, 8, 2) / 8)
    network.register_buffer("frequencies", frequencies.bfloat16() if wrong else frequencies)
    training(network, rows(2, 64, 8))


@family.differs("type_as", "to", "_to_copy", "mul", "outer", report="EleutherAI/gpt-neox#1003", cause=NEW_TYPE)
def rotary_positions_in_half(wrong):
    """Positions above 2048 are cast to float16 before they become angles."""

    def forward(s, x):
        t = torch.arange(3000, 3012).float()
        t = t.half().float() if wrong else t  # FAULT
        angles = torch.outer(t, 1 / 10000 ** (torch.arange(0, 8, 2) / 8))
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        q, k = s.q(x), s.k(x)
        q, k = q * cos + half_turned(q) * sin, k * cos + half_turned(k) * sin
        return s.out((q @ k.transpose(1, 2)).softmax(-1) @ s.v(x))

    training(network_of(forward, **qkv()), rows(2, 12, 8))


@family.differs("mul", "unsqueeze", report="Dao-AILab/flash-attention#845", cause=("parameter", "data", "type"))
def slopes_cast_with_the_module(wrong):
    """ALiBi's slopes are a buffer, and a cast of the module rounds them to float16."""

    def forward(s, x):
        distance = torch.arange(6)[None, :] - torch.arange(6)[:, None]
        bias = s.slopes[:, None, None] * distance.abs()  # FAULT
        q, k, v = (f(x).view(2, 6, 2, 4).transpose(1, 2) for f in (s.q, s.k, s.v))
        y = (q @ k.transpose(2, 3) - bias).softmax(-1) @ v
        return s.out(y.transpose(1, 2).reshape(2, 6, 8))

    network = network_of(forward, **qkv())
    slopes = 2.0 ** (-8 * torch.arange(1, 3) / 3)
    network.register_buffer("slopes", slopes.half().float() if wrong else slopes)
    training(network, rows(2, 6, 8))


@family.differs(
    "arange", "embedding", "cumsum", "sub", "clamp", "expand", "add", report="ndif-team/nnsight#673"
)  # fmt: skip
def positions_of_left_padded_prompts(wrong):
    """A batch that is padded on the left gets positions that count the padding."""

    def forward(s, ids):
        seen = (ids != 0).long()
        places = torch.arange(6).expand(2, 6) if wrong else (seen.cumsum(-1) - 1).clamp(min=0)  # FAULT
        x = s.words(ids) + s.places(places)  # FAULT
        return s.out(x)

    ids = torch.tensor([[1, 2, 3, 4, 5, 6], [0, 0, 7, 8, 9, 3]])
    parts = {"words": nn.Embedding(10, 8), "places": nn.Embedding(6, 8), "out": nn.Linear(8, 10)}
    training(network_of(forward, **parts), lambda: (ids,))


@family.differs(
    "slice", "index", "unsqueeze", "mul", "cumsum", "sub", "clamp", report="huggingface/transformers#22161"
)  # fmt: skip
def rotary_table_of_left_padded_prompts(wrong):
    """The rows of the rotary table are taken from the start, not at the positions of the tokens."""

    def forward(s, x):
        seen = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
        angles = torch.outer(torch.arange(8.0), 1 / 100 ** (torch.arange(0, 8, 2) / 8))
        table = torch.cat([angles, angles], -1)
        taken = table[:6] if wrong else table[(seen.cumsum(-1) - 1).clamp(min=0)]  # FAULT
        q = s.q(x)
        q = q * taken.cos() + half_turned(q) * taken.sin()
        return s.out((q @ s.k(x).transpose(1, 2)).softmax(-1) @ s.v(x))

    training(network_of(forward, **qkv()), rows(2, 6, 8))


@family.differs(
    "neg", "slice", "cat", "stack", "flatten", "mul", "view", "reshape",
    report="raiyanyahya/how-to-train-your-gpt#6",
)  # fmt: skip
def rotary_pairs_of_another_layout(wrong):
    """The table repeats each angle for neighbours, and the rotation pairs the two halves."""

    def forward(s, x):
        angles = torch.outer(torch.arange(6.0), 1 / 100 ** (torch.arange(0, 8, 2) / 8)).repeat_interleave(2, -1)
        q = s.q(x)
        if wrong:
            turned = torch.cat([-q[..., 4:], q[..., :4]], -1)  # FAULT
        else:
            turned = torch.stack([-q[..., 1::2], q[..., ::2]], -1).flatten(-2)  # FAULT
        q = q * angles.cos() + turned * angles.sin()  # FAULT
        return s.out((q @ s.k(x).transpose(1, 2)).softmax(-1) @ s.v(x))

    training(network_of(forward, **qkv()), rows(2, 6, 8))


@family.differs("triu", report="huggingface/transformers#26792", cause=("number", "diagonal"))
def sliding_window_of_one_too_many(wrong):
    """The lower edge of the sliding window is at -window where it must be at -window + 1."""

    def forward(s, x):
        seen = torch.ones(8, 8).tril().triu(-3 if wrong else -2)  # FAULT
        scores = (s.q(x) @ s.k(x).transpose(1, 2)).masked_fill(seen == 0, -INF)
        return s.out(scores.softmax(-1) @ s.v(x))

    training(network_of(forward, **qkv()), rows(2, 8, 8))


@family.differs("tril", "add", report="huggingface/transformers#41228")
def sliding_window_cut_out_of_the_causal_mask(wrong):
    """The window is cut out of the causal mask, which makes the far future visible, and the far past too."""

    def forward(s, x):
        all_masked = torch.full((8, 8), -1e9)
        causal = torch.triu(all_masked, 1)
        mask = torch.tril(causal, 3) if wrong else causal + torch.tril(all_masked, -3)  # FAULT
        return s.out((s.q(x) @ s.k(x).transpose(1, 2) + mask).softmax(-1) @ s.v(x))

    training(network_of(forward, **qkv()), rows(2, 8, 8))


@family.differs("tanh", "div", "mul", "softmax", report="vllm-project/vllm-metal#666")
def attention_without_its_soft_cap(wrong):
    """The cap of the attention scores is 0 in the call of the kernel: scores are not capped."""

    def forward(s, x):
        scores = s.q(x) @ s.k(x).transpose(1, 2)
        if not wrong:
            scores = torch.tanh(scores / 5) * 5  # FAULT
        weight = scores.softmax(-1)  # FAULT
        return s.out(weight @ s.v(x))

    training(network_of(forward, **qkv()), rows(2, 6, 8))


@family.differs(
    "scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu",
    report="karpathy/nanoGPT#240", cause=("number", "dropout_p"),
)  # fmt: skip
def dropout_while_evaluating(wrong):
    """The fused attention gets the dropout probability in evaluation too."""

    def forward(s, x):
        q, k, v = (f(x).view(2, 6, 2, 4).transpose(1, 2) for f in (s.q, s.k, s.v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.2 if s.training or wrong else 0)  # FAULT
        return s.out(y.transpose(1, 2).reshape(2, 6, 8))

    network = network_of(forward, **qkv())
    optimizer = slow(network)

    def step():
        x = torch.randn(2, 6, 8)
        network.eval()
        with torch.no_grad():
            network(x)
        network.train()
        optimizer.zero_grad()
        network(x).square().mean().backward()
        optimizer.step()

    repeat(step)


@family.differs(
    "scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu",
    report="NVIDIA/Megatron-LM#411", cause=("number", "dropout_p"),
)  # fmt: skip
def no_dropout_after_an_evaluation(wrong):
    """An evaluation sets the module's dropout probability to 0, and training goes on without dropout."""

    def forward(s, x):
        p = s.p if s.training else 0.0
        if wrong:
            s.p = p
        q, k, v = (f(x).view(2, 6, 2, 4).transpose(1, 2) for f in (s.q, s.k, s.v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p)  # FAULT
        return s.out(y.transpose(1, 2).reshape(2, 6, 8))

    network = network_of(forward, **qkv())
    network.p = 0.3
    optimizer = slow(network)

    def step():
        x = torch.randn(2, 6, 8)
        optimizer.zero_grad()
        network.train()(x).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            network.eval()(x)

    repeat(step)


@family.differs(
    "dropout", "native_dropout", "bernoulli_", "mul", "div_", report="allenai/OLMo-core#828"
)  # fmt: skip
def recomputed_with_another_dropout(wrong):
    """Checkpointing does not restore the random state: backward recomputes with another dropout mask."""

    def forward(s, x):
        def block(x):
            return F.dropout(s.fc(x).tanh(), 0.3)  # FAULT

        return s.out(checkpoint(block, x, use_reentrant=False, preserve_rng_state=not wrong))

    training(network_of(forward, fc=nn.Linear(8, 16), out=nn.Linear(16, 4)), rows(6, 8))
