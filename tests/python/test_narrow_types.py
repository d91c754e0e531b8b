"""Statistics of 16-bit and 8-bit floats beside what their bits mean by the formats' definitions, computed with integers
here: neither NumPy's nor PyTorch's conversions take part. Every code of each type is in the tensors.

IEEE 754 binary16; bfloat16 is the upper half of binary32; OCP 8-bit Floating Point Specification (E4M3 without
infinities, E5M2) and Microscaling Formats (E8M0); the "fnuz" forms have one zero and one NaN, code 0x80."""

import dataclasses
import math

import dumps
import pytest


@dataclasses.dataclass(frozen=True)
class Narrow:
    name: str  # of torch
    bits: int
    exponent_bits: int
    bias: int
    specials: str  # ieee: the greatest exponent is infinity or NaN; fn: all ones is NaN; fnuz: only 0x80 is

    def value(self, code):
        """The number for `code`; nan, inf included."""
        mantissa_bits = self.bits - 1 - self.exponent_bits
        sign = -1.0 if code >> (self.bits - 1) else 1.0
        exponent = code >> mantissa_bits & (1 << self.exponent_bits) - 1
        mantissa = code & (1 << mantissa_bits) - 1
        if self.specials == "ieee" and exponent == (1 << self.exponent_bits) - 1:
            return math.nan if mantissa else sign * math.inf
        if self.specials == "fn" and code & (1 << self.bits - 1) - 1 == (1 << self.bits - 1) - 1:
            return math.nan
        if self.specials == "fnuz" and code == 1 << self.bits - 1:
            return math.nan
        if exponent == 0:
            return sign * math.ldexp(mantissa, 1 - self.bias - mantissa_bits)
        return sign * math.ldexp((1 << mantissa_bits) + mantissa, exponent - self.bias - mantissa_bits)


class E8M0(Narrow):
    def value(self, code):
        return math.nan if code == 255 else math.ldexp(1.0, code - 127)


TYPES = {
    each.name: each
    for each in (
        Narrow("float16", 16, 5, 15, "ieee"),
        Narrow("bfloat16", 16, 8, 127, "ieee"),
        Narrow("float8_e4m3fn", 8, 4, 7, "fn"),
        Narrow("float8_e5m2", 8, 5, 15, "ieee"),
        Narrow("float8_e4m3fnuz", 8, 4, 8, "fnuz"),
        Narrow("float8_e5m2fnuz", 8, 5, 16, "fnuz"),
        E8M0("float8_e8m0fnu", 8, 8, 127, "fn"),
    )
}
PROGRAM = """
    import math, sys
    import torch
    from test_narrow_types import TYPES

    for name, narrow in TYPES.items():
        codes = range(1 << narrow.bits)
        carrier = torch.int16 if narrow.bits == 16 else torch.uint8
        for chosen in (codes, [code for code in codes if math.isfinite(narrow.value(code))]):
            signed = [code - (1 << 16) if narrow.bits == 16 and code >= 1 << 15 else code for code in chosen]
            torch.tensor(signed, dtype=carrier).view(getattr(torch, name)).clone()
"""

CATEGORIES = ["max", "min", "avg", "l2norm", "nan count", "negative inf count", "positive inf count"]
CATEGORIES += ["zero count", "negative zero count", "positive zero count"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """{type: (row of all codes, row of the finite ones)}"""
    import json
    import pathlib
    import sys
    import textwrap

    from processes import run_in, settings_of

    directory = tmp_path_factory.mktemp("narrow", numbered=True)
    dump = directory / "dump"
    (directory / "run.py").write_text(textwrap.dedent(PROGRAM))
    settings = settings_of(dump, None, {"step": "manual"}, {"statistic_category": CATEGORIES, "input_output": 2})
    (directory / "config.json").write_text(json.dumps(settings))
    here = pathlib.Path(__file__).parent
    run = run_in(
        directory, dump, sys.executable, "run.py", MINDSPORE_DUMP_CONFIG=directory / "config.json", PYTHONPATH=here
    )
    assert run.status == 0, run.stderr
    found = [row for row in dumps.statistics(dump) if row["Op Type"] == "clone"]
    assert len(found) == 2 * len(TYPES), run.stderr
    return {name: (found[2 * i], found[2 * i + 1]) for i, name in enumerate(TYPES)}


@pytest.mark.parametrize("name", TYPES)
def test_counts_of_every_code_are_those_of_the_definition(name, rows):
    values = [TYPES[name].value(code) for code in range(1 << TYPES[name].bits)]
    row = rows[name][0]
    expected = {
        "NaN Count": sum(map(math.isnan, values)),
        "Negative Inf Count": values.count(-math.inf),
        "Positive Inf Count": values.count(math.inf),
        "Zero Count": values.count(0),
        "Negative Zero Count": sum(value < 0 for value in values),
        "Positive Zero Count": sum(value > 0 for value in values),
    }
    assert {column: int(row[column]) for column in expected} == expected


@pytest.mark.parametrize("name", TYPES)
def test_extremes_mean_and_norm_of_all_finite_values_are_those_of_the_definition(name, rows):
    values = [TYPES[name].value(code) for code in range(1 << TYPES[name].bits)]
    values = [value for value in values if math.isfinite(value)]
    row = rows[name][1]
    assert float(row["Max Value"]) == pytest.approx(max(values), rel=1e-5)
    assert float(row["Min Value"]) == pytest.approx(min(values), rel=1e-5)
    assert float(row["L2Norm Value"]) == pytest.approx(math.sqrt(math.fsum(v * v for v in values)), rel=1e-5)
    mean = math.fsum(values) / len(values)
    magnitude = math.fsum(map(abs, values)) / len(values)  # groups are added as floats (docs/format.md)
    assert float(row["Avg Value"]) == pytest.approx(mean, rel=1e-5, abs=1e-6 * magnitude)
