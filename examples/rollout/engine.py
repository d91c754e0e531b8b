"""A small serving engine: continuous batching, a cache of keys and values, fused weights, one token a step.

python engine.py llama rollout.json                        # answers four requests; writes tokens and log-probabilities
python engine.py llama rollout.json --plant weights        # one of the trainer's weights did not arrive
python engine.py llama rollout.json --plant positions      # decoding turns queries and keys one position too far
python engine.py llama rollout.json --plant cache          # a request reads what the last one left in its slot
"""

import argparse
import collections
import json
import pathlib

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

SLOTS = 2  # requests in work at once
REQUESTS = {"a": ([5, 9, 33, 2, 17], 6), "b": ([40, 3], 3), "c": ([8, 21, 60], 5), "d": ([11], 4)}  # tokens, new ones

parser = argparse.ArgumentParser()
parser.add_argument("weights")
parser.add_argument("rollout")
parser.add_argument("--plant", choices=["weights", "positions", "cache"])
options = parser.parse_args()


class Request:
    """Tokens that are known, and how many of them have keys and values in the cache."""

    def __init__(self, name, tokens, count):
        self.name, self.tokens, self.prompt = name, list(tokens), len(tokens)
        self.most = len(tokens) + count
        self.logprobs = []
        self.done = 0
        self.slot = -1


class Batch:
    """The tokens of a step, one after the other: a whole prompt of a new request, one token of each other."""

    def __init__(self, requests):
        self.requests = requests
        self.rows = [len(request.tokens) - request.done for request in requests]
        places = [(r, place) for r in requests for place in range(r.done, len(r.tokens))]
        self.tokens = torch.tensor([r.tokens[place] for r, place in places])
        self.slots = torch.tensor([r.slot for r, _ in places])
        self.places = torch.tensor([place for _, place in places])
        late = options.plant == "positions"
        self.positions = torch.tensor([place + (late and r.done > 0) for r, place in places])
        self.last = torch.tensor(self.rows).cumsum(0) - 1


class Norm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.empty(size)), eps

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


class Attention(nn.Module):
    """Keys and values are kept: [slot, position, head, element]."""

    def __init__(self, config):
        super().__init__()
        size, self.heads = config["hidden_size"], config["num_attention_heads"]
        self.kv_heads, self.width = config["num_key_value_heads"], size // self.heads
        self.qkv_proj = nn.Linear(size, (self.heads + 2 * self.kv_heads) * self.width, bias=False)
        self.o_proj = nn.Linear(size, size, bias=False)
        shape = (SLOTS, config["max_position_embeddings"], self.kv_heads, self.width)
        self.register_buffer("keys", torch.zeros(shape), persistent=False)
        self.register_buffer("values", torch.zeros(shape), persistent=False)
        self.filled = [0] * SLOTS

    def forward(self, x, batch, cos, sin):
        qkv = self.qkv_proj(x).view(len(x), -1, self.width)
        q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], 1)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        self.keys[batch.slots, batch.places] = k
        self.values[batch.slots, batch.places] = v
        results = [self.attend(one, request) for one, request in zip(q.split(batch.rows), batch.requests, strict=True)]
        return self.o_proj(torch.cat(results).flatten(1))

    def attend(self, q, request):
        slot = request.slot
        if request.done == 0 and options.plant != "cache":
            self.filled[slot] = 0  # what the last request left there is not read
        self.filled[slot] = max(self.filled[slot], len(request.tokens))
        keys, values = (kept[slot, : self.filled[slot]].transpose(0, 1) for kept in (self.keys, self.values))
        mask = None if len(q) == 1 else torch.ones(len(q), keys.shape[1]).tril(keys.shape[1] - len(q)).bool()
        y = F.scaled_dot_product_attention(q.transpose(0, 1)[None], keys[None], values[None], mask, enable_gqa=True)
        return y[0].transpose(0, 1)


def turned(x, cos, sin):
    one, two = x.chunk(2, -1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin), -1)


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        size, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_up_proj = nn.Linear(size, 2 * inner, bias=False)
        self.down_proj = nn.Linear(inner, size, bias=False)

    def forward(self, x):
        gate, up = self.gate_up_proj(x).chunk(2, -1)
        return self.down_proj(F.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        size, eps = config["hidden_size"], config["rms_norm_eps"]
        self.input_layernorm, self.post_attention_layernorm = Norm(size, eps), Norm(size, eps)
        self.self_attn, self.mlp = Attention(config), Mlp(config)

    def forward(self, x, batch, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), batch, cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        size, self.width = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
        self.embed_tokens = nn.Embedding(config["vocab_size"], size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = Norm(size, config["rms_norm_eps"])
        self.lm_head = nn.Linear(size, config["vocab_size"], bias=False)

    def forward(self, batch):
        """Logits of each request's next token."""
        angles = batch.positions[:, None] * 10000.0 ** (-torch.arange(0, self.width, 2) / self.width)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        x = self.embed_tokens(batch.tokens)
        for layer in self.layers:
            x = layer(x, batch, cos, sin)
        return self.lm_head(self.norm(x[batch.last]))

    def take_weights(self, weights):
        """From the names of transformers to ours: q, k and v in one, gate and up in one."""
        fused = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
        for name, parameter in self.named_parameters():
            source = name if name.startswith("lm_head") else f"model.{name}"
            inner = name.split(".")[-2]
            parts = [weights[source.replace(inner, part)] for part in fused.get(inner, (inner,))]
            if options.plant == "weights" and name == "layers.1.mlp.gate_up_proj.weight":
                parts[1] = parts[1] * 0.9  # as it was before the trainer's last step
            parameter.copy_(torch.cat(parts))


def serve(model):
    """The requests, each as soon as a slot is free."""
    waiting = collections.deque(Request(name, *request) for name, request in REQUESTS.items())
    served, working, free = list(waiting), [], list(range(SLOTS))
    while waiting or working:
        while waiting and free:
            working.append(waiting.popleft())
            working[-1].slot = free.pop(0)
        batch = Batch(working)
        logprobs = model(batch).log_softmax(-1)
        for request, row in zip(working, logprobs.tolist(), strict=True):
            request.done = len(request.tokens)
            request.tokens.append(max(range(len(row)), key=row.__getitem__))
            request.logprobs.append(row[request.tokens[-1]])
        free += [request.slot for request in working if len(request.tokens) == request.most]
        working = [request for request in working if len(request.tokens) < request.most]
    return served


folder = pathlib.Path(options.weights)
with torch.no_grad():
    engine = Model(json.loads((folder / "config.json").read_text()))
    engine.take_weights(load_file(folder / "model.safetensors"))
    answers = {r.name: {"prompt": r.prompt, "tokens": r.tokens, "logprobs": r.logprobs} for r in serve(engine)}
pathlib.Path(options.rollout).write_text(json.dumps(answers))
print(f"{len(answers)} requests, {sum(len(answer['logprobs']) for answer in answers.values())} tokens")
