// What the health map shows: levels of scopes from the server, and the rows that are made of them.
import type { Class } from "../api.ts";
import { formatCount } from "../numbers.ts";
import { WORSE } from "../parts/ui.tsx";
import type { Query, Source, Table } from "../source/source.ts";
import { words } from "../words.ts";
import { arrange, type Cells } from "./cells.ts";

export const PAGE_ROWS = 100; // of one question; as kHealthRows in src/face/server/html_report.cpp
const MOST_LEVELS = 60;
const MOST_RANKS = 64; // as kHealthRanks there
const MOST_DEPTH = 24;
const FEW_ROWS = 30; // that a page must have after folding; else the next one is read, too
const MOST_PAGES = 10; // that are read without being asked for
const LEAST_FOLD = 3;
const LEAST_FINE = 5;

export interface Health {
  state: Class;
  worstOp: string;
  worstStep: number;
  opens: boolean;
}

export interface HealthLevel {
  rank: string;
  scope: string; // what it is below
  cells: Cells<Health>;
  all: number; // rows, also those that were not asked for
}

// What a person has opened and closed; all else is as it is at first.
export interface Choices {
  toggled: ReadonlyMap<string, boolean>; // scopes, and folds by their first row
  pages: ReadonlyMap<string, number>; // of scopes with many rows: how many pages are shown
}

export interface Asked {
  query: Query;
  ranks: readonly string[];
  op: string; // the finding; empty: there is none
  choices: Choices;
}

export const isIn = (name: string, scope: string): boolean => name.startsWith(`${scope}/`);

// Each open scope is a question of its own. At first those around the finding are open, without one the first root; and only children.
// Of the other ranks one row is shown, which opens that rank: those about this one, in one question.
export async function readLevels(from: Source, { query, ranks, op, choices }: Asked, signal: AbortSignal): Promise<HealthLevel[]> {
  const levels: HealthLevel[] = [];
  const read = async (rank: string, under: string, depth: number): Promise<void> => {
    const level = await readLevel(from, { ...query, rank, under }, choices.pages.get(under) ?? 1, op, isIn(op, under) || !under ? op : "", signal);
    levels.push(level);
    if (rank !== query.rank) return;
    const scopes = level.cells.rows.filter((_, row) => opensAt(level.cells, row));
    for (const scope of scopes) {
      const around = op ? isIn(op, scope) : depth === 0 && scope === scopes[0];
      const isOpen = choices.toggled.get(scope) ?? (around || (depth > 0 && level.all === 1));
      if (isOpen && levels.length < MOST_LEVELS && depth < MOST_DEPTH) await read(rank, scope, depth + 1);
    }
  };
  const own = String(query.rank);
  await read(own, "", 0);
  if (ranks.length < 2 || !ranks.includes(own)) return levels;
  const first = Math.floor(ranks.indexOf(own) / MOST_RANKS) * MOST_RANKS;
  const table = await from.table("health", { ...query, by: "rank", first_row: first, rows: MOST_RANKS }, signal);
  const worst = arrange<Health>([table], "row", healthIn);
  return ranks.slice(first, first + MOST_RANKS).flatMap((rank) => (rank === own ? levels : [levelOfRank(worst, rank)]));
}

// The worst cells of a rank, as a level of one row.
function levelOfRank({ rows, columns, at }: Cells<Health>, rank: string): HealthLevel {
  const row = rows.indexOf(rank);
  return { rank, scope: "", all: 1, cells: { rows: [rank], columns, at: (_, column) => at(row, column) } };
}

const healthIn = (table: Table, i: number): Health => ({
  state: String(table.get("class", i)) as Class, worstOp: String(table.get("worst_op", i)), worstStep: Number(table.get("worst_step", i)),
  opens: Boolean(table.get("has_children", i)),
});

