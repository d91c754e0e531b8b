"""One table of a run of scripts/benchmark: ratios beside the limits that were measured in the same run.

.venv/bin/python benchmarks/summary.py build/benchmarks/DATE
"""

import argparse
import json
import pathlib

KERNELS = ("float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "int8")


def load(directory, name):
    path = directory / f"{name}.json"
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path}: cannot be read as JSON: {error}") from error


def limits(found):
    return ["limits, GB/s"] + [f"  {name:34} {speed / 1e9:8.1f}" for name, speed in found.items()]


def steps(directory):
    lines = ["training steps, dumped / undumped: ratio of medians (of minima)"]
    for path in sorted(directory.glob("steps-*.json")):
        for model, results in load(directory, path.stem).items():
            for mode, one in results.items():
                name = f"{path.stem.removeprefix('steps-')}: {model}: {mode}"
                lines.append(f"  {name:50} {one['ratio']:6.3f} ({one['ratio_of_minima']:.3f})")
    return lines


def kernels(found, limit):
    speeds = {one["name"]: one["bytes_per_second"] for one in found["benchmarks"] if "bytes_per_second" in one}
    lines = [
        f"statistics kernels ({found['context'].get('kernel', '?')}), GB/s, and share of plain reading from memory"
    ]
    for name in KERNELS:
        cache, memory = (speeds.get(f"summarize/{name}/{place}", 0) for place in ("cache", "memory"))
        share = f"{memory / limit:.0%}" if limit else "?"
        lines.append(f"  {name:34} {cache / 1e9:8.1f} {memory / 1e9:8.1f} {share:>6}")
    return lines


def peers(found):
    lines = ["beside msprobe: ratio of medians"]
    for model, modes in found.items():
        if model == "write_mb_per_s":
            continue
        for mode, one in modes.items():
            ratios = sorted(one["ratio"])
            lines.append(f"  {model + ': ' + mode:50} {ratios[len(ratios) // 2]:6.2f}")
    return lines


def summary(directory):
    lines = []
    speeds = load(directory, "limits")
    if speeds is not None:
        lines += limits(speeds)
    lines += steps(directory)
    found = load(directory, "kernels")
    if found is not None:
        lines += kernels(found, (speeds or {}).get("read, 512 MB"))
    found = load(directory, "peers")
    if found is not None:
        lines += peers(found)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path, help="the results of one run")
    options = parser.parse_args()
    if not options.directory.is_dir():
        parser.error(f"{options.directory} is not a directory with results of scripts/benchmark")
    print(summary(options.directory))


if __name__ == "__main__":
    main()
