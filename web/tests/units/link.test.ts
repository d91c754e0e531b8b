import assert from "node:assert/strict";
import test from "node:test";
import { formatLink, parseLink, type Route } from "../../src/link.ts";
import { splitToken } from "../../src/source/token.ts";

test("a link and its state are the same, whatever is in the names", () => {
  const routes: Route[] = [
    { screen: "overview", query: {} },
    { screen: "op", query: { s: "2", op: "Default/net/log-op0", t: "o0", tab: "values", at: "0,0,:,1:10" } },
    { screen: "ops", query: { f: 'op:^a+b$ nan_count>0 "two words" 100% #x&y=z', sort: "-l2norm" } },
    { screen: "graph", query: { r: "0 of run7", op: "<img src=x onerror=alert(1)>/é‮" } },
  ];
  for (const route of routes) assert.deepEqual(parseLink(formatLink(route)), route);
});

test("defaults are left out, and the order does not depend on the order of the clicks", () => {
  assert.equal(formatLink({ screen: "op", query: { t: "o0", d: "0", op: "a/b", s: "3", at: "" } }), "#/op?s=3&op=a/b&t=o0");
  assert.equal(formatLink({ screen: "op", query: { op: "a/b", s: "3", t: "o0" } }), "#/op?s=3&op=a/b&t=o0");
});

test("rank 0 and graph 0 are choices: the finding may be of another rank", () => {
  assert.equal(formatLink({ screen: "op", query: { g: "0", r: "0", d: "0", s: "0", op: "a" } }), "#/op?r=0&g=0&s=0&op=a");
});

test("an unknown screen is the overview, and a damaged escape stays as it is", () => {
  assert.equal(parseLink("#/nowhere?s=1").screen, "overview");
  assert.equal(parseLink("").screen, "overview");
  assert.equal(parseLink("#/op?op=50%").query.op, "50%");
});

test("the token leaves the address", () => {
  assert.deepEqual(splitToken("#token=abc"), { token: "abc", rest: "" });
  assert.deepEqual(splitToken("#/op?s=2&token=abc"), { token: "abc", rest: "#/op?s=2" });
  assert.deepEqual(splitToken("#/op?token=abc&s=2"), { token: "abc", rest: "#/op?s=2" });
  assert.deepEqual(splitToken("#/op?op=token"), { token: "", rest: "#/op?op=token" });
});
