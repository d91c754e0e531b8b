"""An actor of Ray under the runtime_env of its job: recorded, it logs its finding when it ends."""

import json
import sys
import time

import ray
from common import END_OF_RUN, digest, network, rows, runs

from sonde.plugins.ray import runtime_env


class Trains:
    def train(self, bad):
        import torch

        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for batch in rows(5, bad).split(2):
            model(batch)["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
        return digest(model)


facts = []
for out, bad in runs():
    environment = runtime_env(out) if out else {}
    ray.init(num_cpus=1, include_dashboard=False, logging_level="error", runtime_env=environment)
    actor = ray.remote(Trains).remote()
    facts.append([ray.get(actor.train.remote(bad)), []])
    del actor
    time.sleep(2)  # the actor ends, and its lines arrive
    ray.shutdown()
    print(END_OF_RUN, file=sys.stderr, flush=True)
print(json.dumps(facts))
