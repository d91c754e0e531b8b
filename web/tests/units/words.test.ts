import assert from "node:assert/strict";
import test from "node:test";
import { words as en } from "../../src/words.en.ts";
import { words as zh } from "../../src/words.zh.ts";

// The path and the kind of every word: a text, a function with so many values, a list of so many entries.
function shape(value: unknown, path = ""): string[] {
  if (typeof value === "function") return [`${path}(${value.length})`];
  if (typeof value === "string") return [path];
  return Object.entries(value as object).flatMap(([name, inner]) => shape(inner, `${path}.${name}`));
}

test("the Chinese words are the English ones, each of them and no other", () => {
  assert.deepEqual(shape(zh).sort(), shape(en).sort());
  assert.deepEqual(zh.keys.list.map(([key]) => key), en.keys.list.map(([key]) => key));
});

test("every sentence is in Chinese; names of formats and letters of the keyboard stay", () => {
  const same: string[] = [];
  const visit = (a: unknown, b: unknown, path: string): void => {
    if (typeof a === "string") {
      if (a === b && /[a-z]{4}.* [a-z]{2}/i.test(a)) same.push(path);
    } else if (typeof a === "object" && a !== null) for (const [name, inner] of Object.entries(a)) visit(inner, (b as Record<string, unknown>)[name], `${path}.${name}`);
  };
  visit(en, zh, "");
  assert.deepEqual(same.filter((path) => !/filterHint$/i.test(path)), []);
});