// At least so many pages; more while equal rows leave few, or `op` is on a later one.
async function readLevel(from: Source, query: Query, pages: number, finding: string, op: string, signal: AbortSignal): Promise<HealthLevel> {
  const page = (number: number): Promise<Table> => from.table("health", { ...query, first_row: number * PAGE_ROWS, rows: PAGE_ROWS }, signal);
  const tables = await Promise.all(Array.from({ length: pages }, (_, number) => page(number)));
  const all = tables[0]?.rows ? Number(tables[0].get("row_count", 0)) : 0;
  for (;;) {
    const cells = arrange<Health>(tables, "row", healthIn);
    const isWhole = foldsOf(cells, finding).length >= FEW_ROWS && (!op || cells.rows.some((name) => name === op || isIn(op, name)));
    if (isWhole || tables.length >= MOST_PAGES || tables.length * PAGE_ROWS >= all) return { rank: String(query.rank), scope: String(query.under), cells, all };
    tables.push(await page(tables.length));
  }
}

const opensAt = (cells: Cells<Health>, row: number): boolean => cells.columns.some(({ number }) => cells.at(row, number)?.opens);

// "to" of to-op12, "Block" of 3-Block; empty: nothing is equal to it.
export const kindOf = (label: string): string => /^(.+)-op\d+$/.exec(label)?.[1] ?? /^\d+-(.+)$/.exec(label)?.[1] ?? "";

// No step has a value of the operator: memory that nobody has written yet, views of it.
const isEmpty = (cells: Cells<Health>, row: number): boolean =>
  !opensAt(cells, row) && cells.columns.every(({ number }) => (cells.at(row, number)?.state ?? "not_recorded") === "not_recorded");

// An operator with nothing wrong in any step.
const isFine = (cells: Cells<Health>, row: number): boolean =>
  !opensAt(cells, row) && cells.columns.every(({ number }) => ["fine", "not_recorded"].includes(cells.at(row, number)?.state ?? "not_recorded"));

// Neighbours that look alike, which is a text; empty: like no other.
function runsOf(rows: readonly number[], looksOf: (row: number) => string): number[][] {
  const runs: number[][] = [];
  let last = "";
  for (const row of rows) {
    const looks = looksOf(row);
    if (looks && looks === last) runs.at(-1)?.push(row);
    else runs.push([row]);
    last = looks;
  }
  return runs;
}

// Neighbouring rows of one kind with equal cells, as the graph folds them, or without any value: their numbers, a row alone as one.
// Beside a finding, operators of any kind with nothing wrong, where they are many.
export function foldsOf(cells: Cells<Health>, finding: string, among: readonly number[] = [...cells.rows.keys()]): number[][] {
  const looksOf = (row: number): string => {
    const name = cells.rows[row] as string;
    const kind = kindOf(name.slice(name.lastIndexOf("/") + 1));
    return isEmpty(cells, row) ? "nothing" : kind && [kind, opensAt(cells, row), ...cells.columns.map(({ number }) => cells.at(row, number)?.state)].join(" ");
  };
  const leastOf = (row: number): number => (isEmpty(cells, row) ? 2 : LEAST_FOLD);
  const alike = (rows: readonly number[]): number[][] => runsOf(rows, looksOf).flatMap((run) => (run.length < leastOf(run[0] as number) ? run.map((row) => [row]) : [run]));
  if (!finding) return alike(among);
  const folds = (row: number): boolean => finding !== cells.rows[row] && isFine(cells, row);
  return runsOf(among, (row) => (folds(row) ? "fine" : "worse")).flatMap((run) => {
    const inner = alike(run);
    return inner.length < LEAST_FINE || !folds(run[0] as number) ? inner : [run];
  });
}

// The name of rows that are folded.
function nameOfFold(cells: Cells<Health>, rows: readonly number[], scope: string): string {
  if (rows.every((row) => isEmpty(cells, row))) return words.map.withoutValues(rows.length);
  const [kind = "", ...others] = new Set(rows.map((row) => kindOf(shorten(cells.rows[row] as string, scope))));
  return kind && !others.length ? `${kind} × ${rows.length}` : words.map.nothingWrong(rows.length);
}

