// Rows of a comparison, chosen by the words of a filter and put in order: pairs of operators, and correspondences of tensors.
import { matchNames, type Pattern } from "../patterns.ts";
import { filterRows, type Row, sortRows } from "../source/rows.ts";
import { words } from "../words.ts";
import { openWorker } from "../worker.ts";

export interface Choice<T> {
  names: (one: T) => readonly string[]; // of operators and parameters, on both sides
  type: (one: T) => string; // of the operator
  cells: (one: T) => Row; // what a filter and an order look at
  kinds: Readonly<Record<string, true>>; // columns with words: `verdict:introduced`
  flags: Readonly<Record<string, true>>; // columns that are there or not: `moved:yes`
}

// What of a word is a pattern: op:REGEX, or a glob of the names, or of a type. Null: nothing.
function patternsOf(word: string): Pattern[] | null {
  if (word.startsWith("op:")) return [{ source: word.slice(3), flags: "" }];
  if (/[:<>=!"]/.test(word)) return null;
  const glob = word.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replace(/\*\*?/g, (stars) => (stars === "**" ? ".*" : "[^/]*"));
  return [{ source: `^(.*/)?${glob}$`, flags: "" }, { source: `^${glob}$`, flags: "i" }];
}

type Sets = ReadonlyMap<string, readonly ReadonlySet<string>[]>;

// The words beside those of tables: patterns, kinds and flags.
function conditionOf<T>(by: Choice<T>, word: string, found: Sets): ((row: Row) => boolean) | null {
  const of = (row: Row): T => row.of as T;
  const [names, types] = found.get(word) ?? [];
  if (names) return (row) => by.names(of(row)).some((name) => names.has(name)) || Boolean(types?.has(by.type(of(row))));
  const colon = word.indexOf(":");
  const [name, value] = [word.slice(0, Math.max(0, colon)), word.slice(colon + 1)];
  if (Object.hasOwn(by.flags, name)) return (row) => Boolean(row[name]) === (value !== "no");
  return Object.hasOwn(by.kinds, name) ? (row) => String(row[name]) === value.replaceAll(" ", "_") : null;
}

// Fails on a filter that is none, and on a pattern that takes too long. `inOrder`: where no column sorts them.
export async function chooseRows<T>(all: readonly T[], by: Choice<T>, filter: string, sort: string, inOrder: (some: readonly T[]) => T[]): Promise<T[]> {
  const parts = filter.split(" ").filter(Boolean);
  const patterns = parts.flatMap((word) => patternsOf(word)?.map((pattern) => ({ word, pattern })) ?? []);
  const names = [...new Set(all.flatMap((one) => [...by.names(one), by.type(one)]))];
  const sets = await matchNames(patterns.map(({ pattern }) => pattern), names, openWorker, words.compare.slowFilter);
  const found = new Map<string, ReadonlySet<string>[]>();
  patterns.forEach(({ word }, i) => found.set(word, [...(found.get(word) ?? []), sets[i] as ReadonlySet<string>]));
  const rows = all.map((one): Row => ({ ...by.cells(one), of: one }));
  const chosen = filterRows(rows, filter, (word) => conditionOf(by, word, found));
  if (!chosen) throw new Error(words.compare.badFilter);
  const some = (sort ? sortRows(chosen, sort) : chosen).map((row) => row.of as T);
  return sort ? some : inOrder(some);
}
