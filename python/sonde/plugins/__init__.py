"""Plug-ins for trainers, each by the trainer's own means (docs/frameworks.md).

    sonde.plugins.huggingface.SondeCallback     Trainer of transformers
    sonde.plugins.lightning.SondeCallback       lightning.Trainer
    sonde.plugins.accelerate.SondeTracker       accelerate.Accelerator
    sonde.plugins.torchtitan.record             an override of torchtitan's profiler
    sonde.plugins.verl                          global_profiler.tool=sonde
    sonde.plugins.ray.recorded, .runtime_env    Ray Train, Ray's actors
    sonde.plugins.loop.record                   a loop of one's own

Each gives the steps the trainer's numbers, and puts the answer of `first_bad` into the trainer's log, at the end or as
soon as the trainer logs a value that is not finite. Importing this module imports no trainer.
"""

from .recording import Recording, Report

__all__ = ["Recording", "Report"]
