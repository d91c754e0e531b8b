"""The statistics kernel on a GPU, beside the memory's own speed and torch.sum; and what a launch costs the host.

    .venv/bin/python benchmarks/device_kernel.py [--json FILE]

A tensor is read from the memory of the device: the ones of a size take turns, so that no cache has them. GB/s are bytes
read; a copy moves twice as many. "host us" is the time of a call that does not wait.
"""

import argparse
import ctypes
import json
import pathlib
import re
import statistics
import tempfile
import time

import torch

import sonde

# sonde.h: enum sonde_dtype
TYPES = {
    torch.float32: 11,
    torch.bfloat16: 13,
    torch.float16: 10,
    torch.float8_e4m3fn: 14,
    torch.float64: 12,
    torch.int64: 5,
}
SIZES = {"4 KiB": 1 << 12, "1 MiB": 1 << 20, "16 MiB": 1 << 24, "256 MiB": 1 << 28, "2 GiB": 1 << 31}
AT_LEAST = 1 << 29  # bytes of the tensors that take turns
LONGS = ctypes.c_int64 * 2


class Tensor(ctypes.Structure):
    """struct sonde_tensor, up to what may be missing."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("dtype", ctypes.c_uint32),
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("ndim", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
    ]


class Queue(ctypes.Structure):
    """struct sonde_device_queue."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("runtime", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("device", ctypes.c_uint32),
    ]


def place_of(member):
    """The offset of a function in struct sonde_api, which has two numbers of 4 bytes and then pointers."""
    header = (pathlib.Path(sonde.__file__).parent / "include/sonde/sonde.h").read_text()
    (table,) = re.findall(
        r"\nstruct sonde_api \{(.*?)\n\};", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL), re.DOTALL
    )
    members = table.split(";")[2:]
    (number,) = [number for number, text in enumerate(members) if re.search(rf"\b{member}\b", text)]
    return 8 + number * ctypes.sizeof(ctypes.c_void_p)


def function_of_table():
    """device_statistics of struct sonde_api."""
    library = ctypes.CDLL(str(pathlib.Path(sonde.__file__).parent / "libsonde.so"))
    library.sonde_api.restype = ctypes.POINTER(ctypes.c_uint32)
    table = library.sonde_api(2)
    address = ctypes.c_void_p.from_address(ctypes.addressof(table.contents) + place_of("device_statistics")).value
    arguments = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    return ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(address)


class Kernel:
    """Enqueues the kernel for one tensor of two dimensions."""

    launch = None

    def __init__(self, tensor, records):
        Kernel.launch = Kernel.launch or function_of_table()
        self._lengths = LONGS(*tensor.shape), LONGS(*tensor.stride())
        self._tensor = Tensor(ctypes.sizeof(Tensor), TYPES[tensor.dtype], tensor.data_ptr(), *self._lengths, 2, 1)
        self._tensors = (ctypes.c_void_p * 1)(ctypes.addressof(self._tensor))
        stream = torch.cuda.current_stream().cuda_stream
        self._queue = Queue(ctypes.sizeof(Queue), 1, stream, torch.cuda.current_device())
        self._records = records.data_ptr()
        self._message = ctypes.create_string_buffer(500)
        self._more = ctypes.byref(self._queue), self._tensors, 1, self._records, self._message, 500

    def __call__(self):
        if Kernel.launch(*self._more) != 0:
            raise RuntimeError(self._message.value.decode())


def microseconds(functions, rounds):
    """The median time on the device of a call, of several that take turns."""
    for function in functions:
        function()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for function in functions:
            function()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / len(functions))
    return statistics.median(times)


def host_microseconds(function, calls=1000):
    """The time of the host for a call."""
    function()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(calls):
        function()
    spent = time.perf_counter() - begun
    torch.cuda.synchronize()
    return spent * 1e6 / calls


