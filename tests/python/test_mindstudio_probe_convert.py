"""`sonde msaccucmp convert` beside the original, the package mindstudio-probe: the same files, byte for byte.

Intended differences have separate tests, each with the original's behaviour; src/guests/msaccucmp/README.md lists them.
"""

import io
import math
from collections import Counter

import cann_files as cann
import numpy as np
from probe import needs_probe, original, ours

pytestmark = needs_probe

SEED = 20261123
NAME = "Conv2D.conv1.3.7.1700000000000000"
TYPES = {
    "f2": 2, "f4": 1, "f8": 12, "i1": 3, "u1": 4, "i2": 5, "u2": 6, "i4": 7, "u4": 9, "i8": 8, "u8": 10, "?": 11,
    "c8": 16, "c16": 17,
}  # fmt: skip
FORMATS = {
    "NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "HWCN": 16, "FRACTAL_NZ": 29, "NCDHW": 30,
    "NDC1HWC0": 32,
}  # fmt: skip


def tensor(random, dtype, shape, format_name="ND", original_shape=None, *, groups=0):
    """Random bytes, padding included."""
    count = math.prod(shape)
    data = (
        random.integers(0, 2, count, "u1").tobytes() if dtype == "?" else random.bytes(count * np.dtype(dtype).itemsize)
    )
    return cann.Tensor(
        data, TYPES[dtype], shape, cann_format=FORMATS[format_name], original=original_shape, groups=groups
    )


class Case:
    """One file and one call; `files` are the files that a program wrote, by name."""

    def __init__(self, root, number, data, *options, name=NAME):
        self.directory = root / str(number)
        self.directory.mkdir()
        self.dump = self.directory / name
        self.dump.write_bytes(data)
        self.options = options
        self.about = ""

    def command(self, out):
        return ["convert", "-d", self.dump, "-out", self.directory / out, *self.options]

    def files(self, out):
        directory = self.directory / out
        return {path.name: path.read_bytes() for path in directory.iterdir()} if directory.exists() else {}


def run(cases, root):
    """Runs both programs on each case; returns [(case, status and files of ours, of theirs)]."""
    theirs = original([case.command("theirs") for case in cases], root)
    mine = [ours(case.command("ours")) for case in cases]
    return [
        (case, (mine[i].status, case.files("ours")), (theirs[i].status, case.files("theirs")))
        for i, case in enumerate(cases)
    ]


def is_of_columns_first(data):
    return data.startswith(b"\x93NUMPY") and b"'fortran_order': True" in data[:200]


def check_same(results):
    for case, (status, files), (their_status, their_files) in results:
        assert (status, sorted(files)) == (their_status, sorted(their_files)), case.about
        for name, data in their_files.items():
            if is_of_columns_first(data):  # numpy.save does so if both orders are equal; Sonde always writes rows first
                left, right = np.load(io.BytesIO(files[name])), np.load(io.BytesIO(data))
                assert (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes()), (
                    case.about
                )
            else:
                assert files[name] == data, (case.about, name)


