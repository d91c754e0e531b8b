"""The cost of relating two implementations: an attention with a mask, written in two ways, beside reading both dumps.

    python benchmarks/relations.py [--tokens 720] [--directory DIR]

Both sides have 8 heads and 4 sequences, so a dump of 720 tokens has about 0.5 GB. They are read from the page cache, in
turns with the comparison; the best of five.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from compare import compare, read_both, sonde, spent

PROGRAM = """
import sys
import torch
import torch.nn.functional as F
from torch import nn

tokens, is_golden = int(sys.argv[1]), sys.argv[2] == "golden"
torch.manual_seed(0)
WIDTH, HEADS, ROWS = 64, 8, 4


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, mask):
        layers = self.query, self.key, self.value
        q, k, v = (layer(x).view(ROWS, tokens, HEADS, -1).transpose(1, 2) for layer in layers)
        scores = q @ k.transpose(-1, -2) / 8**0.5
        y = F.softmax(scores + mask, -1) @ v
        return self.out(y.transpose(1, 2).reshape(ROWS, tokens, WIDTH))


class Port(nn.Module):
    def __init__(self, golden):
        super().__init__()
        layers = golden.query, golden.key, golden.value
        self.qkv = nn.Parameter(torch.cat([layer.weight for layer in layers]).t().contiguous())
        self.bias = nn.Parameter(torch.cat([layer.bias for layer in layers]))
        self.last = nn.Parameter(golden.out.weight.t().contiguous())
        self.last_bias = nn.Parameter(golden.out.bias.clone())

    def forward(self, x, mask):
        q, k, v = (torch.addmm(self.bias, x.flatten(0, 1), self.qkv)).view(ROWS, tokens, 3, HEADS, -1).unbind(2)
        scores = torch.einsum("bqhd,bkhd->bhqk", q * 8**-0.5, k)
        hidden = scores.masked_fill(mask < 0, -1e9)
        y = torch.einsum("bhqk,bkhd->bqhd", hidden.softmax(-1), v)
        return torch.addmm(self.last_bias, y.flatten(2).flatten(0, 1), self.last)


golden = Golden()
mask = torch.full((tokens, tokens), -1e9).triu(1)
x = torch.randn(ROWS, tokens, WIDTH)
model = golden if is_golden else Port(golden)
with torch.no_grad():
    model(x, mask)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=720)
    parser.add_argument("--directory", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        program = pathlib.Path(directory, "program.py")
        program.write_text(PROGRAM)
        dumps = [program.with_name(kind) for kind in ("port", "golden")]
        for dump in dumps:
            command = [sonde(), "run", "--out", dump, "--saved-data", "tensor", "--", sys.executable, program]
            subprocess.run([*command, str(options.tokens), dump.name], check=True, capture_output=True)
        print(next(line for line in compare(*dumps).splitlines() if "implementations" in line))
        files = [file for dump in dumps for file in dump.rglob("*.npy") if not file.is_symlink()]
        gigabytes = sum(file.stat().st_size for file in files) / 1e9
        rounds = [(*spent(lambda: compare(*dumps)), *spent(lambda: read_both(files))) for _ in range(5)]
        seconds, cpu, reading, reading_cpu = map(min, zip(*rounds, strict=True))
        print(f"{gigabytes:.2f} GB in {len(files)} files: {seconds:.3f} s, processor time {cpu:.3f} s")
        print(f"reading both: {reading:.3f} s, processor time {reading_cpu:.3f} s; {cpu / reading_cpu:.1f} times of it")


if __name__ == "__main__":
    main()
