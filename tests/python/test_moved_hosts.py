"""A plug-in in a version of its trainer that has moved what the plug-in uses: one line, and the training goes on."""

import textwrap

import pytest
from processes import python

# The trainer's module, what is in it, and a program's use of the plug-in.
CALLBACK = "callback = SondeCallback('run'); callback.on_started_anew(1); callback.on_batch(x=2)"
MOVED = {
    "huggingface": ("transformers", "", f"from sonde.plugins.huggingface import SondeCallback; {CALLBACK}"),
    "lightning": ("lightning.pytorch", "", f"from sonde.plugins.lightning import SondeCallback; {CALLBACK}"),
    "accelerate": (
        "accelerate.tracking",
        "",
        "from sonde.plugins.accelerate import SondeTracker; tracker = SondeTracker('run'); tracker.on_run(1)",
    ),
    "torchtitan": ("torchtitan.tools", "", "import sonde.plugins.torchtitan"),
    "verl": ("verl.utils", "", "import sonde.plugins.verl"),
}
# The class is there, and calls other events than before.
RENAMED = {
    "huggingface": ("transformers", "class TrainerCallback: pass", MOVED["huggingface"][2]),
    "lightning": ("lightning.pytorch", "class Callback: pass", MOVED["lightning"][2]),
    "accelerate": ("accelerate.tracking", "class GeneralTracker: pass", MOVED["accelerate"][2]),
}
TRAINING = """
    import torch

    {use}
    model = torch.nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    print("trained")
"""


@pytest.fixture
def train_with(tmp_path, script, execute):
    """train_with(module, content, use): a training with this trainer."""

    def run(module, content, use):
        *packages, name = module.split(".")
        place = tmp_path / "packages"
        for package in packages:
            place /= package
            place.mkdir(parents=True)
            (place / "__init__.py").write_text("")
        place.mkdir(exist_ok=True)
        (place / f"{name}.py").write_text(content)
        program = script(textwrap.dedent(TRAINING).format(use=use))
        return execute(*python(), program, PYTHONPATH=tmp_path / "packages")

    return run


@pytest.mark.parametrize("plugin", MOVED)
def test_a_trainer_without_the_class_is_a_line(train_with, plugin):
    run = train_with(*MOVED[plugin])
    assert (run.status, run.stdout) == (0, "trained\n"), run.stderr
    assert len(run.stderr.splitlines()) == 1, run.stderr
    assert run.stderr.startswith(f"sonde: plugins.{plugin}: this version of "), run.stderr
    assert run.stderr.endswith("; the training goes on\n")


@pytest.mark.parametrize("plugin", RENAMED)
def test_a_trainer_that_calls_other_events_is_a_line(train_with, plugin):
    module, content, use = RENAMED[plugin]
    run = train_with(module, content, use.split("; callback.on")[0].split("; tracker.on")[0])
    assert (run.status, run.stdout) == (0, "trained\n"), run.stderr
    line = (
        f"sonde: plugins.{plugin}: no event of the trainer came, so nothing was recorded by it; the training goes on\n"
    )
    assert run.stderr == line
