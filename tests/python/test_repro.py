"""`sonde repro`: one recorded operator as a program of its own."""

import json
import shutil
import sys
import textwrap

import pytest
from repro_programs import FAULTS, STAND_IN, asker, entries_of


@pytest.fixture(scope="module")
def faulty(compare):
    return compare(FAULTS, saved_data="tensor").dump


@pytest.fixture
def ask(script, execute):
    return asker("repro", script, execute)


@pytest.fixture
def run_program(execute, tmp_path):
    """run_program(directory): the written program, with a reader of safetensors if the package is not there."""

    def run(directory):
        package = tmp_path / "stand_in" / "safetensors"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "torch.py").write_text(textwrap.dedent(STAND_IN))
        beside = directory / "safetensors"
        shutil.copytree(package, beside)  # the directory of a program is the first where Python looks
        return execute(sys.executable, directory / "repro.py")

    return run


@pytest.fixture
def reproduce(ask, faulty, tmp_path):
    """reproduce(op): the answer, and the directory that was written."""

    def made(op, status=0):
        return found_by(ask(faulty, op, to=str(tmp_path / "issue")), status), tmp_path / "issue"

    return made


def found_by(run, status=0):
    assert run.status == status, run.stderr
    return json.loads(run.stdout)


def test_the_program_shows_the_fault_without_sonde(ask, faulty, tmp_path, run_program):
    found = found_by(ask(faulty, "network-Faulty/div-op0", to=str(tmp_path / "issue")))
    assert (found["outcome"], found["reproduces"], found["call"]) == ("same_bits", True, "aten::div.Tensor")
    assert found["outputs"][0]["infinity_count"] + found["outputs"][0]["nan_count"] == 72
    program = (tmp_path / "issue/repro.py").read_text()
    assert len(program.splitlines()) <= 40
    assert "sonde" not in program
    shown = run_program(tmp_path / "issue")
    assert shown.status == 0, shown.stderr
    assert "output.0: 0 NaN, 72 infinite of 72; recorded: 0 NaN, 72 infinite; the same values" in shown.stdout


@pytest.mark.parametrize(
    ("op", "call", "inputs"),
    [
        ("network-Faulty/masked_fill-op0", "aten::masked_fill.Scalar", {"F32", "BOOL"}),
        ("network-Faulty/to-op2", "aten::to.dtype", {"F8_E4M3"}),
        ("network-Faulty/index-op0", "aten::index.Tensor", {"F32", "I64"}),
        ("network-Faulty/cat-op0", "aten::cat", {"F32"}),
        ("network-Faulty/mul-op1", "aten::mul.Tensor", {"I64", "F64"}),
        ("mul_-op0", "aten::mul_.Tensor", {"F32", "F64"}),
        ("addmm-op0", "aten::addmm", {"F32"}),
        ("sub-op0", "aten::sub.Tensor", {"BF16", "I64"}),
    ],
)
def test_recorded_types_stay_and_the_overload_is_found(reproduce, op, call, inputs):
    found, directory = reproduce(op)
    assert (found["outcome"], found["call"]) == ("same_bits", call)
    entries = entries_of(directory / "inputs.safetensors")
    assert {kind for name, (kind, _) in entries.items() if name.startswith("input")} == inputs


def test_an_operator_that_threw_throws_again(ask, faulty, tmp_path, run_program):
    found = found_by(ask(faulty, "linalg_inv-op0", to=str(tmp_path / "issue")))
    assert found["outcome"] == "throws"
    assert "singular" in found["thrown"]
    assert "singular" in run_program(tmp_path / "issue").stderr


def test_a_random_operator_does_not_reproduce_and_says_why(ask, faulty, tmp_path):
    found = found_by(ask(faulty, "dropout-op0", to=str(tmp_path / "issue")), status=1)
    assert (found["outcome"], found["reproduces"]) == ("random", False)
    assert "random numbers" in found["notes"][0]


def test_arguments_that_are_not_recorded_are_found_by_the_output(ask, faulty, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(faulty, bare)
    for place in ("graphs", ".dump_metadata"):
        shutil.rmtree(bare / "rank_0" / place)
    found = found_by(ask(bare, "softmax-op0", to=str(tmp_path / "issue")))
    assert (found["outcome"], found["reproduces"]) == ("same_bits", True)
    assert ["dim", "1", "found"] in [list(one.values()) for one in found["arguments"]]
    assert "not recorded, found: it gives the recorded output: dim=1" in found["notes"]
    refused = ask(bare, "clamp-op0", to=str(tmp_path / "other"))
    assert refused.status == 3
    assert "cannot run alone" in refused.stderr
    assert not (tmp_path / "other").exists()


def test_a_wrong_name_is_answered_with_the_nearest(ask, faulty):
    run = ask(faulty, "network-Faulty/softmx-op0")
    assert run.status == 2
    assert (
        "no operator 'network-Faulty/softmx-op0' in the dump; the nearest: Default/network-Faulty/softmax-op0"
        in run.stderr
    )


def test_a_name_of_several_operators_and_another_step_are_errors(ask, faulty):
    several = ask(faulty, "mul*")
    assert several.status == 2
    assert "means 3 operators" in several.stderr
    nowhere = ask(faulty, "cat-op0", step="1", rank="4")
    assert nowhere.status == 2
    assert "is not in the chosen steps and ranks; it is in step 0, 1" in nowhere.stderr


def test_a_directory_with_files_is_left_alone(ask, faulty, tmp_path):
    (tmp_path / "mine.txt").touch()
    run = ask(faulty, "cat-op0", to=str(tmp_path))
    assert run.status == 2
    assert "exists and is not an empty directory; choose another one: --to" in run.stderr


def test_a_dump_of_statistics_says_what_records_values(ask, config, train):
    run = train(FAULTS, config(saved_data="statistic"))
    answer = ask(run.dump, "cat-op0")
    assert answer.status == 3
    assert "only statistics or names; record the tensors" in answer.stderr
    assert "sonde run --saved-data tensor --kernels 'Default/network-Faulty/cat-op0'" in answer.stderr


def test_text_for_people(ask, faulty, tmp_path):
    run = ask(faulty, "network-Faulty/div-op0", to=str(tmp_path / "issue"), json=False)
    assert run.status == 0
    assert "  outcome   reproduces: the same bits\n" in run.stdout
    assert "  output.0  bfloat16 (6,12), 0 NaN, 72 infinite, the same bits again\n" in run.stdout
