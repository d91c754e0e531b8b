"""torchtitan's own override and profiler; its Trainer needs a GPU."""

from dataclasses import dataclass, field

import torch
from common import network, rows, run
from torchtitan.config import Configurable
from torchtitan.config.override import OverrideConfig, apply_overrides
from torchtitan.tools.logging import init_logger
from torchtitan.tools.profiler import Profiler


class Trainer(Configurable):
    @dataclass(kw_only=True, slots=True)
    class Config(Configurable.Config):
        profiler: Profiler.Config = field(default_factory=Profiler.Config)


def train(out, bad):
    config = Trainer.Config()
    if out:
        apply_overrides(OverrideConfig(imports=[("sonde.plugins.torchtitan.record", {"out": out})]), config)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with config.profiler.build(global_step=4, base_folder=out or "") as profiler:
        for batch in rows(5, bad).split(2):
            model(batch)["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    return model, []


init_logger()
run(train)
