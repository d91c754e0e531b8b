"""The dumps that page.mjs measures, in DIRECTORY/million, DIRECTORY/graph and DIRECTORY/large; those that exist stay.

    python benchmarks/page_dumps.py DIRECTORY [--files 1000000] [--blocks 290]

million: that of many_files.py with names of a thousand files, and its saved index, made once. graph: three recorded
steps of a model of equal blocks, 10,000 operators each, statistics alone. large: one tensor of 100 MB.
"""

import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
GRAPH = """
import sys, torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x)))).tanh()

torch.set_num_threads(1)
net = nn.Sequential(*(Block() for _ in range(int(sys.argv[1]))))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(2, 8)).square().mean().backward()
    optimizer.step()
"""
LARGE = """
import torch
torch.randn(5000, 5000).exp()
"""


def record(dump, program, *arguments, saved_data):
    command = ["sonde", "run", "--out", dump, "--saved-data", saved_data, "--", sys.executable, "-c", program]
    subprocess.run([*map(str, command), *arguments], check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIRECTORY", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--blocks", type=int, default=290)
    options = parser.parse_args()
    place = options.directory
    if not (place / "million").exists():
        files = ["--make", "--links", "--files", str(options.files)]
        subprocess.run([sys.executable, HERE / "many_files.py", place / "million", *files], check=True)
        subprocess.run(["sonde", "index", place / "million"], check=True)
    if not (place / "graph").exists():
        record(place / "graph", GRAPH, str(options.blocks), saved_data="statistic")
    if not (place / "large").exists():
        record(place / "large", LARGE, saved_data="tensor")


if __name__ == "__main__":
    main()
