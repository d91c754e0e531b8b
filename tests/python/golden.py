"""The files that every dialect, layout and mode leaves on disk, as text to read: tests/golden/.

    python tests/python/golden.py            writes tests/golden/ anew; `git diff tests/golden` is then to be reviewed
    python tests/python/golden.py acl        only the cases whose names begin so
    python tests/python/golden.py --check    writes nothing, shows what differs
    python tests/python/golden.py --into D   writes the texts of now into the directory D, for a comparison

Each case trains one small network, whose numbers are all exact, for two steps under one configuration, in this process.
A text holds the configuration, the closing line, every file with its type, shape and values, and the tables.
"""

import argparse
import difflib
import hashlib
import json
import os
import pathlib
import re
import sys
import tempfile

import container_reader
import golden_cases
import numpy as np

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
PROGRAM = pathlib.Path(__file__).with_name("golden_program.py")
_TEXTS = (".csv", ".json")
_NAMES_ONLY = (".dump_metadata/sonde/", "data_dump.json", "/sources/")
_CONTAINER = re.compile(r"\.1[6-9]\d{14}$")  # files without a suffix end in their time
_MOST_ROWS = 60  # of a table; later rows are in a digest
_MOST_VALUES = 24


def record(case, directory):
    """Runs one case; returns Sonde's messages, without the paths."""
    import sonde

    dump = directory / "dump"
    config = directory / "config.json"
    text = json.dumps(case.config, indent=1).replace("@DUMP@", str(dump)).replace("@CONFIG@", str(config))
    config.write_text(text)
    if case.makes_directory:
        dump.mkdir()
    kept = dict(os.environ)
    os.environ.update({name: value.replace("@CONFIG@", str(config)) for name, value in case.environment.items()})
    try:
        sonde.start(str(config))
        golden_program.run(case.program)
        summary = sonde.stop()
    except sonde.Error as error:
        summary = str(error)
    finally:
        os.environ.clear()
        os.environ.update(kept)
    return dump, summary


def rendered(case, dump, summary):
    """The case as one text: configuration, closing line, tree, tables."""
    parts = [f"# {case.about}", *(f"{name}={value}" for name, value in case.environment.items())]
    parts += [json.dumps(case.config), "", plain(re.sub(r"[\d.]+ MB", "? MB", summary), dump), ""]
    files = sorted(path for path in dump.rglob("*") if path.is_file()) if dump.exists() else []
    tree = {}
    for path in files:
        line = plain(str(path.relative_to(dump)), dump) + described(path)
        tree[line] = tree.get(line, 0) + 1
    parts += [line if count == 1 else f"{line}  [{count} of them]" for line, count in sorted(tree.items())]
    tables = {}
    for path in files:
        name = plain(str(path.relative_to(dump)), dump)
        if path.suffix in _TEXTS and not any(part in name for part in _NAMES_ONLY):
            tables.setdefault(name, []).append(path)
    for name in sorted(tables):
        texts = sorted(plain(path.read_text(), dump) for path in tables[name])
        for text in dict.fromkeys(texts):
            lines = text.splitlines()
            rest = "\n".join(lines[_MOST_ROWS:])
            more = [f"... {len(lines) - _MOST_ROWS} more, {digest(rest.encode())}"] if rest else []
            parts += ["", f"## {name}", *lines[:_MOST_ROWS], *more]
    return "\n".join(parts) + "\n"


def described(path):
    """The content of the file for a reader: type, shape and values of a .npy and of each tensor of a container."""
    if path.suffix == ".npy":
        try:
            return "  " + valued(np.load(path))
        except ValueError:
            return "  [not for numpy]"
    if _CONTAINER.search(path.name):
        op = container_reader.read(path)
        tensors = [("input", tensor) for tensor in op["inputs"]] + [("output", tensor) for tensor in op["outputs"]]
        texts = [f"{side} {valued(tensor['array'])}" for side, tensor in tensors if tensor["array"] is not None]
        return "  " + "; ".join(texts)
    if path.suffix == ".bin":
        return f"  {path.stat().st_size} bytes {digest(path.read_bytes())}"
    return ""


def valued(array):
    """Type, shape, and all values, or, if they are many, a digest of their bytes."""
    flat = array.reshape(-1)
    values = " ".join(format(value, "g") for value in flat.tolist()) if flat.size <= _MOST_VALUES else digest(array)
    return f"{array.dtype} {array.shape}: {values}"


def digest(data):
    return "sha1 " + hashlib.sha1(np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data).hexdigest()[:12]


def plain(text, dump):
    """The text without the parts that differ from run to run: times, paths, random numbers."""
    text = text.replace(str(PROGRAM.parent).lstrip("/"), "<program>").replace(str(dump), "<dump>")
    text = text.replace(str(dump.parent), "<directory>")
    text = re.sub(r"(?<!\d)1[6-9]\d{14}(?!\d)", "<us>", text)
    text = re.sub(r"(?<!\d)20\d{12}(?!\d)", "<time>", text)
    return re.sub(r"(?m)(^|/)\d{7,20}(\.npy|,)", r"\1<number>\2", text)


def produced(name):
    """The text of the case `name`, from a new run."""
    case = golden_cases.CASES[name]
    with tempfile.TemporaryDirectory(prefix="golden-") as directory:
        return rendered(case, *record(case, pathlib.Path(directory.replace(".", ""))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; show what differs; exit status 1 if any")
    parser.add_argument("--into", type=pathlib.Path, metavar="D", help="write there what runs of now give, and stop")
    parser.add_argument("names", nargs="*", help="beginnings of the names of cases; none: all")
    options = parser.parse_args()
    wanted = [name for name in golden_cases.CASES if name.startswith(tuple(options.names) or "")]
    status = 0
    if options.into:
        for name in wanted:
            (options.into / f"{name}.txt").write_text(produced(name))
        return
    for name in wanted:
        path = GOLDEN / f"{name}.txt"
        now = produced(name)
        known = path.read_text() if path.exists() else ""
        status = status or (options.check and now != known)
        if options.check:
            sys.stdout.writelines(difflib.unified_diff(known.splitlines(True), now.splitlines(True), path.name, "now"))
        else:
            path.write_text(now)
    stale = {path.stem for path in GOLDEN.glob("*.txt")} - set(golden_cases.CASES)
    for name in stale:
        print(f"tests/golden/{name}.txt belongs to no case")
        if not options.check:
            (GOLDEN / f"{name}.txt").unlink()
    sys.exit(int(status or bool(options.check and stale)))


sys.path.insert(0, str(PROGRAM.parent))
import golden_program  # noqa: E402  the program is found beside this file, however this file was started

if __name__ == "__main__":
    main()
