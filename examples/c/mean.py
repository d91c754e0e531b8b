"""The C ABI from Python with ctypes: a program with NumPy as its kernels, recorded without PyTorch.

sonde run --out /data/mean --saved-data full -- python examples/c/mean.py
"""

import ctypes
import pathlib

import numpy as np

import sonde

U32, U64, I32, TEXT, POINTER = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p
FLOAT64, FORWARD, EVALUATION = 12, 0, 1  # SONDE_DTYPE_FLOAT64, SONDE_PHASE_FORWARD, SONDE_GRAPH_EVALUATION
VERSION = 2  # SONDE_API_VERSION


class Tensor(ctypes.Structure):
    """struct sonde_tensor up to the fields that this program uses: the engine takes a shorter struct by its size."""

    _fields_ = (
        *(("size", U32), ("dtype", U32), ("data", POINTER), ("shape", POINTER), ("strides", POINTER), ("ndim", U32)),
        *(("device", U32), ("flags", U32), ("storage", U64)),
    )


class Site(ctypes.Structure):
    """struct sonde_site."""

    _fields_ = (
        *(("size", U32), ("phase", U32), ("forward_site", U32), ("trace_count", U32), ("op_type", TEXT)),
        *(("scope", TEXT), ("trace", POINTER), ("flags", U32)),
    )


def function(result, *arguments):
    return ctypes.CFUNCTYPE(result, *arguments)


# struct sonde_api up to op_end. Functions that this program does not call are plain addresses.
OP_TENSOR = function(None, POINTER, U32, ctypes.POINTER(Tensor))
USED = {
    "start": function(I32, TEXT, TEXT, ctypes.c_size_t),
    "stop": function(None, TEXT, ctypes.c_size_t),
    "root_forward": function(I32, I32, I32, I32),
    "site": function(U32, ctypes.POINTER(Site)),
    "op_begin": function(U32, U32, I32, U64, ctypes.POINTER(POINTER)),
    "op_mutated": function(None, POINTER, U64),
    "op_input": OP_TENSOR,
    "op_output": OP_TENSOR,
    "op_end": function(None, POINTER, I32),
}
NAMES = """engine mismatch start set_run_info stop active records_exceptions forked_child take_failure root_forward
quiet_forward optimizer_end scaler_update manual_step autograd_started modules_exist capture set_recording set_step site
source_text name_tensor flag_type storage_changed storages_freed op_begin op_attributes op_input_before op_mutated
op_check_output op_failed op_input op_output op_watch_id op_watched op_end"""


class Api(ctypes.Structure):
    """The head of struct sonde_api."""

    _fields_ = (("size", U32), ("version", U32), *((name, USED.get(name, POINTER)) for name in NAMES.split()))


def tensor(array, storage):
    return Tensor(
        size=ctypes.sizeof(Tensor),
        dtype=FLOAT64,
        data=array.ctypes.data,
        shape=ctypes.cast(array.ctypes.shape_as(ctypes.c_int64), POINTER),
        ndim=array.ndim,
        storage=storage,
    )


def main():
    library = ctypes.CDLL(str(pathlib.Path(sonde.__file__).parent / "libsonde.so"))
    library.sonde_api.restype = ctypes.POINTER(Api)
    api = library.sonde_api(VERSION).contents
    message = ctypes.create_string_buffer(4096)
    if api.start(None, message, len(message)) < 0:
        print(message.value.decode())
    site = api.site(Site(size=ctypes.sizeof(Site), phase=FORWARD, op_type=b"mean", scope=b"network-Mean"))
    for step in range(3):
        api.root_forward(1, 0, 0)
        x = np.arange(6.0).reshape(2, 3) + step
        op = POINTER()
        wanted = api.op_begin(site, EVALUATION, 0, op)
        y = x.mean(axis=1)
        if wanted:
            api.op_mutated(op, 2 * step + 2)
            api.op_input(op, 0, tensor(x, 2 * step + 1))
            api.op_output(op, 0, tensor(y, 2 * step + 2))
            api.op_end(op, 0)
        print(y)
    api.stop(message, len(message))
    print(message.value.decode(), end="")


main()
