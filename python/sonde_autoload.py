"""Starts Sonde with the framework, when the environment asks for it.

torch calls start() at the end of `import torch` in every process (entry point group `torch.backends`). For MindSpore,
sonde_mindspore.pth calls watch_mindspore() at the start of every process whose environment names a configuration. So
`sonde` is imported only when there is something to do; until then sonde_early decides, which imports nothing but `os`.
"""

import os

import sonde_early

TYPE_CHECKING = False  # typing's own would import typing
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


_started = False


def start_in_vllm() -> None:
    """vLLM loads its plug-ins, in each of its processes: starts Sonde there if PyTorch loads no backends
    (`TORCH_DEVICE_BACKEND_AUTOLOAD=0`)."""
    if not _started:
        start()


def start() -> None:
    """PyTorch is imported: starts Sonde if the environment or a session requests it."""
    global _started
    _started = True
    if sonde_early.npu_stand_in():
        _be_an_npu()
    if sonde_early.is_off():
        return
    prove = os.environ.get("SONDE_PROVE")
    if prove:
        _observe(prove)
    if sonde_early.configuration() or sonde_early.waiting is not None or _asked_by_a_switch():
        sonde_early.framework_imported("torch", _begin, _begin_with_model)
    else:
        sonde_early.say_if_only_half_asked()


def watch_mindspore() -> None:
    """Arrange a call when `mindspore` is imported."""
    sonde_early.watch_mindspore(_load, _begin)


def _load() -> None:
    import sonde.mindspore

    sonde.mindspore.load()


def _begin(config: str | None, framework: str) -> None:
    import sonde

    sonde.session.start_from_environment(config, framework)


def _begin_with_model(config: str) -> None:
    import sonde

    sonde.session.begin_with_model(config)


def provide_npu() -> None:
    """Arrange that `torch_npu` and `torchair` can be imported: `sonde run --npu-stand-in`."""
    sonde_early.watch_npu(_find_npu)


def _find_npu(name: str) -> "ModuleSpec | None":
    from sonde import npu_stand_in

    return npu_stand_in.find(name)


def _be_an_npu() -> None:
    """PyTorch is imported: as with a real torch_npu, which PyTorch loads by itself, `.npu()` exists from here on."""
    try:
        from sonde import npu_stand_in

        if not npu_stand_in.the_real_one():
            from sonde.npu_stand_in import identity

            identity.install()
    except Exception as error:
        sonde_early.say(sonde_early.message(error))


def _asked_by_a_switch() -> bool:
    """The originals' variables that request something by themselves: see sonde.environment."""
    return (
        os.environ.get("MS_DEV_SAVE_GRAPHS", "0") not in ("", "0")
        or os.environ.get("DUMP_GE_GRAPH") in ("1", "2", "3")
        or os.environ.get("ASCEND_DUMP_SCENE", "").startswith(("aic_err_", "lite_exception"))
    )


def _observe(directory: str) -> None:
    """`sonde run --prove`: this process writes digests of its results, recorded or not."""
    try:
        import sonde.prove

        sonde.prove.start(directory)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        sonde_early.say(f"sonde: cannot observe: {' '.join(str(error).split())} ({type(error).__name__})")
