"""The tables of scripts/gpu, on the terminal; with --write in docs/devices.md too, between its markers.

    .venv/bin/python benchmarks/device_tables.py build/gpu [--write]

The directory has kernel.json of device_kernel.py and steps.json of device_cost.py. A file that is missing has no table,
and --write keeps the document's.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/faults"))
from document import replace, table

DOCUMENT = pathlib.Path(__file__).resolve().parents[1] / "docs/devices.md"
SIZE = "256 MiB"
TYPES = ("float32", "bfloat16", "float16", "float8_e4m3fn", "float64", "int64")


def machine():
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    return f"{torch.cuda.get_device_name()}, driver {driver}, PyTorch {torch.__version__}"


def of_kernel(found):
    rows = []
    for dtype in TYPES:
        row = found[f"torch.{dtype} {SIZE}"]
        small = found[f"torch.{dtype} 4 KiB"]["kernel us"]
        total = [f"{row['sum GB/s']:,.0f} GB/s", f"{row['of sum %']:.0f} %"] if "sum us" in row else ["", ""]
        rows.append([dtype, f"{small:.0f} µs", f"{row['kernel GB/s']:,.0f} GB/s", *total])
    return table(["type", "4 KiB", f"the kernel, {SIZE}", "`torch.sum`", "share"], rows)


def of_steps(found):
    rows = []
    for model, modes in found.items():
        for mode, row in modes.items():
            time = f"{row['ms']:.1f} ms" if mode == "off" else f"×{row['ratio']:.2f}"
            own = f"{row['own_kernels']:.0f}, {row['own_kernels_ms']:.1f} ms"
            rows.append([model, mode, time, f"{row['launches']:.0f}", own, f"{row['rows']:.0f}"])
    return table(["model", "mode", "step", "launches", "of Sonde's kernel", "rows"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/devices.md")
    options = parser.parse_args()
    parts = {"kernel": (of_kernel, "device_kernel.py"), "steps": (of_steps, "device_cost.py --device cuda")}
    for name, (make, program) in parts.items():
        file = options.results / f"{name}.json"
        if not file.exists():
            print(f"no {file}: no table of it")
            continue
        content = f"`{program}` on an {machine()}:\n\n{make(json.loads(file.read_text()))}"
        print(f"\n{content}")
        if options.write:
            replace(DOCUMENT, f"scripts/gpu --write, {name}", content)


if __name__ == "__main__":
    main()