def of_size(dtype, size):
    """Tensors of normally distributed values that take turns."""
    count = 16 if size <= 1 << 20 else min(32, max(2, AT_LEAST // size))
    elements = size // dtype.itemsize
    if not dtype.is_floating_point:
        return [torch.randint(-1000, 1000, (16, elements // 16), dtype=dtype, device="cuda") for _ in range(count)]
    if dtype.itemsize == 8:
        return [torch.randn((16, elements // 16), dtype=dtype, device="cuda") for _ in range(count)]
    narrow = torch.float32 if dtype.itemsize == 4 else torch.bfloat16 if dtype == torch.bfloat16 else torch.float16
    return [torch.randn((16, elements // 16), dtype=narrow, device="cuda").to(dtype) for _ in range(count)]


def measure(dtype, size):
    """One row: the kernel, a copy on the device, torch.sum."""
    tensors = of_size(dtype, size)
    records = torch.empty(48 * (tensors[0].numel() // 8192 + 1), dtype=torch.uint8, device="cuda")
    other = torch.empty_like(tensors[0])
    rounds = 5 if size > 1 << 24 else 20
    row = {"kernel us": microseconds([Kernel(one, records) for one in tensors], rounds)}
    row["copy us"] = microseconds([lambda one=one: other.copy_(one) for one in tensors], rounds)
    if dtype != torch.float8_e4m3fn:
        row["sum us"] = microseconds([lambda one=one: torch.sum(one) for one in tensors], rounds)
    for name in list(row):
        row[name.replace("us", "GB/s")] = size / row[name] / 1e3
    if "sum us" in row:
        row["of sum %"] = 100 * row["sum us"] / row["kernel us"]
    return row


def of_operators():
    """Microseconds of the host for a small operator, in each mode."""
    tensors = [torch.ones(64, 64, device="cuda") for _ in range(200)]

    def step():
        for one in tensors:
            one.mul_(1.0)

    settings = {"dump_mode": 0, "net_name": "Net", "input_output": 0, "kernels": [], "support_device": [0]}
    modes = {
        "off": None,
        "idle": {"saved_data": "statistic", "iteration": "1000000"},
        "statistics": {"saved_data": "statistic", "iteration": "all"},
        "tensors": {"saved_data": "tensor", "iteration": "all"},
    }
    found = {}
    for mode, more in modes.items():
        with tempfile.TemporaryDirectory() as directory:
            if more is not None:
                common = settings | more | {"path": directory + "/dump"}
                sonde.start({"common_dump_settings": common, "e2e_dump_settings": {"enable": True, "trans_flag": True}})
            times = []
            for _ in range(8):
                torch.cuda.synchronize()
                begun = time.perf_counter()
                step()
                issued = time.perf_counter()
                torch.cuda.synchronize()
                times.append((issued - begun, time.perf_counter() - begun))
                if more is not None:
                    sonde.step()
            if more is not None:
                sonde.stop()
        host, both = (statistics.median(column) * 1e6 / len(tensors) for column in zip(*times[3:], strict=True))
        found[mode] = {"host us": host, "us": both}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print(f"not run here: PyTorch {torch.__version__} finds no CUDA GPU")
        return
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    found = {}
    begun = time.perf_counter()
    Kernel(torch.ones(16, 16, device="cuda"), torch.empty(48, dtype=torch.uint8, device="cuda"))()
    torch.cuda.synchronize()
    found["first launch s"] = time.perf_counter() - begun
    print(f"the first launch, with the compilation: {found['first launch s']:.2f} s")
    for dtype in TYPES:
        for name, size in SIZES.items():
            row = measure(dtype, size)
            found[f"{dtype} {name}"] = row
            print(
                f"{dtype!s:20} {name:8}" + "".join(f"{key:>12} {value:9.2f}" for key, value in row.items()), flush=True
            )
            torch.cuda.empty_cache()
    x = torch.ones(8192, 8192, device="cuda")
    records = torch.empty(48 * (x.numel() // 8192), dtype=torch.uint8, device="cuda")
    for name, view in {"turned": x.t(), "every second column": x[:, ::2], "a part of the columns": x[:, :8000]}.items():
        spent = microseconds([Kernel(view, records)], 5)
        found[name] = {"kernel us": spent, "kernel GB/s": view.nbytes / spent / 1e3}
        print(f"float32, {name}: {spent:.0f} us, {found[name]['kernel GB/s']:.0f} GB/s")
    small = torch.ones(16, 16, device="cuda")
    found["host us"] = {
        "launch of the kernel": host_microseconds(Kernel(small, records)),
        "mul_ of PyTorch": host_microseconds(lambda: small.mul_(1.0)),
    }
    found["operators"] = of_operators()
    print(f"host: {found['host us']}")
    for mode, row in found["operators"].items():
        print(f"mul_ of 64 x 64, {mode}: {row['host us']:.1f} us of the host, {row['us']:.1f} us with the device")
    if options.json is not None:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
