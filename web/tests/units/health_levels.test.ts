import assert from "node:assert/strict";
import { test } from "node:test";
import type { Query, Source, Table } from "../../src/source/source.ts";

// What the page's state reads of a browser when it is loaded.
const nothing = { getItem: (): null => null, addEventListener: (): void => undefined, matches: false };
Object.assign(globalThis, { location: { hash: "", search: "", pathname: "/" }, localStorage: nothing, sessionStorage: nothing, matchMedia: () => nothing, addEventListener: nothing.addEventListener });
const { readLevels } = await import("../../src/screens/health_levels.ts");

// A server with ranks of one scope and one step, of which those in `bad` have a NaN.
function serverOf(ranks: readonly string[], bad: readonly string[], asked: Query[]): Source {
  const table = async (_: string, query: Query): Promise<Table> => {
    asked.push(query);
    const first = Number(query.first_row);
    const shown = query.by === "rank" ? ranks.slice(first, first + Number(query.rows)) : [String(query.rank)];
    const rows = shown.map((rank, i) => ({
      row: query.by === "rank" ? rank : "Default", row_number: query.by === "rank" ? first + i : 0, column: 0, first_step: 0, last_step: 0,
      class: bad.includes(rank) ? "nan" : "fine", worst_op: "", worst_step: 0, has_children: query.by === "rank", row_count: query.by === "rank" ? ranks.length : 1,
    }));
    return { count: rows.length, rows: rows.length, generation: 0, command: "", get: (column, i) => (rows[i] as Record<string, unknown>)[column], row: <Row>(i: number) => rows[i] as Row };
  };
  return { table } as unknown as Source;
}

const choices = { toggled: new Map(), pages: new Map() };
const numbers = (count: number): string[] => Array.from({ length: count }, (_, rank) => String(rank));

test("the ranks about the chosen one are one question, however many there are", async () => {
  const ranks = numbers(4096);
  const asked: Query[] = [];
  const levels = await readLevels(serverOf(ranks, ["3001", "3040"], asked), { query: { rank: "3000", graph: 0 }, ranks, op: "", choices }, new AbortController().signal);
  assert.equal(asked.length, 2);
  assert.deepEqual(levels.map(({ rank }) => rank), ranks.slice(2944, 3008));
  assert.deepEqual(levels.filter(({ cells }) => cells.at(0, 0)?.state === "nan").map(({ rank }) => rank), ["3001"]);
});

test("a rank without a step of this graph has an empty row, and one alone asks for no other", async () => {
  const asked: Query[] = [];
  const levels = await readLevels(serverOf(["0", "2"], [], asked), { query: { rank: "2" }, ranks: ["0", "1", "2"], op: "", choices }, new AbortController().signal);
  assert.deepEqual(levels.map(({ rank, cells }) => [rank, cells.at(0, 0)?.state]), [["0", "fine"], ["1", undefined], ["2", "fine"]]);
  asked.length = 0;
  await readLevels(serverOf(["0"], [], asked), { query: { rank: "0" }, ranks: ["0"], op: "", choices }, new AbortController().signal);
  assert.equal(asked.length, 1);
});
