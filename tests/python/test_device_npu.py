"""A device named npu, as torch_npu's is: CANN's, MindSpore's and TorchAir's configurations, and `--npu-stand-in`.

The test device has the name. The same training on the CPU, with the same configurations, is the reference: directories
and files have the same names, up to times, and the same values.
"""

import json
import re
import sys

import container_reader
import numpy as np
import pytest
from conftest import CLI
from device_programs import on_device
from processes import python, run_in

TRAINING = """
import pathlib
import sonde
from sonde import torchair

device = DEVICE
if device == "npu":
    torch.npu.set_device(1)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(144, 3)

    def forward(self, x):
        return self.fc(torch.relu(self.norm(self.conv(x))).flatten(1))


def train():
    torch.manual_seed(0)
    net = Small().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=True)
    for _ in range(2):
        loss = net(torch.randn(2, 1, 8, 8).to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


show("bare", train(), "")
for name, settings in json.loads(pathlib.Path("modes.json").read_text()).items():
    sonde.start(settings)
    result = train()
    show(name, result, sonde.stop())

if device == "cpu":
    sys.exit()
torch.manual_seed(0)
net, batch = Small().to(device), torch.ones(2, 1, 8, 8).to(device)
expected = net(batch).cpu()
config = torchair.CompilerConfig()
config.debug.graph_dump.type = "py"
config.dump_config.enable_dump = True
config.dump_config.dump_path = "air"
compiled = torch.compile(net, backend=torchair.get_npu_backend(compiler_config=config))
assert torch.equal(compiled(batch).cpu(), expected)
show("torchair", expected.tolist(), sonde.stop())
"""


def mindspore(iteration="0", devices=(1,), **sonde_settings):
    common = {"dump_mode": 0, "path": "DUMP", "net_name": "Net", "iteration": iteration, "saved_data": "full",
              "input_output": 0, "kernels": [], "support_device": list(devices)}  # fmt: skip
    e2e = {"enable": True, "trans_flag": True}
    both = {"common_dump_settings": common, "e2e_dump_settings": e2e}
    return {**both, "sonde_settings": sonde_settings} if sonde_settings else both


def acl(**more):
    return {"dump": {"dump_path": "DUMP", "dump_mode": "all", "dump_op_switch": "on", "dump_step": "0", **more}}


MODES = {
    "mindspore": mindspore(),
    "mindspore_12": mindspore("1", layout="mindspore-1.2"),  # its steps count from 1
    "mindspore_12_async": mindspore("1", layout="mindspore-1.2-async"),
    "another_device": mindspore(devices=[0]),
    "acl": acl(dump_list=[{"model_name": "Small"}]),
    "acl_statistics": acl(dump_data="stats"),
}
ND = 2  # the format's number in a container
# A directory of each dump.
PLACES = {
    "mindspore": "rank_1/Net/0/0",
    "mindspore_12": "Net/device_1/iteration_1",
    "mindspore_12_async": "device_1/Net_graph_0/0/1",
    "acl": "<time>/1/Small/0/0",
    "acl_statistics": "<time>/1",
}


@pytest.fixture(scope="module")
def runs(once_per_run):
    """runs[device]: ({mode: (result, closing line)}, {mode: {name in the dump: file}}, the process's lines)."""
    found = {}
    for device in "cpu", "npu":

        def make(directory, device=device):
            modes = {}
            for name, settings in MODES.items():
                (directory / name).mkdir()
                modes[name] = json.loads(json.dumps(settings).replace("DUMP", str(directory / name)))
            (directory / "air").mkdir()
            (directory / "modes.json").write_text(json.dumps(modes))
            (directory / "train.py").write_text(on_device(TRAINING.replace("DEVICE", repr(device)), "main_last"))
            two_ranks = {"RANK": 1, "LOCAL_RANK": 1, "WORLD_SIZE": 2}
            run = run_in(directory, None, sys.executable, "train.py", TESTDEV_NAME="npu", **two_ranks)
            assert run.status == 0, run.stderr
            (directory / "out").write_text(run.stdout)
            (directory / "err").write_text(run.stderr)

        place = once_per_run(f"device-npu-{device}", make)
        lines = [json.loads(line) for line in (place / "out").read_text().splitlines()]
        files = {name: files_of(place / name) for name in MODES} | {"torchair": files_of(place / "air")}
        graphs = "".join(path.read_text() for path in sorted(place.glob("dynamo_original_*.py")))
        found[device] = (
            {name: (result, closing) for name, result, closing in lines},
            files,
            (place / "err").read_text(),
            graphs,
        )
    return found


