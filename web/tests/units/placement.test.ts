import assert from "node:assert/strict";
import { test } from "node:test";
import { parsePlacement } from "../../src/placement.ts";

test("a placement is read as docs/format.md writes it", () => {
  assert.deepEqual(parsePlacement("Shard(0) of (16, 8) on tp=2, from (8, 0)"), { dimensions: [{ mesh: "tp=2", placement: "Shard(0)" }], shape: "(16, 8)", from: "(8, 0)" });
  assert.deepEqual(parsePlacement("Replicate, Shard(1) of (4, 16) on data=2 × tensor=2, from (0, 8)"), {
    dimensions: [{ mesh: "data=2", placement: "Replicate" }, { mesh: "tensor=2", placement: "Shard(1)" }], shape: "(4, 16)", from: "(0, 8)",
  });
  assert.deepEqual(parsePlacement("Partial(sum) of () on tp=2"), { dimensions: [{ mesh: "tp=2", placement: "Partial(sum)" }], shape: "()", from: "" });
  assert.deepEqual(parsePlacement("StridedShard(0, 2), Shard(0) of (8) on a=2 × b=2")?.dimensions.map(({ placement }) => placement), ["StridedShard(0, 2)", "Shard(0)"]);
});

test("another text, and one with more placements than dimensions, is none", () => {
  for (const text of ["", "rows 0 to 3 of a whole", "Shard(0), Shard(1) of (4, 4) on tp=4"]) assert.equal(parsePlacement(text), null, text);
});
