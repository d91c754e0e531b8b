"""A loop whose numbers go to one tracker; the finding is looked for there."""

import glob
import pathlib
import sys

import torch
from common import BAD_STEP, network, rows

from sonde.plugins.loop import record

directory, tracker = sys.argv[1:]


def train(writers=()):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with record(f"{directory}/{tracker}-dump", writers=writers) as recording:
        for batch in rows(4, BAD_STEP).split(2):
            model(batch)["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
            recording.step()
    return recording.report


if tracker.startswith("tensorboard"):  # given to the plug-in, or a writer of the program that it finds
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    writer, closed = SummaryWriter(f"{directory}/events"), SummaryWriter(f"{directory}/closed")
    closed.close()
    line = train([writer] if tracker == "tensorboard" else []).line
    assert len(glob.glob(f"{directory}/closed/*")) == 1
    events = EventAccumulator(f"{directory}/events")
    events.Reload()
    (event,) = events.Tensors("sonde/first_bad/text_summary")
    found = event.step == BAD_STEP and line in event.tensor_proto.string_val[0].decode()
elif tracker == "wandb":
    import wandb

    active = wandb.init(project="project", dir=directory)
    report = train()
    found = active.summary["sonde/first_bad"] == report.line
    active.finish()
    logged = b"".join(pathlib.Path(path).read_bytes() for path in glob.glob(f"{directory}/wandb/offline*/*.wandb"))
    found = found and b"sonde-first-bad" in logged
else:
    import mlflow

    mlflow.set_tracking_uri(f"file://{directory}/mlflow")
    active = mlflow.start_run()
    report = train()
    found = mlflow.get_run(active.info.run_id).data.tags["sonde.first_bad"] == report.line
    (page,) = glob.glob(f"{directory}/mlflow/*/*/artifacts/sonde/first_bad.txt")
    found = found and pathlib.Path(page).read_text() == report.page
print("found" if found else "missing")
