"""The list of what a wheel is made of: complete, exact, and the same each time."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
from processes import CLI

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/sbom.py"
SYSTEM = {"glibc", "gcc"}  # a wheel expects these on the system


def stage(place, with_page):
    """An unpacked wheel, as far as the list needs it."""
    (place / "tensorsonde-1.2.dist-info").mkdir(parents=True)
    (place / "tensorsonde-1.2.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: tensorsonde\nVersion: 1.2\n"
    )
    (place / "sonde/share").mkdir(parents=True)
    if with_page:
        (place / "sonde/share/page-licenses.txt").write_text("")
    return place


def listed(place):
    made = subprocess.run([sys.executable, TOOL, place], check=True, capture_output=True, text=True)
    path = pathlib.Path(made.stdout.strip())
    assert path == place / "tensorsonde-1.2.dist-info/sboms/tensorsonde.cdx.json"
    return path.read_bytes()


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    return json.loads(listed(stage(tmp_path_factory.mktemp("stage"), with_page=True)))


def test_it_is_cyclonedx_and_says_what_it_is_about(document):
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["purl"] == "pkg:pypi/tensorsonde@1.2"
    references = [one["bom-ref"] for one in document["components"]]
    assert len(set(references)) == len(references) and document["dependencies"][0]["dependsOn"] == references
    assert all(one["type"] == "library" and one["version"] and one["purl"] for one in document["components"])


def test_every_library_that_the_command_loads_is_in_it(document):
    names = {one["name"] for one in document["components"]}
    loaded = subprocess.run(["ldd", CLI], check=True, capture_output=True, text=True).stdout
    paths = [pathlib.Path(path).resolve() for path in re.findall(r"=> (/\S+)", loaded)]
    assert len(paths) > 5
    owners = [subprocess.run(["dpkg", "-S", path], capture_output=True, text=True, check=False) for path in paths]
    packages = {owner.stdout.partition(": ")[0].partition(":")[0] for owner in owners if owner.returncode == 0}
    show = ["dpkg-query", "--show", "--showformat", "${source:Package}\\n", *packages]
    sources = set(subprocess.run(show, check=True, capture_output=True, text=True).stdout.split())
    assert {name.partition("-")[0] for name in sources - names} <= SYSTEM, sources - names


def test_the_page_has_the_packages_of_its_lock(document, tmp_path):
    lock = json.loads((ROOT / "web/package-lock.json").read_text())["packages"]
    named = {one["purl"] for one in document["components"] if one["purl"].startswith("pkg:npm/")}
    wanted = json.loads((ROOT / "web/package.json").read_text())["dependencies"]
    assert {f"pkg:npm/{name.replace('@', '%40')}@{version}" for name, version in wanted.items()} <= named
    assert len(named) == sum(bool(place) and not facts.get("dev") for place, facts in lock.items())
    without = json.loads(listed(stage(tmp_path / "without", with_page=False)))
    assert not [one for one in without["components"] if "npm" in one["purl"]] and len(without["components"]) > 5


def test_two_lists_are_the_same_bytes(tmp_path):
    assert listed(stage(tmp_path / "one", with_page=True)) == listed(stage(tmp_path / "other", with_page=True))


def test_every_wheel_gets_it():
    assert re.search(r'tools/sbom\.py "\$stage".*\n.* pack ', (ROOT / "scripts/wheel").read_text())
