import assert from "node:assert/strict";
import { test } from "node:test";
import { groupsOf } from "../../src/groups.ts";
import { shortName } from "../../src/names.ts";
import { lacksRanks } from "../../src/ranks.ts";

test("what is alike is one group, in the order of the first", () => {
  assert.deepEqual(groupsOf(["b1", "a1", "b2", "c1", "a2"], (name) => name.slice(0, 1)), [["b1", "b2"], ["a1", "a2"], ["c1"]]);
  assert.deepEqual(groupsOf([], String), []);
});

test("a rank below the largest, or the last one, that is missing; of several dumps nothing is known", () => {
  assert.equal(lacksRanks(["0", "1", "2"], 3), false);
  assert.equal(lacksRanks(["0", "2"], 0), true);
  assert.equal(lacksRanks(["3"], 1), true);
  assert.equal(lacksRanks(["0", "1"], 3), true);
  assert.equal(lacksRanks(["0", "1"], 0), false);
  assert.equal(lacksRanks([], 4), false);
  assert.equal(lacksRanks(["0 of run7", "1 of run8"], 4), false);
});

test("a long name loses its middle, never its ends", () => {
  assert.equal(shortName("layer_norm-op0"), "layer_norm-op0");
  const short = shortName(`${"a_long_name_".repeat(900)}first-Linear`);
  assert.ok(short.length <= 48);
  assert.match(short, /^a_long_name_.*….*first-Linear$/);
});
