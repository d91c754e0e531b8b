"""Fetches what the adapter's compiler needs of a torch, and not the hundreds of megabytes of its libraries.

    python scripts/torch_headers.py 2.9.1 build/torch/2.9.1

The folder then looks like a torch to sonde/adapter.py: headers, version, the ABI of libstdc++, and empty libraries of
the right names to link with. The wheel is the one that pip would install; only the needed parts are read from it.
"""

import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request
import zipfile

_WANTED = re.compile(r"torch/(include/.*|version\.py|share/cmake/Torch/TorchConfig\.cmake)")
_LIBRARIES = ("torch_cpu", "torch_python", "c10")
_BLOCK = 1 << 20


class RemoteFile(io.RawIOBase):
    """A file of a web server, read in blocks of a megabyte; what was read is kept."""

    def __init__(self, url):
        self._url, self._position, self._blocks = url, 0, {}
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:
            self._size = int(answer.headers["Content-Length"])

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self._position

    def seek(self, offset, whence=io.SEEK_SET):
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def readinto(self, buffer):
        number, start = divmod(self._position, _BLOCK)
        if self._position >= self._size:
            return 0
        if number not in self._blocks:
            first = number * _BLOCK
            wanted = {"Range": f"bytes={first}-{min(first + _BLOCK, self._size) - 1}"}
            with urllib.request.urlopen(urllib.request.Request(self._url, headers=wanted)) as answer:
                self._blocks[number] = answer.read()
        data = self._blocks[number][start : start + len(buffer)]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def url_of(version):
    """The URL from which pip would fetch the wheel, for a Python that has one."""
    for python in ("3.11", "3.12"):
        with tempfile.TemporaryDirectory() as scratch:
            report = pathlib.Path(scratch, "report.json")
            command = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--dry-run",
                "--ignore-installed",
                "--no-deps",
            ]
            command += ["--only-binary=:all:", "--python-version", python, "--target", scratch, "--report", str(report)]
            done = subprocess.run([*command, f"torch=={version}"], check=False, capture_output=True, text=True)
            if done.returncode == 0:
                return json.loads(report.read_text())["install"][0]["download_info"]["url"]
    raise SystemExit(f"cannot find torch {version}: {done.stderr.strip().splitlines()[-1]}")


def _open(url):
    if url.startswith("file:"):
        return pathlib.Path(urllib.request.url2pathname(url.removeprefix("file://"))).open("rb")
    return io.BufferedReader(RemoteFile(url), _BLOCK)


def fetch(version, directory):
    torch = directory / "torch"
    if (torch / "lib/libc10.so").exists():
        return
    with _open(url_of(version)) as remote, zipfile.ZipFile(remote) as wheel:
        names = [entry for entry in wheel.infolist() if _WANTED.fullmatch(entry.filename)]
        for entry in sorted(names, key=lambda entry: entry.header_offset):
            wheel.extract(entry, directory)
    (torch / "__init__.py").write_text("")
    (torch / "lib").mkdir()
    for name in _LIBRARIES:  # the last of them says that all is there
        path = torch / f"lib/lib{name}.so"
        subprocess.run(
            ["cc", "-shared", "-nostdlib", "-o", path, f"-Wl,-soname,{path.name}", "-x", "c", "/dev/null"], check=True
        )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    fetch(sys.argv[1], pathlib.Path(sys.argv[2]))
