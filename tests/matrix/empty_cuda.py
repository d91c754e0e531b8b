"""Empty libraries in place of those of CUDA that a torch for GPUs needs at its import.

Most versions of PyTorch exist only for GPUs (PyPI); with all of CUDA one environment takes 7 GB. There is no GPU here,
so the functions of these libraries are never called. The runtime of CUDA itself, which reports whether there is a GPU,
must be the real one.
"""

import collections
import pathlib
import re
import subprocess
import tempfile

_OF_CUDA = re.compile(r"lib(cu|nv|nccl)")
_SYMBOL_OF_CUDA = re.compile(r"(cu|nv|nccl|__cu|__nv)")


def put_into(torch_lib):
    """Makes the libraries that those in `torch_lib` need and that are missing. Does nothing for a torch for CPUs."""
    needed, defined, plain = set(), set(), set()
    owner, versioned = {}, collections.defaultdict(set)  # version -> its library, its symbols
    present = list(torch_lib.glob("*.so*"))
    for library in present:
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", library)))
        owner |= _versions(library)
        for name, version, is_defined in _symbols(library):
            if is_defined:
                defined.add(name)
            elif version:
                versioned[version].add(name)
            else:
                plain.add(name)
    missing = sorted(name for name in needed - {library.name for library in present} if _OF_CUDA.match(name))
    # Symbols without a version may belong to any library: the first one gets them.
    left = {name for name in plain - defined if _SYMBOL_OF_CUDA.match(name)}
    for library in missing:
        versions = {version: versioned[version] for version in versioned if owner.get(version) == library}
        _make(torch_lib / library, versions, left)
        left = set()


def _make(path, versions, plain):
    functions = "".join(f"void {name}(void) {{}}\n" for name in sorted(plain.union(*versions.values())))
    script = "".join(
        f"{version} {{ global: {' '.join(f'{n};' for n in sorted(v))} }};\n" for version, v in versions.items()
    )
    with tempfile.TemporaryDirectory() as directory:
        source, symbols = pathlib.Path(directory, "empty.c"), pathlib.Path(directory, "empty.map")
        source.write_text(functions)
        symbols.write_text(script)
        command = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", "-o", path, source, f"-Wl,-soname,{path.name}"]
        subprocess.run([*command, *([f"-Wl,--version-script={symbols}"] if versions else [])], check=True)


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _versions(library):
    """{version: library} of the symbol versions that a library needs."""
    found, file = {}, None
    for line in output_of("readelf", "-V", library).splitlines():
        if match := re.search(r"File: (\S+)", line):
            file = match[1]
        elif file and (match := re.search(r"Name: (\S+)\s+Flags", line)):
            found[match[1]] = file
    return found


def _symbols(library):
    for line in output_of("nm", "-D", "--with-symbol-versions", library).splitlines():
        *_, kind, symbol = line.split()
        name, _, version = symbol.replace("@@", "@").partition("@")
        yield name, version, kind not in "Uw"
