import assert from "node:assert/strict";
import test from "node:test";
import { formatBytes, formatNumber } from "../../src/numbers.ts";

test("numbers look as the command prints them, with %g", () => {
  const texts: [number | "nan" | "inf" | "-inf" | null, string][] = [
    [0, "0"], [-0, "-0"], [1, "1"], [0.1, "0.1"], [-0.06259888410568237, "-0.0625989"], [123456, "123456"], [1234567, "1.23457e+06"], [999999.5, "1e+06"],
    [1e-5, "1e-05"], [0.0001, "0.0001"], [0.00012345678, "0.000123457"], [1.5e300, "1.5e+300"], [100, "100"], [2.77117e18, "2.77117e+18"],
    ["nan", "nan"], ["-inf", "-inf"], [Infinity, "inf"], [null, ""],
  ];
  for (const [value, text] of texts) assert.equal(formatNumber(value), text);
});

test("bytes have a unit", () => {
  assert.deepEqual([999, 2_812_000, 4e9].map(formatBytes), ["999 B", "2.8 MB", "4.0 GB"]);
});
