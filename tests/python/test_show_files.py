"""The files that `sonde show` writes: pictures, checked pixel by pixel, and values as text that NumPy reads back."""

import json
import struct
import subprocess
import zlib

import numpy as np
import pytest
from processes import CLI

SHOWN, BAD_USAGE = 0, 2
WHITE, BLACK, NAN, POSITIVE_INF, NEGATIVE_INF = 0, 1, 4, 5, 6
FIRST_SHADE, LAST_SHADE = 16, 255


def show(*arguments):
    return subprocess.run([CLI, "show", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def picture(path):
    """Indices into the palette, by row and column; checks every check sum."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(name + body)
        chunks[name] = body
        at += 12 + size
    assert list(chunks) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    width, height, depth, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, kind, len(chunks[b"PLTE"])) == (8, 3, 768)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    return rows[:, 1:]


def drawn(tmp_path, values, *arguments):
    np.save(tmp_path / "values.npy", values)
    result = show(tmp_path / "values.npy", "--picture", tmp_path / "out.png", *arguments)
    assert result.returncode == SHOWN, result.stderr
    return picture(tmp_path / "out.png")


def boxes_of(pixels, colour):
    """(top, left, height, width) of the one block of this colour below the legend."""
    rows, columns = np.nonzero(pixels[110:] == colour)
    assert rows.size, f"no pixel of colour {colour}"
    box = rows.min() + 110, columns.min(), np.ptp(rows) + 1, np.ptp(columns) + 1
    assert rows.size == box[2] * box[3]
    return box


def test_a_map_shows_each_element_and_marks_what_is_not_finite(tmp_path):
    values = np.zeros((1, 1, 4, 6), np.float32)
    values[0, 0, 1, 2], values[0, 0, 2, 3], values[0, 0, 3, 0] = np.nan, np.inf, -np.inf
    values[0, 0, 0, 0], values[0, 0, 0, 5] = -1, 1
    pixels = drawn(tmp_path, values)
    top, left, cell, width = boxes_of(pixels, FIRST_SHADE)  # the least value, in the first corner
    assert cell == width > 1
    assert boxes_of(pixels, NAN) == (top + cell, left + 2 * cell, cell, cell)
    assert boxes_of(pixels, POSITIVE_INF) == (top + 2 * cell, left + 3 * cell, cell, cell)
    assert boxes_of(pixels, NEGATIVE_INF) == (top + 3 * cell, left, cell, cell)
    assert boxes_of(pixels, LAST_SHADE) == (top, left + 5 * cell, cell, cell)
    assert (pixels[:110] == NAN).any(), "the legend names the colour"
    assert (pixels[:40] == BLACK).sum() > 100, "there is a title"


def test_maps_stand_in_a_grid_with_one_scale_or_with_their_own(tmp_path):
    values = np.arange(3 * 2 * 2, dtype=np.float64).reshape(3, 2, 2)
    together = drawn(tmp_path, values)
    assert boxes_of(together, FIRST_SHADE)[:2] < boxes_of(together, LAST_SHADE)[:2]
    assert (together[110:] == LAST_SHADE).sum() == boxes_of(together, LAST_SHADE)[2] ** 2
    apart = drawn(tmp_path, values, "--scale", "map")
    assert (apart[110:] == LAST_SHADE).sum() == 3 * (together[110:] == LAST_SHADE).sum()


def test_elements_that_share_a_pixel_do_not_hide_a_nan(tmp_path):
    values = np.random.default_rng(0).normal(size=(1900, 2000)).astype(np.float16)
    values[1234, 567] = np.nan
    pixels = drawn(tmp_path, values)
    assert pixels.shape[0] < 1000
    assert boxes_of(pixels, NAN)[2:] == (1, 1)


@pytest.mark.parametrize("kind", [np.bool_, np.int16, np.uint8, np.complex64, np.float64])
def test_maps_of_every_kind_of_number(tmp_path, kind):
    values = np.array([[0, 1], [1, 0]]).astype(kind)
    pixels = drawn(tmp_path, values)
    assert (pixels[110:] == FIRST_SHADE).sum() == (pixels[110:] == LAST_SHADE).sum() > 100


def test_a_histogram_has_a_bar_for_each_bin_and_for_what_is_not_finite(tmp_path):
    values = np.array([0] * 10 + [1] * 20 + [np.nan] * 5 + [np.inf] * 20)
    pixels = drawn(tmp_path, values, "--bins", "2")
    bars = {colour: (pixels[60:] == colour).sum(axis=0).max() for colour in (8, NAN, POSITIVE_INF)}
    assert bars[8] == bars[POSITIVE_INF] == 4 * bars[NAN]
    heights = (pixels[60:] == 8).sum(axis=0)
    assert sorted(set(heights[heights > 0])) == [bars[8] // 2, bars[8]]


def tree(directory, steps):
    for step, values in steps.items():
        below = directory / "rank_0" / "Net" / "0" / str(step)
        below.mkdir(parents=True)
        np.save(
            below / f"MatMul.Default_MatMul-op0.0.0.170000000000000{step}.output.0.DefaultFormat.Float32.npy", values
        )
    return directory


def test_the_trend_is_a_table_json_and_a_picture(tmp_path):
    dump = tree(tmp_path / "dump", {1: np.float32([1, -2]), 3: np.float32([np.nan, 5]), 4: np.float32([3, 3])})
    result = show(dump, "MatMul-op0", "--trend", "max,nan_count", "--picture", tmp_path / "t.png", "--json")
    assert json.loads(result.stdout)["trend"] == [
        {"rank": 0, "step": 1, "max": 1, "nan_count": 0},
        {"rank": 0, "step": 3, "max": "nan", "nan_count": 1},
        {"rank": 0, "step": 4, "max": 3, "nan_count": 0},
    ]
    pixels = picture(tmp_path / "t.png")
    assert (pixels == NAN).sum() > 20
    assert (pixels == 8).sum() > 500
    table = show(dump, "MatMul-op0", "--trend", "max").stdout
    assert table.splitlines()[-3:] == ["   1    1", "   3  nan", "   4    3"]


@pytest.mark.parametrize(
    "values",
    [
        np.float32([[[1 / 3, 1e-45], [np.nan, -np.inf]], [[0.1, -0.0], [3.4e38, 5]]]),
        np.random.default_rng(1).normal(size=(3, 4, 5)),
        np.array([2**63 - 1, -(2**63)], np.int64),
        np.array([[True, False]]),
        np.float16([6e-8, 65504]),
        np.asfortranarray(np.arange(12).reshape(3, 4)),
        np.float64(1 / 3),
        np.complex64([[1 / 3 - 2j, complex(0, np.nan)]]),
    ],
    ids=lambda values: f"{values.dtype}{values.shape}",
)
def test_values_as_text_read_back_as_they_were(tmp_path, values):
    np.save(tmp_path / "v.npy", values)
    result = show(tmp_path / "v.npy", "--txt", tmp_path / "v.txt")
    assert result.returncode == SHOWN, result.stderr
    lines = (tmp_path / "v.txt").read_text().splitlines()
    assert lines[1] == f"# shape ({','.join(map(str, values.shape))}) dtype {values.dtype}"
    read = np.loadtxt(tmp_path / "v.txt", dtype=values.dtype if values.dtype != bool else np.int8, ndmin=2)
    rows = values.reshape(-1, values.shape[-1] if values.ndim else 1)
    np.testing.assert_array_equal(read, rows)
    assert show(tmp_path / "v.npy", "--txt", "-").stdout.splitlines()[1:] == lines[1:]


@pytest.mark.parametrize(
    "shape, arguments, message",
    [
        ((3,), ["--picture", "x.png", "--plot", "maps"], "two dimensions or more"),
        ((0, 3), ["--picture", "x.png"], "none of size 0"),
        ((0,), ["--picture", "x.png"], "it has no element"),
        ((2, 2), ["--picture", "x.gif"], "expected a name that ends in .png"),
        ((2, 2), ["--plot", "maps"], "--plot needs --picture"),
        ((2, 2), ["--trend", "maximum"], "did you mean 'max'?"),
        ((2, 2), ["--trend", "max"], "needs the dump"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_reason(tmp_path, monkeypatch, shape, arguments, message):
    monkeypatch.chdir(tmp_path)
    np.save("v.npy", np.zeros(shape, np.float32))
    result = show("v.npy", *arguments)
    assert (result.returncode, message in result.stderr) == (BAD_USAGE, True), result.stderr
    assert not (tmp_path / "x.png").exists()


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    np.save(tmp_path / "v.npy", np.zeros((2, 2)))
    result = show(tmp_path / "v.npy", "--picture", tmp_path / "none" / "x.png")
    assert result.returncode == 3
    assert "x.png': no such file or directory" in result.stderr
