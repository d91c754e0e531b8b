"""Trainings with public libraries, as their users write them: recorded, they compute the same; the dump agrees with
them.

Each program runs twice, bare under PyTorch's profiler and recorded. README.md has the table of a whole run.
"""

import pathlib

from findings import close

PROGRAMS = sorted(
    path.stem for path in (pathlib.Path(__file__).parent / "programs").glob("*.py") if path.stem != "common"
)
SHORT = ("distillation", "lightning_autoencoder", "lora_trainer")
# Steps beside training: (of reference models, of evaluation).
BESIDE = {
    "distillation": (4, 6),
    "dpo_trl": (3, 0),
    "mean_teacher": (4, 0),
    "diffusers_dit": (3, 0),
    "q_learning": (0, 8),
}


def pytest_generate_tests(metafunc):
    programs = SHORT if metafunc.config.getoption("--short") else PROGRAMS
    metafunc.parametrize("pair", programs, indirect=True, scope="module")


def test_losses_gradients_parameters_and_random_states_are_the_same(pair):
    assert pair.recorded["results"] == pair.bare["results"]
    assert pair.recorded["steps"] == pair.bare["steps"]
    assert pair.recorded["random"] == pair.bare["random"]
    assert pair.bare["steps"] and pair.bare["results"]["losses"]
    pair.checked["bits"] = "identical"


def test_steps_are_numbered_as_the_trainer_numbers_them(pair):
    numbers = pair.results["numbers"]
    assert numbers == list(range(len(numbers)))
    assert pair.steps(0) == numbers
    references, evaluations = BESIDE.get(pair.program, (0, None))
    beside = [pair.steps(1), pair.steps(2)]
    if references:
        assert numbers[:references] in beside
    if evaluations:
        assert list(range(evaluations)) in beside


def test_operators_are_those_that_the_profiler_counts(pair):
    of_profiler, of_sonde = pair.counted_by_profiler(), pair.counted_by_sonde()
    assert of_sonde == of_profiler, (of_sonde - of_profiler, of_profiler - of_sonde)
    pair.checked["operators"] = sum(of_sonde.values())
    if pair.steps_of(1):
        return
    by_profiler, by_sonde = pair.by_step()
    for step, counts in by_profiler.items():
        assert by_sonde[step] == counts, step


def test_names_are_the_paths_and_classes_of_modules_and_lines_are_the_librarys(pair):
    scopes = pair.scopes()
    modules = {(name, kind) for _, name, kind, *_ in pair.bare["samples"] if kind != "grad" and name}
    # A module that returns its input runs no operator. If a model is not called itself, like a LightningModule, its
    # parts are called; their names begin with the model.
    missing = [
        (name, kind)
        for name, kind in modules
        if not any(kind in kinds and (path == name or path.endswith(f".{name}")) for path, kinds in scopes.items())
    ]
    missing = [(name, kind) for name, kind in missing if kind not in ("Identity", "Dropout", "DropPath")]
    assert not missing, (missing, sorted(scopes)[:20])
    known, forward = pair.lines()
    assert known >= 0.99 * forward, (known, forward)
    pair.checked["names"] = len(modules)


def test_statistics_are_those_of_the_outputs_and_gradients_that_hooks_see(pair):
    recorded = pair.recorded_statistics()
    samples = pair.bare["samples"][:: max(1, len(pair.bare["samples"]) // 60)]
    wrong = [
        (step, name, kind, shape, values)
        for step, name, kind, _, shape, values in samples
        if not any(close(values, got) for got in recorded.get((step, tuple(shape)), ()))
    ]
    assert samples and not wrong, wrong[:5]
    pair.checked["statistics"] = len(samples)


def test_nothing_is_printed_but_the_closing_lines(pair):
    lines = pair.closing_lines()
    assert lines[0].startswith("sonde: recorded "), lines
    assert len(lines) == (2 if pair.steps_of(1) else 1), lines
    assert pair.other_lines(1) == pair.other_lines(0)
