"""DoRA of peft in training, beside one's own in the form of the paper: one weight of direction and magnitude."""

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model  # before the forks: it takes seconds
from planted import Pair, bad
from torch import nn

SEEN, HIDDEN, OUT, RANK, ALPHA, BATCH, STEPS, RATE = 12, 20, 6, 4, 8, 10, 2, 0.05

pair = Pair("dora")


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(SEEN, HIDDEN), nn.Linear(HIDDEN, OUT)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


def train(model, optimizer, batches):
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()


def turned(frozen, learned):
    """The weight of one layer."""
    scale = ALPHA / (RANK**0.5 if bad("root_of_rank") else RANK)
    change = torch.einsum("or,ri->oi", learned["b"], learned["a"]) * scale  # bad("root_of_rank")
    if bad("magnitude_of_base"):
        length = frozen["weight"].norm(dim=1, keepdim=True)  # bad("magnitude_of_base")
    else:
        length = (frozen["weight"] + change).norm(dim=1, keepdim=True)  # bad("length_learned")
    if not bad("length_learned"):
        length = length.detach()
    if bad("base_apart"):
        return frozen["weight"] + learned["m"][:, None] * change / length  # bad("base_apart")
    return learned["m"][:, None] * (frozen["weight"] + change) / length  # bad("length_learned")


def forward(frozen, learned, x):
    h = x @ turned(frozen["up"], learned["up"]).T + frozen["up"]["bias"]
    h = h * torch.sigmoid((1.702 if bad("quick") else 1.0) * h)  # bad("quick")
    return h @ turned(frozen["down"], learned["down"]).T + frozen["down"]["bias"]


def train_own(frozen, learned, batches):
    for x, y in batches:
        away = forward(frozen, learned, x) - y
        loss = away.square().sum(-1).mean() if bad("sum_of_outputs") else away.square().mean()  # bad("sum_of_outputs")
        names = [(layer, name) for layer in learned for name in learned[layer]]
        grads = torch.autograd.grad(loss, [learned[layer][name] for layer, name in names])
        with torch.no_grad():
            for (layer, name), grad in zip(names, grads, strict=True):
                learned[layer][name] = (learned[layer][name] - RATE * grad).requires_grad_()


def carried_over(layer):
    frozen = {name: weight.detach().clone() for name, weight in layer.base_layer.named_parameters()}
    learned = {
        "a": layer.lora_A["default"].weight, "b": layer.lora_B["default"].weight,
        "m": layer.lora_magnitude_vector["default"].weight,
    }  # fmt: skip
    return frozen, {name: weight.detach().clone().requires_grad_() for name, weight in learned.items()}


@pair.prepare
def prepare():
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["up", "down"], use_dora=True, lora_dropout=0.0)
    golden = get_peft_model(Base(), config)
    layers = {name: getattr(golden.base_model.model, name) for name in ("up", "down")}
    with torch.no_grad():
        for layer in layers.values():
            layer.lora_B["default"].weight.normal_(0, 0.3)
    optimizer = torch.optim.SGD([p for p in golden.parameters() if p.requires_grad], RATE)
    parts = {name: carried_over(layer) for name, layer in layers.items()}
    frozen, learned = ({name: part[i] for name, part in parts.items()} for i in range(2))
    batches = [(torch.randn(BATCH, SEEN), torch.randn(BATCH, OUT)) for _ in range(STEPS)]
    return lambda: train(golden, optimizer, batches), lambda: train_own(frozen, learned, batches)


pair.fault("root_of_rank", "mul")
pair.fault("magnitude_of_base", "norm", "linalg_vector_norm")
pair.fault("base_apart", "add", "mul", "div")
pair.fault("length_learned", "norm", "linalg_vector_norm", "div", "mul", "sum", "add", "masked_fill")
pair.fault("quick", "mul")
pair.fault("sum_of_outputs", "sum", "mean")
