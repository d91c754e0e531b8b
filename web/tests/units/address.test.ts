import assert from "node:assert/strict";
import test from "node:test";
import { faultsOf, inWords, understood } from "../../src/address.ts";
import { parseLink } from "../../src/link.ts";

const KNOWN = { d: ["0"], r: ["0", "1 of run7"], g: ["0", "1"], s: ["0", "1", "2", "20"] };

test("a word that no part may have is named, with what is expected, and is not used", () => {
  const route = parseLink("#/op?s=abc&t=zz&path=back&tab=values&op=a/b&f=anything(");
  assert.deepEqual(faultsOf(route, null).map(({ name, found }) => [name, found]), [["s", "abc"], ["t", "zz"], ["path", "back"]]);
  assert.deepEqual(understood(route.query), { tab: "values", op: "a/b", f: "anything(" });
  assert.deepEqual(faultsOf(parseLink("#/op?s=abc&t=zz"), KNOWN).map(({ expected }) => expected), ["0-2, 20", "i0, o0 …"]);
});

test("what the dump does not have is a fault once the dump is known", () => {
  const route = parseLink("#/ops?d=1&r=5&g=7&s=3");
  assert.deepEqual(faultsOf(route, null), []);
  assert.deepEqual(faultsOf(route, KNOWN).map(({ name, expected }) => [name, expected]), [["d", "0"], ["r", "0, 1 of run7"], ["g", "0-1"], ["s", "0-2, 20"]]);
  assert.deepEqual(faultsOf(parseLink("#/ops?r=1 of run7&g=1&s=020"), KNOWN), []);
  assert.deepEqual(faultsOf(route, { d: ["1"], r: [], g: [], s: [] }), []); // an empty dump expects nothing
});

test("a part with the name of a method of all objects is a part like others", () => {
  const route = parseLink("#/ops?constructor=1&toString=2&k=ops");
  assert.deepEqual(faultsOf(route, KNOWN), []);
  assert.equal(understood(route.query).k, "ops");
});

test("a screen that there is not", () => {
  const [fault] = faultsOf(parseLink("#/nowhere?s=1"), KNOWN);
  assert.deepEqual([fault?.name, fault?.found], ["", "nowhere"]);
  assert.match(fault?.expected ?? "", /^overview, ops, /);
  assert.deepEqual(faultsOf(parseLink(""), KNOWN), []);
  assert.deepEqual(faultsOf(parseLink("#/"), KNOWN), []);
});

test("numbers in a row are a range, and very many are cut off", () => {
  assert.equal(inWords(["3", "4", "5", "9", "x"]), "3-5, 9, x");
  assert.match(inWords(Array.from({ length: 40 }, (_, i) => String(2 * i))), /^0, 2, .* 22 …$/);
});