def rearrangements():
    """(format, stored shape, original shape, requested format): all that both programs know."""
    image = {"NCHW": (2, 19, 5, 7), "NHWC": (2, 5, 7, 19), "HWCN": (5, 7, 19, 2)}
    for wanted, real in image.items():
        for blocks, width in ((2, 16), (5, 4)):
            yield "NC1HWC0", (2, blocks, 5, 7, width), real, wanted
        yield "NC1HWC0", (2, 2, 5, 7, 16), None, wanted
    yield "FRACTAL_Z", (12, 2, 16, 16), (20, 19, 3, 2), "NCHW"
    yield "FRACTAL_Z", (12, 2, 16, 16), (3, 2, 19, 20), "HWCN"
    yield "FRACTAL_Z", (12, 2, 16, 16), None, "NCHW"  # 26
    for wanted in ("ND", "NCHW", "NHWC"):
        yield "FRACTAL_NZ", (2, 2, 16, 16), (30, 20), wanted
        yield "FRACTAL_NZ", (1, 2, 16, 16), (32, 16), wanted
        yield "FRACTAL_NZ", (3, 2, 2, 16, 16), (3, 30, 20), wanted
        yield "FRACTAL_NZ", (3, 2, 2, 16, 16), (30, 20), wanted  # 6
    plain = [("NCHW", "NHWC"), ("NHWC", "NCHW"), ("NHWC", "HWCN"), ("HWCN", "NCHW"), ("HWCN", "NHWC"), ("NCHW", "ND")]
    plain += [(name, name) for name in image] + [(name, "FRACTAL_Z") for name in image]
    for shape in ((3, 5, 7, 2), (1, 1, 5, 3), (1, 1, 1, 1), (20, 33, 2, 3)):
        for name, wanted in plain:
            yield name, shape, None, wanted
    yield "NDC1HWC0", (2, 3, 2, 5, 7, 16), (2, 19, 3, 5, 7), "NCDHW"
    yield "NDC1HWC0", (2, 3, 2, 5, 7, 16), (2, 19, 3, 5, 7), "ND"


def test_formats_byte_for_byte(tmp_path):
    random = np.random.default_rng(SEED)
    cases = []
    for number, (name, shape, real, wanted) in enumerate(rearrangements()):
        dtype = list(TYPES)[number % len(TYPES)]
        kind = ("npy", "npy", "msnpy", "bin")[number % 4]
        data = cann.container([tensor(random, dtype, shape, name, real)], [tensor(random, "f2", shape, name, real)])
        case = Case(tmp_path, number, data, "-f", wanted, "-t", kind)
        case.about = f"{dtype} {name} {shape} {real} to {wanted}, {kind}"
        cases.append(case)
    groups = [("NCHW", (32, 8, 2, 3)), ("NHWC", (32, 2, 3, 8)), ("HWCN", (2, 3, 8, 32))]
    for number, (name, shape) in enumerate(groups, len(cases)):
        case = Case(tmp_path, number, cann.container([tensor(random, "f2", shape, name, groups=2)]), "-f", "FRACTAL_Z")
        case.about = f"two groups, {name}"
        cases.append(case)
    results = run(cases, tmp_path)
    check_same(results)
    statuses = Counter(status for _, (status, _), _ in results)
    assert set(statuses) == {0, 6, 22, 26} and statuses[0] > 0.8 * len(cases)


def test_tensors_in_their_own_format_byte_for_byte(tmp_path):
    random = np.random.default_rng(SEED + 1)
    cases = []
    for number, kind in enumerate(("npy", "msnpy", "bin")):
        tensors = [tensor(random, dtype, (number + 1, 5)) for dtype in TYPES]
        more = [tensor(random, "f4", (2, 1, 3, 3, 16), "NC1HWC0", (2, 3, 3, 3)), tensor(random, "i4", (1,))]
        data = cann.container(tensors, more, buffers=[b"buffer", b""], spaces=[b"log"], op_name="net/block/conv1")
        cases.append(Case(tmp_path, number, data, "-t", kind))
    # bfloat16 and small floats for which the original's arithmetic is right: finite numbers
    words = random.integers(0, 0x7F80, 64, "u2")
    cases.append(Case(tmp_path, 3, cann.container([cann.Tensor(words.tobytes(), cann.BF16, (8, 8))])))
    cases.append(Case(tmp_path, 4, b"\x07" * 8))
    cases.append(Case(tmp_path, 5, cann.container([tensor(random, "f4", (2, 3))])[:-1]))
    cases.append(Case(tmp_path, 6, cann.nano([(np.float32([[1, 2]]), (1, 2))], [(np.uint8([3, 4, 5]), (3,))])))
    for case, about in zip(cases, ("npy", "msnpy", "bin", "bfloat16", "8 bytes", "cut off", "nano"), strict=True):
        case.about = about
    results = run(cases, tmp_path)
    check_same([result for result in results if result[0].about not in ("8 bytes", "cut off")])
    for case, (status, files), (their_status, their_files) in results[4:6]:
        assert (their_status, their_files, files) == (0 if case.about == "8 bytes" else 11, {}, {}), case.about
        assert status == 11


