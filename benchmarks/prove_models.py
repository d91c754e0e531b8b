"""Shows that recording changes no bit of these trainings: each is run by `sonde run --prove`; prints a Markdown table.

    .venv/bin/python benchmarks/prove_models.py [--modes statistics,tensors] [--json FILE] [PROGRAM ...]

A program is a function of this file; `python benchmarks/prove_models.py --train NAME` runs it alone. Exit status 1 when
a verdict is not "identical".
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import models
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

MODES = {"statistics": "statistic", "tensors": "tensor"}
STEPS = 4


def resnet18():
    """ResNet-18 (width 32), SGD with momentum"""
    run(models.training("resnet18"))


def transformer():
    """Transformer d=256, 4 layers, dropout 0.1, fused AdamW"""
    run(models.training("transformer"))


def lstm():
    """two-layer LSTM with dropout, Adam, gradient clipping"""
    embedding, network, head = (
        nn.Embedding(100, 32),
        nn.LSTM(32, 64, 2, dropout=0.2, batch_first=True),
        nn.Linear(64, 100),
    )
    parameters = [*embedding.parameters(), *network.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    tokens = torch.randint(0, 100, (8, 20))

    def step():
        optimizer.zero_grad()
        output, _ = network(embedding(tokens[:, :-1]))
        loss = F.cross_entropy(head(output).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    run(step)


def gan():
    """GAN, two models and two Adam optimizers"""
    generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, 16))
    critic = nn.Sequential(nn.Linear(16, 64), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(64, 1))
    makes = torch.optim.Adam(generator.parameters(), lr=1e-3)
    judges = torch.optim.Adam(critic.parameters(), lr=1e-3)

    def step():
        real, fake = torch.randn(32, 16), generator(torch.randn(32, 8))
        judges.zero_grad()
        (F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()).backward()
        judges.step()
        makes.zero_grad()
        F.softplus(-critic(fake)).mean().backward()
        makes.step()

    run(step)


def autocast():
    """convolutions and linears under autocast bfloat16, gradient accumulation over 2 batches"""
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.GELU(), nn.Flatten(), nn.Linear(16 * 14 * 14, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        for _ in range(2):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(torch.randn(4, 3, 16, 16)).square().mean()
            loss.backward()
        optimizer.step()

    run(step)


def checkpointing():
    """activation checkpointing, reentrant and not, with dropout inside"""
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.2)) for _ in range(4))
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        x = torch.randn(16, 64, requires_grad=True)
        for i, block in enumerate(blocks):
            x = checkpoint(block, x, use_reentrant=i % 2 == 0)
        x.square().mean().backward()
        optimizer.step()

    run(step)


class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.randn(12) + i, i % 3


def dataloader():
    """DataLoader with 2 workers, shuffling and random augmentation; SGD with a schedule"""
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    loader = torch.utils.data.DataLoader(Noisy(), batch_size=16, shuffle=True, num_workers=2)
    for _ in range(2):
        for inputs, targets in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
        schedule.step()


def dropout():
    """dropout of all kinds, uniform and normal noise, weight norm, RMSprop"""
    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(32, 64)), nn.Dropout(0.5), nn.RReLU(), nn.AlphaDropout(0.2),
        nn.Linear(64, 1),
    )  # fmt: skip
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        (model(torch.rand(16, 32)) + torch.randn(16, 1)).square().mean().backward()
        optimizer.step()

    run(step)


def lbfgs():
    """L-BFGS with strong Wolfe line search"""
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    inputs = torch.randn(64, 4)
    targets = inputs.prod(1, keepdim=True)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    run(lambda: optimizer.step(closure))


def ddp():
    """DistributedDataParallel over gloo, 2 ranks, batch norm, AdamW"""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    inner = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))
    model = nn.parallel.DistributedDataParallel(inner)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()

    run(step)
    dist.destroy_process_group()


class VisionTransformer(nn.Module):
    def __init__(self, width=64, patches=16):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, 8)
        self.position = nn.Parameter(torch.randn(1, patches, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        patches = self.patch(images).flatten(2).transpose(1, 2)
        return self.head(self.encoder(patches + self.position).mean(1))


def vit_inference():
    """ViT-like model, inference_mode, no optimizer"""
    model = VisionTransformer().eval()
    with torch.inference_mode():
        run(lambda: model(torch.randn(4, 3, 32, 32)))
    return model


def two_threads():
    """ResNet-18 (width 32) with torch's two threads"""
    torch.set_num_threads(2)
    run(models.training("resnet18"), 2)


def double_backward():
    """gradient penalty: a gradient of a gradient"""
    model = nn.Sequential(nn.Linear(8, 32), nn.Softplus(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        x = torch.randn(16, 8, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (slope.norm(dim=1) - 1).square().mean().backward()
        optimizer.step()

    run(step)


PROGRAMS = [
    resnet18, transformer, lstm, gan, autocast, checkpointing, dataloader, dropout, lbfgs, ddp, vit_inference,
    two_threads, double_backward,
]  # fmt: skip
RANKS = {"ddp": 2}
kept = []


def run(step, steps=STEPS):
    for _ in range(steps):
        step()


def command_of(name):
    here = [os.path.abspath(__file__), "--train", name]
    if name in RANKS:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS[name])]
        return [sys.executable, *launcher, *here]
    return [sys.executable, *here]


def verdict_on(name, mode, directory):
    out = pathlib.Path(directory) / f"{name}-{mode}"
    prove = [os.path.join(sysconfig.get_path("scripts"), "sonde"), "run", "--prove", "--json"]
    options = ["--out", str(out), "--saved-data", MODES[mode], "--"]
    done = subprocess.run([*prove, *options, *command_of(name)], capture_output=True, text=True, check=False)
    shutil.rmtree(out, ignore_errors=True)
    if not done.stdout:
        sys.exit(f"{name}: {done.stderr}")
    return json.loads(done.stdout)


def row(program, mode, verdict):
    compared = verdict["compared"]
    result = verdict["verdict"].replace("_", " ")
    if compared["first_difference"]:
        first = compared["first_difference"]
        result += f": {first['place']}, {first['kind']} {first['name']}"
    failed = verdict["exit_status"]["without_sonde"]
    events = f"{compared['steps']} steps" if compared["steps"] else f"{compared['events'] - 1} forwards"
    return (
        f"| {program.__doc__} | {mode} | {events} | {compared['tensors']} | {result}"
        f"{f' (exit status {failed})' if failed else ''} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = {program.__name__: program for program in PROGRAMS}
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(names))
    parser.add_argument("--modes", default="statistics,tensors")
    parser.add_argument("--json", help="write the verdicts here too")
    parser.add_argument("--train", choices=names, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        kept.append(names[options.train]())  # what is alive at the end is compared there
        return
    for unknown in set(options.programs) - set(names):
        parser.error(f"unknown program '{unknown}'; there are {', '.join(names)}")
    for unknown in set(options.modes.split(",")) - set(MODES):
        parser.error(f"unknown mode '{unknown}'; there are {', '.join(MODES)}")
    verdicts = []
    print("| program | recorded | compared | tensors | verdict |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="sonde-prove-") as directory:
        for name in options.programs or names:
            for mode in options.modes.split(","):
                verdict = verdict_on(name, mode, directory)
                verdicts.append({"program": name, "mode": mode, **verdict})
                print(row(names[name], mode, verdict), flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(verdicts, indent=1))
    sys.exit(any(verdict["verdict"] != "identical" for verdict in verdicts))


if __name__ == "__main__":
    main()
