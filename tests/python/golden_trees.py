"""The table of trees in docs/format.md: of each layout, one operator, one parameter, and the files beside them.

python tests/python/golden_trees.py          writes it anew, from tests/golden/
python tests/python/golden_trees.py --check  exit status 1 when docs/format.md says something else
"""

import pathlib
import re
import sys

import golden_cases

ROOT = pathlib.Path(__file__).parents[2]
FORMAT = ROOT / "docs" / "format.md"
BEGIN, END = "<!-- trees: made by tests/python/golden_trees.py -->\n", "<!-- /trees -->\n"
_SHOWN = re.compile(r"^(?:conv2d\.|Parameter\.conv.weight\.(?!grad)|Default--network-Net--conv-Conv2d--conv2d)")
_TENSOR = re.compile(r"<us>|_shape_")
_EVERYWHERE = re.compile(r"/sonde/|/sources/|\bexecution_order/|\bgraphs/|\.dump_metadata/(?:device_0/)?config\.json")


def tree(name):
    """The lines of a case's tree that show the names."""
    text = (ROOT / "tests" / "golden" / f"{name}.txt").read_text()
    body = text.split("\n\n", 2)[2].split("\n\n## ", 1)[0]
    for line in body.splitlines():
        path = line.split("  ")[0]
        if _TENSOR.search(path) and not (_SHOWN.search(path.rsplit("/", 1)[-1]) or "Opdebug" in path):
            continue
        if not _EVERYWHERE.search(path):
            yield path


def table():
    parts = []
    for layout, name in golden_cases.TREES.items():
        parts += [f"`{layout}` (`tests/golden/{name}.txt`)\n", "```", *tree(name), "```\n"]
    return "\n".join(parts)


def main():
    text = FORMAT.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    now = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if "--check" in sys.argv[1:]:
        sys.exit(0 if now == text else "docs/format.md: the trees are not those of tests/golden/")
    FORMAT.write_text(now)


if __name__ == "__main__":
    main()
