"""Small real dumps to damage, with every kind of file that Sonde reads."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

import cann_files
import mindspore_tree
from processes import settings_of

TRAINING = """
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    net(torch.randn(1, 1, 4, 4)).square().mean().log().backward()
    optimizer.step()
"""
LAYOUTS = {
    # name: (settings of Sonde, of all modes, of e2e)
    "journal": (None, {"saved_data": "full"}, None),
    "layout-1-2": ({"layout": "mindspore-1.2"}, {"saved_data": "tensor"}, None),
    "layout-2-5": ({"layout": "mindspore-2.5"}, {"saved_data": "full"}, None),
    "containers": ({"layout": "o2"}, {"saved_data": "tensor"}, None),
    "overflow": (None, {"saved_data": "tensor", "op_debug_mode": 3}, None),
}


def record(directory, name):
    own, common, e2e = LAYOUTS[name]
    config = directory / f"{name}.json"
    config.write_text(json.dumps(settings_of(directory / name, e2e, own, common)))
    program = directory / "train.py"
    program.write_text(TRAINING)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SONDE_", "MINDSPORE_"))}
    environment["MINDSPORE_DUMP_CONFIG"] = str(config)
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not (directory / name).exists():
        raise RuntimeError(f"cannot record '{name}': {done.stderr[-2000:]}")
    shutil.copy(config, directory / name / "config_of_the_run.json")


def foreign(directory):
    """Dumps of other writers: a tree of MindSpore, msprobe's JSON with .pt and .npy, containers of CANN with a
    mapping."""
    import torch

    mindspore_tree.write(directory / "mindspore")
    rank = directory / "msprobe/step0/rank0"
    (rank / "dump_tensor_data").mkdir(parents=True)
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 2], "Max": 1.0, "Min": 0.0, "Mean": 0.5,
              "Norm": 1.0, "md5": "0a1b2c3d"}  # fmt: skip
    data = {}
    for number, kind in enumerate(("pt", "npy", "pt")):
        record_name = f"Functional.relu.{number}.forward"
        outputs = [{**tensor, "data_name": f"{record_name}.output.0.{kind}"}]
        data[record_name] = {"input_args": [tensor], "input_kwargs": {}, "output": outputs}
        values = torch.ones(2, 2) * number
        path = rank / "dump_tensor_data" / outputs[0]["data_name"]
        torch.save(values, path) if kind == "pt" else np.save(path, values.numpy())
    text = {"task": "tensor", "level": "mix", "framework": "pytorch", "dump_data_dir": str(rank), "data": data}
    (rank / "dump.json").write_text(json.dumps(text, indent=1))
    (rank / "stack.json").write_text(
        json.dumps({name: ["File /x/train.py, line 3, in f, \n y = relu(x)"] for name in data})
    )
    (rank / "construct.json").write_text(json.dumps(dict.fromkeys(data, "Module.net.Net.forward.0")))
    cann = directory / "cann/20260101000000/0/net/1/0"
    cann.mkdir(parents=True)
    image = cann_files.Tensor(np.ones((1, 2, 3, 3), np.float32), cann_format=cann_files.NCHW)
    bias = np.ones(2, np.float32)
    (cann / "Conv2D.conv1.3.7.1700000000000000").write_bytes(cann_files.container([image, bias], [image], "net/conv1"))
    (cann / "12345678901234567890").write_bytes(cann_files.container([bias], [bias], "net/" + "long" * 60))
    (cann / "mapping.csv").write_text(f"12345678901234567890,Add.{'long' * 60}.4.7.1700000000000001\n")
    (cann / "Nano.nano.5.7.1700000000000002").write_bytes(cann_files.nano([(bias, (2,))], [(bias, (2,))]))
    torch.save({"a": torch.ones(2), "b": [torch.zeros(3)]}, cann / "several.pt")


def make(directory):
    """Writes all of them below `directory`, or uses those of an earlier call; {name: path}."""
    directory = pathlib.Path(directory)
    if not (directory / "complete").exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for name in LAYOUTS:
            record(directory, name)
        foreign(directory)
        (directory / "complete").touch()
    return {name: directory / name for name in (*LAYOUTS, "mindspore", "msprobe", "cann")}
