"""TorchAir's scopes: `with torchair.scope.data_dump(): …` selects what is recorded; the others change nothing here."""

import contextlib
from typing import Any

from .. import flags
from .notices import say_once_outside_compiled_code as say

data_dump = flags.dump_scope


def npu_stream_switch(*_args: object, **_kwargs: object) -> contextlib.AbstractContextManager[None]:
    """Without effect: there is one stream."""
    say("scope.npu_stream_switch has no effect: there is one stream")
    return contextlib.nullcontext()


def npu_wait_tensor(self: Any, _dependency: Any) -> Any:
    """The tensor itself: there is one stream."""
    say("scope.npu_wait_tensor has no effect: there is one stream")
    return self


def super_kernel(*_args: object, **_kwargs: object) -> contextlib.AbstractContextManager[None]:
    """Without effect: Ascend's compiler does not run."""
    say("scope.super_kernel has no effect: Ascend's compiler does not run")
    return contextlib.nullcontext()


def limit_core_num(*_args: object, **_kwargs: object) -> contextlib.AbstractContextManager[None]:
    """Without effect: Ascend's cores do not run."""
    say("scope.limit_core_num has no effect: Ascend's cores do not run")
    return contextlib.nullcontext()


def op_never_timeout(*_args: object, **_kwargs: object) -> contextlib.AbstractContextManager[None]:
    """Without effect: no operator has a time limit here."""
    say("scope.op_never_timeout has no effect: no operator has a time limit here")
    return contextlib.nullcontext()
