import assert from "node:assert/strict";
import { test } from "node:test";
import type { Loss } from "../../src/answers.ts";
import { meanLosses } from "../../src/parts/losses.ts";

const loss = (step: number, value: Loss["value"], rank = "0"): Loss => ({ rank, graph: 0, step, op_name: "mse_loss-op0", slot: 0, value });

test("a step of several micro-batches has their mean", () => {
  assert.deepEqual(meanLosses([loss(0, 1), loss(0, 3), loss(1, 5)]), [{ rank: "0", step: 0, y: 2 }, { rank: "0", step: 1, y: 5 }]);
});

test("one that was not recorded does not count, and a step without any has no point", () => {
  assert.deepEqual(meanLosses([loss(0, null), loss(0, 3), loss(1, null)]), [{ rank: "0", step: 0, y: 3 }]);
});

test("one that is NaN or infinite shows", () => {
  const means = meanLosses([loss(0, 1), loss(0, "nan"), loss(1, 1), loss(1, "inf")]);
  assert.deepEqual(means.map(({ y }) => y), [NaN, Infinity]);
});

test("ranks are apart", () => {
  assert.deepEqual(meanLosses([loss(0, 1, "0"), loss(0, 3, "1")]).map(({ rank, y }) => [rank, y]), [["0", 1], ["1", 3]]);
});
