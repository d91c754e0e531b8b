"""The bench's registry: small programs, each with one planted fault or none, and the true answer for each.

    family = Family("domain errors")

    @family.fault("log")
    def log_of_zero():
        net = Small(lambda y: torch.log(y * 0))  # FAULT
        train(net)

A program is a function of one of the modules in programs/. The true line is marked `# FAULT`; several marks are as many
right answers. Programs of the kinds `differs` and `rounding` take one argument: True in the run under test, False in
the golden one.

    @family.fault("log", report="pytorch/pytorch#22442", cause="log of 0")

`cause` is in the answer: its verdict, or some of its words; of several, one is enough. `report` names the public bug
that the program rebuilds: repository and number. The first line of the docstring says what happened.
"""

import dataclasses
import importlib
import inspect
import pathlib
import pkgutil

TENSORS, STATISTICS, OVERFLOW = "tensors", "statistics", "overflow"
KINDS = ("non_finite", "differs", "healthy", "rounding")
PROGRAMS = pathlib.Path(__file__).with_name("programs")

_cases = {}


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    family: str
    kind: str  # of KINDS
    program: object
    ops: tuple = ()  # types of operators; each of them is right
    verdicts: tuple = ()  # of first-bad; empty: any
    causes: tuple = ()  # verdicts or words of the answer; each of them is right; empty: any
    report: str = ""  # the public bug: owner/name#number
    evidence: tuple = (TENSORS, STATISTICS)
    ranks: int = 1
    short: bool = False  # in the short form too

    @property
    def file(self):
        return inspect.getsourcefile(self.program)

    @property
    def lines(self):
        """Numbers of the lines marked as faults."""
        text, first = inspect.getsourcelines(self.program)
        return [first + i for i, line in enumerate(text) if line.rstrip().endswith("# FAULT")]

    @property
    def places(self):
        """Names of files with numbers of lines."""
        return {(pathlib.Path(self.file).name, line) for line in self.lines}

    @property
    def what(self):
        """The event, in a sentence."""
        return (inspect.getdoc(self.program) or "").split("\n\n")[0].replace("\n", " ")

    @property
    def has_golden(self):
        return self.kind in ("differs", "rounding")


class Family:
    def __init__(self, name):
        self.name = name

    def fault(self, *ops, evidence=(TENSORS, STATISTICS, OVERFLOW), **what):
        """A NaN or an infinity that one of `ops` makes, on a marked line."""
        return self._add("non_finite", ops=ops, evidence=evidence, **what)

    def differs(self, *ops, **what):
        """Finite numbers that differ from the golden run's, because of one of `ops`, on a marked line."""
        return self._add("differs", ops=ops, **what)

    def healthy(self, evidence=(TENSORS, STATISTICS, OVERFLOW), **what):
        """Nothing is wrong, whatever NaN and infinities there are."""
        return self._add("healthy", evidence=evidence, **what)

    def rounding(self, **what):
        """The two runs differ by rounding only."""
        return self._add("rounding", **what)

    def _add(self, kind, cause=(), **what):
        causes = (cause,) if isinstance(cause, str) else tuple(cause)

        def add(program):
            case = Case(name=program.__name__, family=self.name, kind=kind, program=program, causes=causes, **what)
            if case.name in _cases:
                raise ValueError(f"two programs are called {case.name}")
            if case.kind in ("non_finite", "differs") and not case.lines:
                raise ValueError(f"no line of {case.name} is marked as its fault")
            _cases[case.name] = case
            return program

        return add


def all_cases():
    """Every case, in the order of the modules' names and of their functions."""
    for module in sorted(module.name for module in pkgutil.iter_modules([str(PROGRAMS)])):
        importlib.import_module(f"programs.{module}")
    return list(_cases.values())
