"""The test device: `import testdev`, then `device="testdev"` as one would write "cuda".

It is stricter than a GPU. The host cannot read its memory: a read faults. Its streams are threads that run late, in an
order between them that schedule() chooses. Freed memory is overwritten, and given to the next who asks. Its kernels are
the CPU's. counters() says what a program did. Its module is `torch.testdev`, as `torch.cuda` is CUDA's. TESTDEV_NAME
gives the device another name before the import: torch_npu is a backend of this kind with the name "npu".
"""

import atexit
import contextlib
import ctypes
import os
import sys

import torch

from . import build

_library = ctypes.CDLL(str(build.library()), mode=ctypes.RTLD_GLOBAL)
_library.testdev_error.restype = ctypes.c_char_p
_library.testdev_counter_name.restype = ctypes.c_char_p
_library.testdev_counter.restype = ctypes.c_ulong
_library.testdev_end_capture.restype = ctypes.c_void_p
_NAMES = [_library.testdev_counter_name(which).decode() for which in range(_library.testdev_counters())]
NAME = os.environ.get("TESTDEV_NAME", "testdev")
_SCHEDULES = ("eager", "shuffled", "main_last", "others_last", "last")
_pid = None
_called = []  # kept until the end: nobody knows when a stream is there
_initialized = True  # torch.utils.checkpoint looks at it


def _call(name, *arguments):
    if getattr(_library, f"testdev_{name}")(*arguments) != 0:
        raise RuntimeError(_library.testdev_error().decode())


def _long(number):
    return ctypes.c_ulong(number)


# --- what tests ask and switch ------------------------------------------------------------------------------------


def counters(device=0):
    """The events on a device since reset_counters(), by name: see the enum Counter in device.h."""
    return {name: _library.testdev_counter(device, which) for which, name in enumerate(_NAMES)}


def reset_counters(device=0):
    _library.testdev_reset_counters(device)


def schedule(name, seed=0, longest_delay_us=300):
    """How late streams run: see the enum Schedule in streams.h."""
    _library.testdev_set_schedule(_SCHEDULES.index(name), _long(seed), _long(longest_delay_us))


def set_limit(size, device=0):
    """The bytes of device memory."""
    _library.testdev_set_limit(device, _long(size))


def lose(device=0):
    """From now on every call for the device fails, and what its streams had to do is not done."""
    _library.testdev_lose(device)


def set_events(on):
    """False: a device without events."""
    _library.testdev_set_events(int(on))


def set_pinned(on):
    """False: a host that has no more memory to pin."""
    _library.testdev_set_pinned(int(on))


def destroy_stream(stream):
    """The stream does what it has to do; whoever adds to it gets an error."""
    _call("destroy_stream", stream.device_index, ctypes.c_long(stream.stream_id))


@contextlib.contextmanager
def graph(device=0):
    """Launches inside are captured and not run: `with graph() as replay: …`, then `replay()`."""
    stream = torch.accelerator.current_stream(torch.device(NAME, device))
    number = ctypes.c_long(stream.stream_id)
    _call("begin_capture", device, number)
    captured = []
    try:
        yield lambda: _call("replay", ctypes.c_void_p(captured[0]))
    finally:
        captured.append(_library.testdev_end_capture(device, number))


def copy_to_host_unguarded(tensor, address):
    """A copy by the current stream to an address, unknown to every allocator."""
    stream = torch.accelerator.current_stream(tensor.device)
    arguments = ctypes.c_void_p(address), ctypes.c_void_p(tensor.data_ptr()), _long(tensor.nbytes)
    _call("copy_to_host", tensor.device.index, ctypes.c_long(stream.stream_id), *arguments)


def call(function, device=0):
    """The current stream calls `function()` when it is there, as with cudaLaunchHostFunc. Its thread needs the GIL."""
    stream = torch.accelerator.current_stream(torch.device(NAME, device))
    _called.append(ctypes.CFUNCTYPE(None)(function))
    _call("call", device, ctypes.c_long(stream.stream_id), _called[-1])


# --- torch.testdev ---------------------------------------------------------------------------------------------------


def is_available():
    return True


def is_initialized():
    return True


def init():
    pass


def _lazy_init():
    """PyTorch up to 2.9 waits for a device in torch.accelerator.synchronize() only if it has called this."""


def device_count():
    return _library.testdev_devices()


def current_device():
    return torch.accelerator.current_device_index()


def set_device(device):
    torch.accelerator.set_device_index(_index(device))


def _index(device):
    if isinstance(device, int):
        return device
    index = torch.device(device).index if device is not None else None
    return current_device() if index is None else index


class device:
    """A context in which a device is current."""

    def __init__(self, device):
        self.index = _index(device)

    def __enter__(self):
        self.previous = current_device()
        set_device(self.index)

    def __exit__(self, *_):
        set_device(self.previous)


def synchronize(device=None):
    _call("synchronize", _index(device))


def current_stream(device=None):
    return torch.accelerator.current_stream(_index(device))


def empty_cache():
    for index in range(device_count()):
        _call("empty_cache", index)


def memory_allocated(device=None):
    return counters(_index(device))["allocated_bytes"]


def max_memory_allocated(device=None):
    return counters(_index(device))["peak_bytes"]


def _is_in_bad_fork():
    return os.getpid() != _pid


def manual_seed(seed):
    _library.testdev_seed(current_device(), _long(seed))


def manual_seed_all(seed):
    for index in range(device_count()):
        _library.testdev_seed(index, _long(seed))


def get_rng_state(device=None):
    state = (ctypes.c_ulong * 2)()
    _library.testdev_random_state(_index(device), ctypes.byref(state, 0), ctypes.byref(state, 8))
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)


def set_rng_state(state, device=None):
    seed, launched = state.view(torch.int64).tolist()
    _library.testdev_set_random_state(_index(device), _long(seed), _long(launched))


def get_amp_supported_dtype():
    return [torch.float16, torch.bfloat16]


def _register():
    global _pid
    _pid = os.getpid()
    torch.utils.rename_privateuse1_backend(NAME)
    _library.testdev_register()
    torch._register_device_module(NAME, sys.modules[__name__])
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    atexit.register(_library.testdev_finish)


_register()
