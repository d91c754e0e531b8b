"""A plug-in of vLLM with faults, chosen by FAULT: the last layer computes NaN, or its process is killed."""

import os
import signal

import torch

FIRST_BAD_POSITION = 6  # no row of a short request is there
_calls = 0


def plant():
    """vLLM calls it in each of its processes."""
    fault = {"nan": _with_nan, "kill": _killed}.get(os.environ.get("FAULT"))
    if fault is None:
        return
    from vllm.model_executor.models.llama import LlamaDecoderLayer

    made, forward = LlamaDecoderLayer.__init__, LlamaDecoderLayer.forward

    def init(self, *args, prefix="", **kwargs):
        made(self, *args, prefix=prefix, **kwargs)
        self.is_faulty = prefix.endswith(".1")

    def layer(self, positions, hidden_states, residual):
        hidden_states, residual = forward(self, positions, hidden_states, residual)
        return fault(positions, hidden_states) if self.is_faulty else hidden_states, residual

    LlamaDecoderLayer.__init__, LlamaDecoderLayer.forward = init, layer


def _with_nan(positions, hidden_states):
    return hidden_states + torch.log(FIRST_BAD_POSITION - 0.5 - positions).unsqueeze(1)  # the planted line


def _killed(positions, hidden_states):
    """In the batch with the last token of the long request."""
    global _calls
    _calls += int(positions.max()) == 9
    if _calls:
        os.kill(os.getpid(), signal.SIGKILL)
    return hidden_states