def files_of(dump):
    """{path in the dump, without times: file}. Without what describes the run."""
    found = {}
    for path in dump.rglob("*"):
        name = str(path.relative_to(dump))
        if path.is_file() and not {".dump_metadata", "sources"} & set(path.parts):
            found[re.sub(r"\b\d{16}\b", "<us>", re.sub(r"\b2\d{13}\b", "<time>", name))] = path
    return found


def test_the_results_are_the_cpus_with_and_without_sonde(runs):
    for device in runs:
        results = {name: result for name, (result, _) in runs[device][0].items()}
        results.pop("torchair", None)
        assert len(results) == 1 + len(MODES)
        assert set(results.values()) == {runs["cpu"][0]["bare"][0]}


@pytest.mark.parametrize("mode", PLACES)
def test_directories_and_files_have_the_names_of_the_cpus_dump(mode, runs):
    expected, found = (runs[device][1][mode] for device in runs)
    assert sorted(found) == sorted(expected)
    assert sum(name.startswith(PLACES[mode] + "/") for name in found) > 10
    assert "skipped" not in runs["npu"][0][mode][1]


@pytest.mark.parametrize("mode", [mode for mode in PLACES if mode != "acl_statistics"])
def test_tensors_have_the_formats_and_values_of_the_cpus_dump(mode, runs):
    expected, found = (runs[device][1][mode] for device in runs)
    compared = 0
    for name, path in expected.items():
        if name.endswith((".npy", ".bin")):
            assert found[name].read_bytes() == path.read_bytes(), name
        elif re.search(r"\.<us>$", name):
            assert described(found[name]) == described(path), name
        else:
            continue
        compared += 1
    assert compared > 10


def described(path):
    """Format numbers, shapes and bytes of a container."""
    content = container_reader.read(path)
    return [
        {**tensor, "array": None if tensor["array"] is None else np.asarray(tensor["array"]).tobytes()}
        for tensor in (*content["inputs"], *content["outputs"])
    ]


def test_tables_have_the_formats_and_values_of_the_cpus(runs):
    expected, found = (runs[device][1]["acl_statistics"] for device in runs)
    formats = set()
    for name in expected:
        rows, others = (
            [line.split(",") for line in path.read_text().splitlines()] for path in (expected[name], found[name])
        )
        average = rows[0].index("Avg Value")
        formats |= {row[rows[0].index("Format")] for row in others[1:]}
        assert [row[:average] + row[average + 1 :] for row in others] == [
            row[:average] + row[average + 1 :] for row in rows
        ], name
    assert formats == {"NCHW", "ND"}


def test_support_device_is_the_local_rank(runs):
    for device in runs:
        assert runs[device][0]["another_device"][1] == (
            "sonde: nothing was recorded: device 1 is not in support_device [0]"
        )
        assert runs[device][1]["another_device"] == {}


def test_a_graph_of_torchair_runs_node_by_node_and_names_the_device(runs):
    results, files, lines, graphs = runs["npu"]
    assert "sonde: torchair: Inductor has no code for npu: the graph runs node by node, without Inductor" in lines
    assert 'placement="NPU"' in graphs
    assert "torch.float32[2, 3]npu:1 = torch.ops.aten.addmm" in graphs
    place = "worldsize2_global_rank1/<time>/1/graph_1/1/0"
    (path,) = (file for name, file in files["torchair"].items() if name.startswith(f"{place}/addmm."))
    (output,) = container_reader.read(path)["outputs"]
    assert (output["format"], output["array"].tolist()) == (ND, results["torchair"][0])


STEPS_BACK = """
import torch
print(torch.ones(2).npu().device, torch.ones(2, device="npu:0").device)
os.environ["TESTDEV_NAME"] = "npu"
import testdev
print(torch.ones(2).npu().device, torch.ones(2, device="npu:1").device, torch.npu is testdev)
torch.save(torch.ones(2).npu(), "saved.pt")
print(torch.load("saved.pt").device, torch.load("saved.pt", map_location="npu:1").device)
try:
    import torch_npu
except ImportError as error:
    print(error)
"""


def test_the_stand_in_steps_back_for_a_backend_named_npu(script, execute):
    begin = on_device("").replace("import testdev\n", "").replace("testdev.schedule('last')\n", "")
    ran = execute(CLI, "run", "--npu-stand-in", "--", *python(), script(begin + STEPS_BACK))
    assert ran.status == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "cpu cpu",
        "npu:0 npu:1 True",
        "npu:0 npu:1",
        "No module named 'torch_npu'",
    ]
    assert ran.stderr.splitlines() == [
        "sonde: --npu-stand-in: .npu() gives the tensor or module itself, on the CPU",
        'sonde: --npu-stand-in: the device "npu" is the CPU',
        'sonde: --npu-stand-in: PyTorch has a backend "npu", which is used',
    ]
