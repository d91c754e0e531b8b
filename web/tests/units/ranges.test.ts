import assert from "node:assert/strict";
import { test } from "node:test";
import { tickTexts, xRange, yRange } from "../../src/parts/ranges.ts";

test("the axis of one step has this step in its middle, whatever uPlot proposes", () => {
  assert.deepEqual(xRange([0], 0, 100), [-1, 1]);
  assert.deepEqual(xRange([7], 0, 14), [6, 8]);
  assert.deepEqual(xRange([0, 1, 2], 0, 2), [0, 2]);
  assert.deepEqual(xRange([0, 1, 2, 3], 1, 2), [1, 2]); // chosen with the mouse
});

test("an axis of values leaves room, and a few early steps do not spoil it", () => {
  assert.deepEqual(yRange([null, NaN], 0, 0), [0, 1]);
  const [low, high] = yRange([2, 2], 2, 2);
  assert.ok(low < 2 && high > 2 && high < 3);
  assert.ok(yRange([1e9, ...Array.from({ length: 200 }, (_, i) => i)], 0, 1e9)[1] < 1000);
});

test("the numbers of an axis have as many digits as tell them apart", () => {
  assert.deepEqual(tickTexts([0, 0.5, null, 1]), ["0", "0.5", "", "1"]);
  assert.deepEqual(tickTexts([2.82842712, 2.82842713, 2.82842714]), ["2.82842712", "2.82842713", "2.82842714"]);
  assert.deepEqual(tickTexts([1, 1]), ["1", "1"]);
});
