import assert from "node:assert/strict";
import test from "node:test";
import { pythonTokens } from "../../src/python.ts";

test("the parts of a line are the line", () => {
  for (const line of ['x = x * (1 + torch.log(a - "b#c").tanh() / 1e-3)  # why', "f'{x!r}' if None else r\"\\\"", "", "    return <script>", "'unfinished", "é = 0x1F"]) {
    assert.equal(pythonTokens(line).map((token) => token.text).join(""), line);
  }
});

test("keywords, texts, numbers and comments are found", () => {
  const kinds = pythonTokens('return "a" + 12  # end').filter((token) => token.kind !== "plain").map((token) => [token.kind, token.text]);
  assert.deepEqual(kinds, [["keyword", "return"], ["text", '"a"'], ["number", "12"], ["comment", "# end"]]);
});
