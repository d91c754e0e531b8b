"""Which operators did a line of the program run, and what went in and out of them?

    python find_operator.py DUMP train_alexnet.py:29 --step 3

DUMP is a dump that holds .npy files: one written as npy, or a converted one (--graph then names the directory of the
.ir). Nothing but NumPy is needed: the graph is text, the tensors are .npy files, names say what belongs together.
"""

import argparse
import pathlib
import re
import sys

import numpy as np

OPERATOR = re.compile(r"  %\d+\(.*?\) = (?:PrimFunc_)?(?P<op_type>\w+)\(")
FULL_NAME = re.compile(r"(?:[Ff]ull.?name.with.scope)?: ?\((?P<name>[^<>()]+)\)$")
SOURCE = re.compile(r"# (?:inlined:)?In file (?P<file>[^/].*?|/.*?)[:(](?P<line>\d+)\)?(?:~\d+)?(?:, \d+~\d+)?/")


def operators(ir):
    """(type, full name, [(file, line), ...]) of each operator of an .ir, the lines as they are listed there."""
    found = None
    for text in ir.read_text(encoding="utf-8", errors="replace").splitlines():
        if operator := OPERATOR.match(text):
            if found:
                yield found
            found = (operator["op_type"], "", [])
        elif found and (source := SOURCE.search(text)):
            found[2].append((source["file"], int(source["line"])))
        elif found and (name := FULL_NAME.search(text)):
            found = (found[0], name["name"], found[2])
    if found:
        yield found


def ran_by(sources, file, line):
    """The operator's own line is the innermost: the last in today's files, the first in those of MindSpore 2.0."""
    return any(s in (sources[0], sources[-1]) and s[0].endswith(file) and s[1] == line for s in sources)


def tensors(dump, step, op_type, name):
    """(slot, file) of the operator's .npy files in that step: ("input.0", path), ..."""
    short = name.rsplit("/", 1)[-1]
    names = {re.sub(r"[./\\ ]", "_", name), short}
    for path in sorted(dump.rglob(f"{op_type}.*.npy")):
        slot = re.search(r"\.(input|output)\.(\d+)\.", path.name)
        in_step = step is None or str(step) in path.relative_to(dump).parts[:-1]
        if slot and in_step and any(path.name.startswith(f"{op_type}.{n}.") for n in names):
            yield f"{slot[1]}.{slot[2]}", path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", type=pathlib.Path)
    parser.add_argument("place", help="FILE:LINE, the end of a path is enough")
    parser.add_argument("--step", type=int)
    parser.add_argument("--graph", type=pathlib.Path, help="where the .ir is, when it is not below the dump")
    options = parser.parse_args()
    file, _, line = options.place.rpartition(":")
    if not file or not line.isdigit():
        parser.error(f"found {options.place!r}; expected FILE:LINE, such as train_alexnet.py:29")
    graphs = sorted((options.graph or options.dump).rglob("*_graph_0.ir"))
    if not graphs:
        sys.exit(f"no .ir below {options.graph or options.dump}; --graph names the directory that has one")
    shown = 0
    for op_type, name, sources in operators(graphs[0]):
        if not sources or not ran_by(sources, file, int(line)):
            continue
        found = list(tensors(options.dump, options.step, op_type, name))
        if found:
            print(f"\n{op_type}  {name}")
        for slot, path in found:
            values = np.load(path)
            spread = f"min {values.min():.6g}, max {values.max():.6g}" if values.size else "empty"
            print(f"  {slot:9} {values.dtype} {values.shape}, {spread}\n            {path.relative_to(options.dump)}")
            shown += 1
    if not shown:
        sys.exit(f"no operator of {graphs[0]} with tensors in the dump comes from {options.place}")


if __name__ == "__main__":
    main()
