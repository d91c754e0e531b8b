"""Writes what an unpacked wheel is made of, as CycloneDX in its *.dist-info/sboms (PEP 770): `tools/sbom.py STAGE`.

Listed are the libraries of the system that the engine and the command are compiled with or take along
(scripts/packages.txt), the packages of npm in the page, and nanobind. Two runs on one system give the same bytes.
"""

import base64
import email.parser
import json
import pathlib
import platform
import subprocess
import sys
from typing import Any
from urllib.parse import quote

ROOT = pathlib.Path(__file__).resolve().parent.parent
Component = dict[str, Any]

_NOT_IN_A_WHEEL = {"python3-dev", "libgtest-dev", "libgmock-dev", "libbenchmark-dev"}


def main(stage: pathlib.Path) -> pathlib.Path:
    """Writes the document and returns its path."""
    info = next(stage.glob("*.dist-info"))
    path = info / "sboms" / "tensorsonde.cdx.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document(info, components(has_page(stage))), indent=2) + "\n")
    return path


def has_page(stage: pathlib.Path) -> bool:
    """Whether the command contains the page of `sonde serve`: then its licenses are beside it."""
    return (stage / "sonde/share/page-licenses.txt").exists()


def components(with_page: bool) -> list[Component]:
    """All components, sorted."""
    found = [*system_libraries(), nanobind(), *(npm_packages() if with_page else [])]
    return sorted(found, key=lambda one: str(one["purl"]))


def document(info: pathlib.Path, found: list[Component]) -> dict[str, Any]:
    """The document about the distribution of this *.dist-info."""
    metadata = email.parser.HeaderParser().parsestr((info / "METADATA").read_text())
    name, version = metadata["Name"], metadata["Version"]
    own = {"type": "library", **component("pypi", name, version), "licenses": [{"expression": "Apache-2.0"}]}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": found,
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": [one["bom-ref"] for one in found]}],
    }


def component(kind: str, name: str, version: str, more: str = "") -> Component:
    """A library, as `purl` names it."""
    url = f"pkg:{kind}/{quote(name, safe='/')}@{quote(version)}{more}"
    return {"type": "library", "bom-ref": url, "name": name.rpartition("/")[2], "version": version, "purl": url}


def library_packages() -> list[str]:
    """Debian's packages of libraries and headers that the engine is compiled with."""
    rows = [line.partition("#")[0].split() for line in (ROOT / "scripts/packages.txt").read_text().splitlines()]
    chosen = [row[0] for row in rows if row and row[1] in ("library", "header")]
    return [name for name in chosen if name not in _NOT_IN_A_WHEEL]


def sources_of(packages: list[str]) -> dict[str, str]:
    """{source package: its version} of installed packages of this Debian or Ubuntu."""
    asked = ["dpkg-query", "--show", "--showformat", "${source:Package} ${source:Version}\\n", *packages]
    try:
        said = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: the versions of libraries are asked of dpkg: {getattr(error, 'stderr', '') or error}")
    return dict(line.split(" ", 1) for line in said.splitlines())


def system_libraries() -> list[Component]:
    """The libraries of the system, by their source packages."""
    system = platform.freedesktop_os_release()
    where = f"?arch=source&distro={quote(system['ID'])}-{quote(system.get('VERSION_ID', 'unstable'))}"
    sources = sources_of(library_packages())
    return [component("deb", f"{system['ID']}/{name}", version, where) for name, version in sources.items()]


def nanobind() -> Component:
    """What binds the extension of Python is compiled into it."""
    pins = [line.partition("==") for line in (ROOT / "requirements-build.txt").read_text().splitlines()]
    return component("pypi", "nanobind", next(version for name, _, version in pins if name == "nanobind"))


def npm_packages() -> list[Component]:
    """The packages in the page, with their hashes and licenses."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text())
    found = []
    for place, facts in lock["packages"].items():
        if not place or facts.get("dev"):
            continue
        algorithm, _, digest = facts["integrity"].partition("-")
        one = component("npm", place.rpartition("node_modules/")[2], facts["version"])
        one["hashes"] = [{"alg": f"SHA-{algorithm[3:]}", "content": base64.b64decode(digest).hex()}]
        one["licenses"] = [{"expression": facts["license"]}]
        found.append(one)
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} STAGE")
    print(main(pathlib.Path(sys.argv[1])))
