import assert from "node:assert/strict";
import test from "node:test";
import { differencesOf, over } from "../../src/difference.ts";
import type { Npy } from "../../src/npy.ts";

const npy = (shape: number[], values: readonly number[]): Npy => ({ dtype: "<f8", shape, values, bytes: new Uint8Array() });

test("differences of two tensors: by size, with a tolerance that is a part of the right one", () => {
  const [left, right] = [npy([2, 2], [1, 2, -3, 4]), npy([2, 2], [1, 1, 1, 5])];
  const found = differencesOf(left, right, () => 0);
  assert.deepEqual([found.beyond, found.elements], [3, 4]);
  assert.deepEqual([...found.difference.values], [NaN, 1, -4, -1]);
  assert.deepEqual([found.difference.low, found.difference.high], [-4, 1]);
  const half = differencesOf(left, right, (value) => 0.5 * Math.abs(value));
  assert.deepEqual([half.beyond, ...half.difference.values], [2, NaN, 1, -4, NaN]);
  assert.deepEqual([...over(found.difference, 2).values], [NaN, 0.5, 2, 0.5]);
});

test("a NaN or an infinity on one side alone is a difference, and equal ones are none", () => {
  const found = differencesOf(npy([4], [NaN, Infinity, 1, Infinity]), npy([4], [NaN, Infinity, NaN, -Infinity]), () => Infinity);
  assert.equal(found.beyond, 2);
  assert.deepEqual([...found.difference.bad], [0, 0, 1, 2]);
});

test("of many elements in a cell the largest difference and every NaN stay visible", () => {
  const size = 1000 * 1000;
  const left = new Float64Array(size);
  left[123_457] = -7;
  left[999_999] = NaN;
  const found = differencesOf({ dtype: "<f8", shape: [1000, 1000], values: left, bytes: new Uint8Array() }, { dtype: "<f8", shape: [1000, 1000], values: new Float64Array(size), bytes: new Uint8Array() }, () => 0);
  assert.deepEqual([found.difference.rows, found.difference.columns], [256, 256]);
  assert.equal(found.difference.low, -7);
  assert.equal(found.difference.bad.at(-1), 1);
  assert.equal(found.beyond, 2);
});

test("a tensor without elements has no differences", () => {
  const found = differencesOf(npy([0, 3], []), npy([0, 3], []), () => 0);
  assert.deepEqual([found.beyond, found.elements, found.difference.values.length], [0, 0, 0]);
  assert.equal(differencesOf(npy([], [1]), npy([], [2]), () => 0).beyond, 1);
});
