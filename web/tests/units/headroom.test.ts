// The rows of the headroom map: scopes with the sums of their tensors.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { HeadroomTensor } from "../../src/answers.ts";
import { scopeLines } from "../../src/screens/headroom_scopes.ts";

const tensor = (op_name: string, headroom: number, counts: Partial<HeadroomTensor["as_dtypes"][number]> = {}): HeadroomTensor => ({
  op_name, op_type: "Mul", source_file: "", source_line: 0, side: "output", slot: 0, parameter: "", dtype: "float32", rank: 0, graph: "", step: 1, recordings: 1, from_values: 1,
  elements: 100, infinite_count: 0, max_abs: 1, least_abs: 1, headroom: 100,
  as_dtypes: [{ dtype: "float16", overflows: headroom < 0, headroom, ...counts }],
} as unknown as HeadroomTensor);

const counted = (overflow_count: number, underflow_count = 0) => ({ overflow_count, underflow_count, subnormal_count: 0 });

const TENSORS = [
  tensor("Default/net-Net/blocks/1-Block/mul-op0", -2, counted(10)),
  tensor("Default/net-Net/blocks/1-Block/add-op0", 3, counted(0, 50)),
  tensor("Default/net-Net/blocks/0-Block/mul-op0", 4),
];

test("a scope has the sums of its tensors, the least headroom and the one that loses most", () => {
  const [all, first, ...others] = scopeLines(TENSORS, new Map());
  assert.deepEqual([all?.kind, all?.losses.get("float16")], ["all", first?.losses.get("float16")]);
  assert.equal(first?.name, "Default/net-Net/blocks"); // scopes with one scope in them are one row
  assert.deepEqual(others.map(({ name, depth, open }) => [name, depth, open]), [["1-Block", 1, false], ["0-Block", 1, false]]);
  const loss = first?.losses.get("float16");
  assert.deepEqual([loss?.overflows, loss?.headroom, loss?.elements, loss?.overflow, loss?.underflow, loss?.tensors, loss?.counted], [true, -2, 200, 10, 50, 3, 2]);
  assert.equal(loss?.worst, TENSORS[0]);
  assert.equal(others[1]?.losses.get("float16")?.overflows, false);
});

test("scopes open and close, and a long one shows its first rows", () => {
  const open = scopeLines(TENSORS, new Map([["Default/net-Net/blocks/1-Block", true]]));
  assert.deepEqual(open.map(({ name, kind }) => [name, kind]), [["", "all"], ["Default/net-Net/blocks", "scope"], ["1-Block", "scope"], ["mul-op0", "op"], ["add-op0", "op"], ["0-Block", "scope"]]);
  assert.equal(scopeLines(TENSORS, new Map([["Default/net-Net/blocks", false]])).length, 2);
  const many = Array.from({ length: 50 }, (_, i) => tensor(`Default/mul-op${i}`, i));
  const shown = scopeLines(many, new Map());
  assert.deepEqual([shown.length, shown.at(-1)?.kind, shown.at(-1)?.name], [15, "more", "38"]);
  assert.equal(scopeLines(many, new Map(), new Set(["Default"])).length, 52);
});

test("of two that do not overflow the one with the larger share that becomes 0 is worse", () => {
  const [, line] = scopeLines([tensor("Default/a-op0", 1, counted(0, 1)), tensor("Default/b-op0", 9, counted(0, 60))], new Map());
  assert.equal(line?.losses.get("float16")?.worst.op_name, "Default/b-op0");
});