def test_what_differs_on_purpose(tmp_path):
    random = np.random.default_rng(SEED + 2)

    def case(number, stored, *options):
        return Case(tmp_path, number, cann.container([stored]), *options)

    grouped = np.arange(1, 32 * 8 * 6 + 1, dtype="f4").reshape(32, 8, 2, 3)
    cases = [
        case(0, tensor(random, "f4", (2, 3, 2, 2, 16, 16), "FRACTAL_NZ", (2, 3, 30, 20)), "-f", "ND"),
        case(1, cann.Tensor(grouped, cann_format=cann.NCHW, groups=4), "-f", "FRACTAL_Z"),
        case(2, cann.Tensor(np.float32([7]), shape=()), "-f", "ND"),
        case(3, np.zeros((2, 0), "f2")),
        case(4, tensor(random, "f2", (2, 5, 7, 19), "NHWC", (2, 19, 5, 7)), "-f", "NCHW"),
        case(5, tensor(random, "f2", (6,), "NCHW"), "-f", "NCHW"),
        case(6, tensor(random, "f2", (2, 3, 5, 7), "NCHW"), "-f", "NC1HWC0"),
    ]
    mine, theirs = [], []
    for _, *sides in run(cases, tmp_path):
        for (status, files), arrays in zip(sides, (mine, theirs), strict=True):
            arrays.append(np.load(io.BytesIO(*files.values())) if files else status)
    # There, FRACTAL_NZ of rank 4 loses a dimension, and nothing else does.
    assert (theirs[0].shape, mine[0].shape) == ((6, 30, 20), (2, 3, 30, 20))
    assert theirs[0].tobytes() == mine[0].tobytes()
    # There, with more groups than fit a block, the later ones overwrite the earlier ones.
    assert theirs[1].shape == mine[1].shape
    assert np.count_nonzero(theirs[1]) < grouped.size
    assert sorted(mine[1][mine[1] != 0]) == grouped.reshape(-1).tolist()
    assert (theirs[2].shape, mine[2].shape) == ((), (1,))
    assert (theirs[3].dtype, mine[3].dtype, theirs[3].shape, mine[3].shape) == (np.float64, np.float16, (2, 0), (2, 0))
    # There, a real shape in another order crops a plain tensor.
    assert (theirs[4].shape, mine[4].shape) == ((2, 19, 5, 7), (2, 19, 5, 7))
    # Refused there; but a tensor of one dimension is the same in every order, and NC1HWC0 can be made.
    assert (theirs[5], mine[5].shape) == (22, (6,))
    assert (theirs[6], mine[6].shape) == (22, (2, 1, 5, 7, 16))


def test_a_directory_of_several_formats_is_converted_as_a_whole_and_has_no_list_of_failures(tmp_path):
    random = np.random.default_rng(SEED + 3)
    (tmp_path / "dump").mkdir()
    for number, stored in enumerate(
        (tensor(random, "f2", (2, 5, 7, 19), "NCHW"), tensor(random, "f2", (2, 1, 5, 7, 16), "NC1HWC0", (2, 7, 5, 7)))
    ):
        (tmp_path / "dump" / f"Op.op{number}.{number}.7.170000000000000{number}").write_bytes(cann.container([stored]))
    command = ["convert", "-d", tmp_path / "dump", "-f", "FRACTAL_Z", "-out"]
    (theirs,) = original([[*command, tmp_path / "theirs"]], tmp_path)
    mine = ours([*command, tmp_path / "ours"])
    assert (theirs.status, mine.status) == (22, 0)
    failed = "convert_failed_file_list.txt"
    assert "Op.op1.1.7.1700000000000001,input:0" in (tmp_path / "theirs" / failed).read_text()
    assert len(list((tmp_path / "ours").glob("*.npy"))) == 2
    assert not (tmp_path / "ours" / failed).exists()
