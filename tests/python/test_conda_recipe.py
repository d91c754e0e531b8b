"""The conda recipe asks for what the build asks for."""

import pathlib
import re
import runpy

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "conda/recipe.yaml").read_text()
PROJECT = (ROOT / "pyproject.toml").read_text()


@pytest.fixture(scope="module")
def recipe():
    return yaml.safe_load(TEXT)


def test_it_is_about_this_version(recipe):
    for name in ("version", "description", "license"):
        (stated,) = re.findall(rf'^{name} = "(.*)"', PROJECT, re.MULTILINE)
        own = {"version": recipe["context"]["version"], "description": recipe["about"]["summary"]}
        assert own.get(name, recipe["about"]["license"]) == stated
    (python,) = re.findall(r'^requires-python = "(.*)"', PROJECT, re.MULTILINE)
    assert f"python {python}" in recipe["requirements"]["run"]


def test_it_has_the_libraries_of_the_build():
    wanted = runpy.run_path(str(ROOT / "tools/sbom.py"))["library_packages"]()
    named = re.findall(r"^    - \S.*  # (\S+-dev)$", TEXT, re.MULTILINE)
    assert sorted(named) == sorted(wanted)


def test_what_builds_has_the_versions_of_the_build_system(recipe):
    (pins,) = re.findall(r'^requires = \["(scikit-build-core==\S+)", "(nanobind==\S+)"', PROJECT, re.MULTILINE)
    assert {pin.replace("==", " ==") for pin in pins} <= set(recipe["requirements"]["host"])
    cmake = re.findall(r"^find_package\(fmt (\S+) REQUIRED\)", (ROOT / "cmake/dependencies.cmake").read_text(), re.M)
    assert f"fmt >={cmake[0]},<12" in recipe["requirements"]["host"]
    assert 'cmake.version = ">=3.25"' in PROJECT and "cmake >=3.25" in recipe["requirements"]["build"]
