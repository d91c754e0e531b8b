"""verl's own profiler, as its workers use it; its trainers need GPUs."""

import torch
from common import network, rows, run
from verl.utils.profiler import DistProfiler, ProfilerConfig


def train(out, bad):
    settings = ProfilerConfig(tool="sonde" if out else None, enable=True, ranks=[0], save_path=out, tool_config={})
    profiler = DistProfiler(rank=0, config=settings)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    profiler.start(role="train", profile_step=7)
    for batch in rows(5, bad).split(2):
        model(batch)["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    profiler.stop()
    return model, []


run(train)