export interface HealthLine {
  kind: "scope" | "op" | "fold" | "rank" | "more"; // more: rows of `scope` that this line brings
  name: string;
  scope: string; // its full name
  title: string;
  depth: number;
  open: boolean;
  at: (column: number) => Health | undefined; // by the number of the column
}

// The rows of all levels, children after their parent, and a row for each rank where there are several.
// `nameOfRank`: also its place in each dimension of the parallel work.
export function linesOf(levels: readonly HealthLevel[], rank: string, toggled: Choices["toggled"], finding: string, nameOfRank = (of: string): string => `${words.bar.rank} ${of}`): HealthLine[] {
  const lines: HealthLine[] = [];
  const own = levels.filter((level) => level.rank === rank);
  const bands = levels.filter((level) => level.scope === "");
  const innerOf = (scope: string): HealthLevel | undefined => own.find((level) => level.scope === scope && scope !== "");
  const addRow = ({ scope, cells }: HealthLevel, row: number, depth: number): void => {
    const at = (column: number): Health | undefined => cells.at(row, column);
    // A scope whose only content is another one has no row of its own.
    let name = cells.rows[row] as string;
    for (let inner = innerOf(name); inner?.all === 1 && opensAt(inner.cells, 0); inner = innerOf(name)) name = inner.cells.rows[0] as string;
    const inner = innerOf(name);
    const kind = opensAt(cells, row) ? "scope" : "op";
    lines.push({ kind, name: shorten(name, scope), scope: name, title: name, depth, open: Boolean(inner), at });
    if (inner) add(inner, depth + 1);
  };
  const add = (level: HealthLevel, depth: number): void => {
    const { scope, cells, all } = level;
    addFolds(level, foldsOf(cells, finding), depth);
    const more = all - cells.rows.length;
    if (more > 0) lines.push({ kind: "more", name: words.map.more(formatCount(more)), scope, title: scope, depth, open: false, at: () => undefined });
  };
  const addFolds = (level: HealthLevel, folds: number[][], depth: number): void => {
    const { scope, cells } = level;
    for (const rows of folds) {
      const [row = 0] = rows;
      const inner = rows.length > 1 ? foldsOf(cells, "", rows) : [];
      const key = `fold ${cells.rows[row] as string}${inner.length > 1 ? " of any kind" : ""}`;
      const open = toggled.get(key) ?? rows.some((member) => innerOf(cells.rows[member] as string));
      if (rows.length > 1) {
        const at = (column: number): Health | undefined => rows.map((member) => cells.at(member, column)).find((cell) => cell?.state === "fine") ?? cells.at(row, column);
        const [name, title] = [nameOfFold(cells, rows, scope), `${cells.rows[row]} … ${cells.rows[rows.at(-1) as number]}`];
        lines.push({ kind: "fold", name, scope: key, title, depth, open, at });
      }
      if (inner.length > 1 && open) addFolds(level, inner, depth + 1);
      else if (rows.length === 1 || open) for (const member of rows) addRow(level, member, depth + Number(rows.length > 1));
    }
  };
  for (const band of bands) {
    if (bands.length > 1) {
      const name = nameOfRank(band.rank);
      lines.push({ kind: "rank", name, scope: band.rank, title: name, depth: 0, open: band.rank === rank, at: (column) => worstOf(band.cells, column) });
    }
    if (band.rank === rank) add(band, bands.length > 1 ? 1 : 0);
  }
  return lines;
}

const shorten = (name: string, under: string): string => (isIn(name, under) ? name.slice(under.length + 1) : name);

function worstOf({ rows, at }: Cells<Health>, column: number): Health | undefined {
  const cells = rows.map((_, row) => at(row, column)).filter((cell) => cell !== undefined);
  return cells.reduce<Health | undefined>((worst, cell) => (worst && WORSE[worst.state] >= WORSE[cell.state] ? worst : cell), undefined);
}
