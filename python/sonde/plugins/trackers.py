"""A report where the other numbers of a training are: W&B, MLflow, TensorBoard, if the program uses them."""

import gc
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from .recording import Report, harmless

_NAME = "sonde/first_bad"


class Trackers:
    """The runs that are active when a training begins; a trainer may end them before its last event."""

    def __init__(self) -> None:
        self._mlflow_run: str | None = None

    @harmless
    def begin(self) -> None:
        """The training begins."""
        run = _active(sys.modules.get("mlflow"))
        self._mlflow_run = run.info.run_id if run is not None else None

    def publish(self, report: Report, writers: Iterable[object] = ()) -> None:
        """`writers`: SummaryWriters of TensorBoard, or loggers of Lightning, which have one in `experiment`. Without,
        the program's own get it, those that are open."""
        _to_wandb(report)
        run = _active(sys.modules.get("mlflow"))
        _to_mlflow(report, run.info.run_id if run is not None else self._mlflow_run)
        for writer in list(writers) or _open_writers():
            if hasattr(writer, "run_id") and hasattr(getattr(writer, "experiment", None), "log_text"):
                _to_mlflow(report, writer.run_id)
            else:
                _to_tensorboard(report, getattr(writer, "experiment", writer))


def _active(mlflow: Any) -> Any:
    return mlflow.active_run() if hasattr(mlflow, "active_run") else None


def _open_writers() -> list[object]:
    """A trainer keeps its own where a plug-in does not reach it."""
    modules: list[Any] = [sys.modules.get(name) for name in ("torch.utils.tensorboard.writer", "tensorboardX.writer")]
    kinds: tuple[type, ...] = tuple(one.SummaryWriter for one in modules if hasattr(one, "SummaryWriter"))
    found = [one for one in gc.get_objects() if issubclass(type(one), kinds)] if kinds else []
    return [one for one in found if getattr(one, "file_writer", None) is not None]


@harmless
def _to_wandb(report: Report) -> None:
    """A line in the summary, and an artifact with the page and the document."""
    wandb = sys.modules.get("wandb")
    run = getattr(wandb, "run", None)
    if wandb is None or run is None:
        return
    run.summary[_NAME] = report.line
    artifact = wandb.Artifact("sonde-first-bad", type="sonde", metadata={"dump": report.dump})
    for name, text in _files(report):
        with artifact.new_file(name) as file:
            file.write(text)
    run.log_artifact(artifact)


@harmless
def _to_mlflow(report: Report, run: str | None) -> None:
    """A tag, and the page and the document as artifacts."""
    mlflow = sys.modules.get("mlflow")
    if mlflow is None or run is None:
        return
    client = mlflow.MlflowClient()
    client.set_tag(run, "sonde.first_bad", report.line[:_LONGEST_TAG])
    for name, text in _files(report):
        client.log_text(run, text, f"sonde/{name}")


@harmless
def _to_tensorboard(report: Report, writer: object) -> None:
    """A text at the finding's step."""
    add_text: Callable[..., None] | None = getattr(writer, "add_text", None)
    if add_text is not None:
        add_text(_NAME, f"{report.line}\n\n```\n{report.page}\n```", report.step)
        flush: Callable[[], None] = getattr(writer, "flush", lambda: None)
        flush()


def _files(report: Report) -> list[tuple[str, str]]:
    return [("first_bad.txt", report.page), ("first_bad.json", json.dumps(report.document, indent=2))]


_LONGEST_TAG = 5000
