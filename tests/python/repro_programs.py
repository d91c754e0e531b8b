"""Programs for the tests of repro and replay, and how they ask without the command."""

import json
import pathlib
import sys

FAULTS = """
    import torch
    from torch import nn

    torch.manual_seed(7)
    torch.set_num_threads(1)


    class Faulty(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 6)

        def forward(self, x):
            y = self.fc(x)
            wide = torch.cat([y, y * 2], dim=-1)
            zeros = torch.softmax(wide, 1).to(torch.bfloat16) - 1
            ratio = zeros / 0.0
            small = y.to(torch.float8_e4m3fn).float()
            hidden = small.masked_fill(small > 0, float("-inf"))
            picked = y[:, None, [0, 2]]
            counted = torch.tensor(3) * 2.5 + torch.arange(4)
            y.mul_(2.0)
            other = torch.addmm(y, y, y, beta=0.5, alpha=2).clamp(min=0.0, max=2)
            spread = torch.nn.functional.dropout(y, 0.5)
            return ratio.float().sum() + hidden.sum() + picked.sum() + counted.sum() + other.sum() + spread.sum()


    network = Faulty()
    with torch.no_grad():
        for step in range(2):
            network(torch.randn(6, 6))
            try:
                torch.linalg.inv(torch.zeros(2, 2))
            except RuntimeError:
                pass
"""

MODELS = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)


    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.conv, self.norm = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6)
            self.fc = nn.Linear(6, 4)

        def forward(self, x):
            x = self.stem(x)
            x = torch.relu(self.norm(self.conv(x)) + x)
            return self.fc(nn.functional.max_pool2d(x, 2).mean((2, 3)))


    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.lstm, self.fc = nn.Embedding(9, 8), nn.LSTM(8, 12, batch_first=True), nn.Linear(12, 4)

        def forward(self, x):
            return self.fc(self.lstm(self.words(x))[0][:, -1])


    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(9, 8)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True)
            self.fc = nn.Linear(8, 4)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.fc(self.layer(self.words(x)).mean(1)).float()


    images, words = torch.randn(4, 3, 10, 10), torch.randint(0, 9, (4, 7))
    for network, data in ((Residual(), images), (Recurrent(), words), (Attention(), words)):
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
        nn.functional.cross_entropy(network(data), torch.tensor([0, 1, 2, 3])).backward()
        optimizer.step()
"""

# A kernel of the user's that is wrong for one element of float32, and for none of float64.
WRONG_KERNEL = """
    import torch

    library = torch.library.Library("aten", "IMPL")


    def relu(x):
        result = x.clamp(min=0)
        if x.dtype == torch.float32:
            result.view(-1)[5] *= 1.01
        return result


    library.impl("relu", relu, "CPU", allow_override=True)
"""

RELU = """
    torch.manual_seed(0)
    x = torch.rand(4, 4)
    with torch.no_grad():
        torch.relu(x * 3) @ x
"""


# The form that the package `safetensors` reads, for programs of repro where it is not installed.
STAND_IN = """
    import json
    import math

    import torch

    TYPES = {
        "BOOL": torch.bool, "I64": torch.int64, "F32": torch.float32, "F64": torch.float64, "BF16": torch.bfloat16,
        "F8_E4M3": torch.float8_e4m3fn,
    }


    def load_file(path):
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        tensors = {}
        for name, entry in json.loads(content[8 : 8 + length]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            raw = torch.frombuffer(bytearray(content[begin:end]), dtype=torch.uint8)
            tensors[name] = raw.view(TYPES[entry["dtype"]]).reshape(entry["shape"])
        return tensors
"""


def entries_of(path):
    """{name: (type, shape)} of a file of safetensors."""
    content = pathlib.Path(path).read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return {name: (entry["dtype"], entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def asker(verb, script, execute):
    """ask(dump, op, ...): the program of the verb in an interpreter; `before`: code that runs in it first."""

    def ask(dump, op="", before="", **others):
        text = f"import os, sys\n\nimport torch\n\nfrom sonde.{verb} import main\n\nstatus = main(sys.argv[1])\n"
        text += "sys.stdout.flush()\nos._exit(status)\n"  # the end of an interpreter with PyTorch takes a second
        path = script(f"{before}\n{text}", f"{verb}_program.py")
        request = {"dump": str(dump), "op": op, "json": True} | others
        return execute(sys.executable, path, json.dumps(request))

    return ask
