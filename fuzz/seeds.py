"""Seeds for the programs of fuzz/: files of real dumps, a few of each kind, made by a small training.

python fuzz/seeds.py DIR     writes DIR/journal/, DIR/npy/, …
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = """
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
layers = torch.nn.Conv2d(1, 2, 2), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(8, 2)
network = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    network(torch.randn(2, 1, 3, 3)).log().sum().backward()
    optimizer.step()
torch.save({"a": torch.arange(6.0).reshape(2, 3).T, "b": [torch.tensor(1, dtype=torch.bfloat16)]}, "saved.pt")
torch.save(torch.arange(4), "old.pt", _use_new_zipfile_serialization=False)
"""
LAYOUTS = ("mindspore-2.7", "mindspore-1.2-async", "mindspore-2.0", "acl")
MOST_BYTES = 64 << 10  # a longer seed slows the search down
MOST_FILES = 12  # of one kind
MSPROBE = {
    "dump.json": """{"task": "tensor", "level": "mix", "data": {"Functional.conv2d.0.forward": {
        "input_args": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "Max": NaN, "Min": -Infinity,
                        "Mean": "nan", "Norm": 1e400, "data_name": "a.pt", "md5": "0a"}, [{"type": "int", "value": 1}]],
        "input_kwargs": {}, "output": []}}}""",
    "stack.json": '{"0": [["a", "b"], ["File a.py, line 3, in f, \\n x = 1"]]}',
    "construct.json": '{"a": null, "b": "c", "d": ["e", 1]}',
}

REQUESTS = (
    '{"kind": "compare", "arguments": {"steps": "1-3", "graph": 0, "rtol": 1e-3, "csv": true, "mapping": "a,b"}}',
    '{"kind": "watch", "arguments": {"dump": 1, "conditions": ["a"], "select": [], "recommended": false}}',
    "/api/v1/tensors?filter=phase%3Abackward+l2norm%3E%3D1e3+op%3Aconv.*&sort=-l2norm&limit=3",
    "/api/v1/tensor/values?slice=%5B-1%2C%3A%2C1%3A4%3A2%5D&name=Default%2Fnet",
    '/api/v1/ops?filter="two words"+class:nan+side:input+dtype:float16+parameter:conv.*+**/conv*',
)


def kind_of(path):
    """The program that reads it."""
    if path.name == "journal":
        return "journal"
    if path.suffix in (".ir", ".pb") or "execution_order" in path.name:
        return "graph"
    if path.name[-16:].isdigit():
        return "container"
    return {".npy": "npy", ".csv": "tables", ".pt": "torch"}.get(path.suffix)


def record(directory, layout):
    config = {
        "common_dump_settings": {
            "dump_mode": 0, "path": str(directory / "dump"), "net_name": "Net", "iteration": "all",
            "saved_data": "full", "input_output": 0, "kernels": [], "support_device": [0],
        },
        "e2e_dump_settings": {"enable": True, "trans_flag": True, "file_format": "npy"},
        "sonde_settings": {"layout": layout},
    }  # fmt: skip
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "train.py").write_text(PROGRAM)
    command = [sys.executable, "-c", f"import sonde; sonde.start({str(directory / 'config.json')!r})\n{PROGRAM}"]
    subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)


def main():
    target = pathlib.Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    counts = {}
    with tempfile.TemporaryDirectory(prefix="seeds-") as scratch:
        for layout in LAYOUTS:
            directory = pathlib.Path(scratch) / layout.replace(".", "_")
            directory.mkdir()
            record(directory, layout)
            (directory / "config.json").rename(directory / "plan")
        files = [path for path in sorted(pathlib.Path(scratch).rglob("*")) if path.is_file()]
        for path in files:
            kind = "plan" if path.name == "plan" else kind_of(path)
            if kind is None or path.stat().st_size > MOST_BYTES or counts.get(kind, 0) >= MOST_FILES:
                continue
            counts[kind] = counts.get(kind, 0) + 1
            (target / kind).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / kind / f"{counts[kind]}-{path.name[-100:]}")
    (target / "msprobe").mkdir(parents=True, exist_ok=True)
    for name, text in MSPROBE.items():
        (target / "msprobe" / name).write_text(text)
    (target / "request").mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(REQUESTS):
        (target / "request" / str(number)).write_text(text)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
