"""Time of `sonde msaccucmp convert` over 200 files of 1 MB, the page cache warm; beside the original where it is given.

Half of the files hold float32 in ND, half float16 in NC1HWC0.

    python benchmarks/convert.py                                   # the sonde on the path
    python benchmarks/convert.py --reference "python /opt/msaccucmp/msaccucmp.py"
    python benchmarks/convert.py --formats                          # one large tensor from and to each format instead
"""

import argparse
import os
import resource
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

FILES = 200
REPEATS = 7
FORMATS = {"NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "HWCN": 16, "FRACTAL_NZ": 29}


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def container(array, cann_format, original=()):
    """A dump with one output."""
    types = {"float32": 1, "float16": 2}
    shape = field(1, b"".join(varint(size) for size in array.shape))
    tensor = field(1, types[str(array.dtype)]) + field(2, cann_format) + field(3, shape) + field(6, array.nbytes)
    if original:
        tensor += field(7, field(1, b"".join(varint(size) for size in original)))
    message = field(1, b"2.0") + field(3, tensor) + field(6, b"net/op")
    return struct.pack("<Q", len(message)) + message + array.tobytes()


def write_files(directory):
    random = np.random.default_rng(0)
    plain = random.standard_normal((512, 512), dtype=np.float32)
    blocked = random.standard_normal((1, 8, 64, 64, 16), dtype=np.float32).astype(np.float16)
    for i in range(FILES):
        array, cann_format, original = (plain, FORMATS["ND"], ()) if i % 2 else (blocked, 3, (1, 128, 64, 64))
        name = f"Op.op{i}.{i}.0.{1700000000000000 + i}"
        (directory / name).write_bytes(container(array, cann_format, original))
    return sum(path.stat().st_size for path in directory.iterdir())


def best_time(command, out):
    """Seconds of the fastest run, and the most memory of any child so far."""
    best = float("inf")
    for _ in range(REPEATS):
        shutil.rmtree(out, ignore_errors=True)
        begin = time.perf_counter()
        subprocess.run([*command, "-out", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        best = min(best, time.perf_counter() - begin)
    return best, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def copy_time(source, out):
    """The time to copy the files, with one process for each CPU."""
    best = float("inf")
    files = sorted(source.iterdir())
    cpus = len(os.sched_getaffinity(0))
    for _ in range(REPEATS):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        begin = time.perf_counter()
        parts = [subprocess.Popen(["cp", *map(str, files[i::cpus]), str(out)]) for i in range(cpus)]
        for part in parts:
            part.wait()
        best = min(best, time.perf_counter() - begin)
    return best


def many_files(programs, scratch):
    source = scratch / "dump"
    source.mkdir()
    megabytes = write_files(source) / 1e6
    print(f"{FILES} files, {megabytes:.0f} MB; cp of them takes {copy_time(source, scratch / 'copy'):.3f} s")
    print(f"{'program':10} {'options':10} {'seconds':>8} {'GB/s':>6} {'peak MB':>8}")
    for name, program in programs.items():
        for options in ([], ["-f", "NCHW"]):
            seconds, peak = best_time([*program, "convert", "-d", str(source), *options], scratch / "out")
            print(f"{name:10} {' '.join(options):10} {seconds:8.3f} {megabytes / 1e3 / seconds:6.2f} {peak:8.0f}")


def one_tensor(programs, scratch):
    """64 Mi elements of float16 from one format into another; zeros, since no program looks at the values."""
    shapes = {
        "NCHW": (16, 256, 128, 128), "NHWC": (16, 128, 128, 256), "HWCN": (128, 128, 256, 16),
        "NC1HWC0": (16, 16, 128, 128, 16), "ND": (8192, 8192), "FRACTAL_NZ": (512, 512, 16, 16),
    }  # fmt: skip
    pairs = [("NC1HWC0", "NCHW"), ("NC1HWC0", "NHWC"), ("NCHW", "NHWC"), ("NHWC", "NCHW"), ("NCHW", "NC1HWC0"),
             ("HWCN", "NCHW"), ("NCHW", "FRACTAL_Z"), ("FRACTAL_NZ", "ND"), ("ND", "FRACTAL_NZ")]  # fmt: skip
    print(f"{'program':10} {'from':12} {'to':12} {'seconds':>8} {'GB/s':>6}")
    for source, target in pairs:
        path = scratch / "Op.op.1.0.1700000000000000"
        array = np.zeros(shapes[source], np.float16)
        original = shapes["NCHW"] if source == "NC1HWC0" else shapes["ND"] if source == "FRACTAL_NZ" else ()
        path.write_bytes(container(array, FORMATS[source], original))
        for name, program in programs.items():
            seconds, _ = best_time([*program, "convert", "-d", str(path), "-f", target], scratch / "out")
            print(f"{name:10} {source:12} {target:12} {seconds:8.3f} {array.nbytes / 1e9 / seconds:6.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sonde", default="sonde")
    parser.add_argument("--reference", help="command of the original msaccucmp.py")
    parser.add_argument("--formats", action="store_true")
    parser.add_argument("--scratch", help="where the files go (default: TMPDIR)")
    options = parser.parse_args()
    programs = {"sonde": [options.sonde, "msaccucmp"]}
    if options.reference:
        programs["reference"] = shlex.split(options.reference)
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        (one_tensor if options.formats else many_files)(programs, Path(scratch))


if __name__ == "__main__":
    sys.exit(main())
