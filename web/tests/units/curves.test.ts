import assert from "node:assert/strict";
import { test } from "node:test";
import type { Loss } from "../../src/answers.ts";
import { besideOther, curvesByRank, meanLosses } from "../../src/parts/curves.ts";

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

test("each of a few ranks has its curve", () => {
  const { x, curves } = curvesByRank([{ rank: "0", step: 2, y: 1 }, { rank: "1", step: 2, y: 3 }, { rank: "0", step: 4, y: null }], "loss", "0");
  assert.deepEqual(x, [2, 4]);
  assert.deepEqual(curves.map(({ values }) => values), [[1, null], [3, null]]);
});

test("of many ranks the chosen one is between the lowest and the highest", () => {
  const points = Array.from({ length: 20 }, (_, rank) => [{ rank: `${rank}`, step: 0, y: rank }, { rank: `${rank}`, step: 1, y: rank === 7 ? NaN : 5 }]).flat();
  const { curves } = curvesByRank(points, "loss", "3");
  assert.deepEqual(curves.map(({ values }) => values), [[3, 5], [0, 5], [19, NaN]]);
});

test("another run is beside its own at the steps that both have", () => {
  const own = curvesByRank([{ rank: "0", step: 0, y: 1 }, { rank: "0", step: 1, y: 2 }], "target", "0");
  const { x, curves } = besideOther(own, [{ rank: "0", step: 1, y: 5 }, { rank: "0", step: 2, y: 6 }, { rank: "1", step: 1, y: 7 }], "0", "golden");
  assert.deepEqual(x, [0, 1]);
  assert.deepEqual(curves.map(({ label, values }) => [label, values]), [["target", [1, 2]], ["golden", [null, 5]]]);
  assert.deepEqual(besideOther(own, [{ rank: "0", step: 9, y: 5 }], "0", "golden"), own);
});
