"""Runs msaccucmp of mindstudio-probe, in .venv-probe: to import it takes a second, so many commands share a process.

    probe_commands.py FILE    FILE holds a JSON list of lists of arguments; prints a JSON list of [status, log]

The package leaves the headers of dump files to a closed library of CANN, `libascend_dump_parser.so`. Here
container_reader.py replaces only that library: types, formats, shapes and numbers are the package's own work.
"""

import io
import json
import pathlib
import struct
import sys

from container_reader import fields, shape_of

# Names of the header's fields, by number.
OUTPUT = {1: "data_type", 2: "format", 3: "shape", 6: "size", 7: "original_shape", 8: "sub_format", 9: "address"}
INPUT = {1: "data_type", 2: "format", 3: "shape", 5: "size", 6: "original_shape", 7: "sub_format", 8: "address"}
BUFFER = {1: "buffer_type", 3: "size"}
ATTRIBUTE = {1: "name", 2: "value"}
SPACE = {1: "type", 3: "size"}
HEADER = {1: "version", 2: "dump_time", 6: "op_name"}
LISTS = {3: ("output", OUTPUT), 4: ("input", INPUT), 5: ("buffer", BUFFER), 7: ("attr", ATTRIBUTE), 8: ("space", SPACE)}


def described(message, names):
    """A message in the form of the library's JSON."""
    result = {}
    for number, value in fields(message):
        name = names.get(number)
        if name in ("shape", "original_shape"):
            result[name] = {"dim": list(shape_of(value))}
        elif name:
            result[name] = value.decode() if isinstance(value, bytes) else value
    return result


def header_of(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    message = data[8 : 8 + length]
    result = described(message, HEADER)
    for number, value in fields(message):
        if number in LISTS:
            name, names = LISTS[number]
            result.setdefault(name, []).append(described(value, names))
    return result


def main():
    commands = json.loads(pathlib.Path(sys.argv[1]).read_text())
    answer, log = sys.stdout, io.StringIO()
    sys.stdout = sys.stderr = log  # before the import: its log keeps the stream it finds
    import msprobe

    sys.path.insert(0, str(pathlib.Path(msprobe.__file__).parent / "msaccucmp"))
    import msaccucmp
    from dump_parse.big_dump_data import BigDumpDataParser

    def read_header(parser):
        parser.dump_json_data = header_of(parser.dump_file_path)

    BigDumpDataParser._parse_dump_to_json = read_header
    results = []
    for command in commands:
        sys.argv = ["msaccucmp.py", *command]
        log.seek(0)
        log.truncate()
        try:
            msaccucmp.main()
        except SystemExit as end:
            results.append([end.code, log.getvalue()])
    json.dump(results, answer)


if __name__ == "__main__":
    main()
