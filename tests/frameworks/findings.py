"""One program run twice: its results and PyTorch's profile, and Sonde's record."""

import collections
import math
import pathlib

import sonde

# Programs whose own lines lie outside the library.
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


class Pair:
    def __init__(self, program, bare, recorded):
        self.program, self.bare, self.recorded = program, bare, recorded
        self.results = bare["results"]

    def take(self, dump, bare, recorded):
        self.dump = sonde.open(dump)
        self.stderr = [run.stderr.splitlines() for run in (bare, recorded)]
        self.ops = [op for op in self.dump.ops if not op.is_parameter]
        self.checked = {}  # the number of facts that each test has checked, for the table

    def steps(self, graph):
        return sorted({step.iteration if hasattr(step, "iteration") else step.step for step in self.steps_of(graph)})

    def steps_of(self, graph):
        return [step for step in self.dump.steps if step.graph == graph]

    def closing_lines(self):
        return [line for line in self.stderr[1] if line.startswith("sonde")]

    def other_lines(self, run):
        """Warnings and similar lines, without the parts that differ from run to run."""
        return sorted(line for line in self.stderr[run] if not line.startswith("sonde") and "Warning" in line)

    # --- operators ----------------------------------------------------------------------------------------------------

    def counted_by_profiler(self):
        """{operator: times} from the first training step on."""
        total = collections.Counter()
        for counts in self.bare["operators"].values():
            for name, times in counts.items():
                total[name.split("::")[-1]] += times
        return total

    def counted_by_sonde(self):
        begin = min(op.timestamp_us for op in self.ops if op.graph == 0)
        return collections.Counter(op.op_type for op in self.ops if op.timestamp_us >= begin)

    def by_step(self):
        """{step: ({operator: times} by the profiler, by Sonde)}, where the program runs nothing but training."""
        of_sonde = collections.defaultdict(collections.Counter)
        for op in self.ops:
            of_sonde[op.step][op.op_type] += 1
        of_profiler = {
            int(step): collections.Counter({name.split("::")[-1]: times for name, times in counts.items()})
            for step, counts in self.bare["operators"].items()
        }
        return of_profiler, dict(of_sonde)

    # --- names --------------------------------------------------------------------------------------------------------

    def scopes(self):
        """{module path without classes: set of classes} of forward operators: `encoder.layer.0`."""
        found = collections.defaultdict(set)
        for op in self.ops:
            if op.phase != "forward":
                continue
            path, last = [], ""
            for level in op.op_name.split("/")[2:-1]:
                name, _, kind = level.partition("-")
                path.append(name)
                last = kind
                found[".".join(path)].add(last)
        return found

    def lines(self):
        """For forward operators: (the number with a line of the library's or the program's, the number of all)."""
        forward = [op for op in self.ops if op.phase == "forward"]
        known = [op for op in forward if op.source is not None and "site-packages/torch/" not in op.source.file]
        return len(known), len(forward)

    # --- statistics ---------------------------------------------------------------------------------------------------

    def recorded_statistics(self):
        """{(step, shape): [statistics]} of everything that training wrote."""
        found = collections.defaultdict(list)
        for tensor in self.dump.tensors:
            if tensor.graph != 0 or tensor.side != "output" or tensor.skipped:
                continue
            values = tensor.statistics
            found[tensor.step, tensor.shape].append((values.min, values.max, values.avg, values.l2norm))
        return found

    def row(self):
        """A row of the table in README.md."""
        text = (pathlib.Path(PROGRAMS) / f"{self.program}.py").read_text(encoding="utf-8")
        title = " ".join(text.split('"""')[1].split()).rstrip(".")
        c = self.checked
        graphs = [len(self.steps_of(graph)) for graph in (0, 1, 2)]
        steps = str(graphs[0]) + "".join(f" + {n}" for n in graphs[1:] if n)
        return (
            f"| `{self.program}` | {title} | {c.get('bits', '')} "
            f"| {steps} | {c.get('operators', '')} | {c.get('names', '')} | {c.get('statistics', '')} |"
        )


def close(wanted, got):
    """True if two values of a statistic agree to six digits."""
    return all(a == b or math.isclose(a, b, rel_tol=2e-5, abs_tol=1e-7) for a, b in zip(wanted, got, strict=True))
