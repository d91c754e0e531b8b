// The two pictures of the overview: health by scope and step, and the norms of gradients.
import { signal } from "@preact/signals";
import type { Class } from "../api.ts";
import { command, pythonGradients } from "../commands.ts";
import { css, viridis } from "../colours.ts";
import { formatCount, formatNumber, type Num } from "../numbers.ts";
import { Matrix } from "../parts/matrix.tsx";
import { Scale } from "../parts/heat.tsx";
import { Await, BAD, ClassMark, Command, Empty, SIGNS, WORSE } from "../parts/ui.tsx";
import type { Query, Source, Table } from "../source/source.ts";
import { change, dump, go, graph, keyOf, params, rank, ranks, report, step, steps, useData } from "../state.ts";
import { words } from "../words.ts";

const MOST_COLUMNS = 400;
const MOST_ROWS = 100; // of one question; as kHealthRows in src/face/server/html_report.cpp
const MOST_PARAMETERS = 60;
const LEGEND: readonly Class[] = ["nan", "infinity", "unjudged_infinity", "healthy_infinity", "fine", "not_measured"];

interface Cells<Cell> {
  rows: string[];
  columns: { first: number; last: number }[];
  at: Map<string, Cell>;
}

// The cells of a table with row_number and column, however many of them are there.
function arrange<Cell>(tables: readonly Table[], name: string, cell: (table: Table, i: number) => Cell): Cells<Cell> {
  const rows = new Map<number, string>();
  const columns = new Map<number, { first: number; last: number }>();
  const at = new Map<string, Cell>();
  for (const table of tables) {
    for (let i = 0; i < table.rows; i += 1) {
      const [row, column] = [Number(table.get("row_number", i)), Number(table.get("column", i))];
      rows.set(row, String(table.get(name, i)));
      columns.set(column, { first: Number(table.get("first_step", i)), last: Number(table.get("last_step", i)) });
      at.set(`${row} ${column}`, cell(table, i));
    }
  }
  const byNumber = <T,>(map: Map<number, T>): [number, T][] => [...map].sort((a, b) => a[0] - b[0]);
  const rowNumbers = byNumber(rows);
  const columnNumbers = byNumber(columns);
  const placed = new Map<string, Cell>();
  rowNumbers.forEach(([row], i) =>
    columnNumbers.forEach(([column], j) => {
      const found = at.get(`${row} ${column}`);
      if (found !== undefined) placed.set(`${i} ${j}`, found);
    }),
  );
  return { rows: rowNumbers.map(([, value]) => value), columns: columnNumbers.map(([, value]) => value), at: placed };
}

const columnNames = (columns: Cells<unknown>["columns"]): { name: string; title: string }[] =>
  columns.map(({ first, last }) => ({ name: String(first), title: words.map.steps(first, last) }));
const markedColumn = (columns: Cells<unknown>["columns"]): number => columns.findIndex(({ first, last }) => first <= step.value && step.value <= last);

interface Health {
  state: Class;
  worstOp: string;
  worstStep: number;
  opens: boolean;
}

interface HealthLevel {
  rank: string;
  scope: string; // what it is below
  cells: Cells<Health>;
  all: number; // rows, also those that were not asked for
}

// Which scopes are open, of this dump: it stays while the page is open.
const opened = signal<ReadonlySet<string> | null>(null);
const pagesOf = signal<ReadonlyMap<string, number>>(new Map()); // of scopes with many rows: how many pages are shown
const MOST_LEVELS = 60;
const MOST_RANKS = 64;

// Each open scope is a question of its own. Nothing was chosen yet: the first root is open, and only children. Of the other
// ranks one row is shown, which opens that rank.
async function readLevels(from: Source, query: Query, all: readonly string[], chosen: ReadonlySet<string> | null, signal: AbortSignal): Promise<HealthLevel[]> {
  const levels: HealthLevel[] = [];
  const read = async (of: string, under: string, depth: number): Promise<void> => {
    const pages = Array.from({ length: pagesOf.peek().get(under) ?? 1 }, (_, page) => page * MOST_ROWS);
    const tables = await Promise.all(pages.map((first) => from.table("health", { ...query, rank: of, under, first_row: first, rows: MOST_ROWS }, signal)));
    const cells = arrange<Health>(tables, "row", (table, i) => ({
      state: String(table.get("class", i)) as Class, worstOp: String(table.get("worst_op", i)), worstStep: Number(table.get("worst_step", i)),
      opens: Boolean(table.get("has_children", i)),
    }));
    const [table] = tables;
    levels.push({ rank: of, scope: under, cells, all: table?.rows ? Number(table.get("row_count", 0)) : 0 });
    if (of !== query.rank) return;
    const scopes = cells.rows.filter((_, row) => cells.columns.some((__, column) => cells.at.get(`${row} ${column}`)?.opens));
    for (const scope of scopes) {
      const first = depth === 0 ? scope === scopes[0] : scopes.length === 1 && depth < 4;
      if (levels.length < MOST_LEVELS && (chosen ? chosen.has(scope) : first)) await read(of, scope, depth + 1);
    }
  };
  for (const of of all.length ? all.slice(0, MOST_RANKS) : [String(query.rank)]) await read(of, "", 0);
  return levels;
}

export const healthQuery = (): Query => ({ dump: dump.value || undefined, rank: rank.value, graph: graph.value, w: MOST_COLUMNS });

export function HealthMap() {
  const zoomed = zoomedSteps();
  const query = { ...healthQuery(), steps: params.value.hm };
  const chosen = opened.value;
  const pages = JSON.stringify([...pagesOf.value]);
  const key = keyOf("health", { ...query, pages, ranks: ranks.value.join(), opened: chosen ? [...chosen].sort().join("\n") : "first" });
  const levels = useData(key, (from, signal) => readLevels(from, query, ranks.value, chosen, signal));
  const shown = new Set(levels.value?.flatMap((level) => [...level.cells.at.values()].map((cell) => cell.state)));
  return (
    <>
      <Zoom shown={zoomed} />
      <Await of={levels}>{(value) => <HealthPicture levels={value} />}</Await>
      <Command text={levels.value ? command("stats", [], query.steps ?? null) : ""} />
      <ul class="legend" aria-label={words.map.legend}>
        {LEGEND.filter((state) => shown.has(state)).map((state) => <li key={state}><ClassMark state={state} word /></li>)}
      </ul>
    </>
  );
}

// The part of the steps that the map shows, as places in `steps`; in the address it is `hm=10-50`.
interface Part {
  first: number;
  last: number;
}

function zoomedSteps(): Part {
  const all = steps.value;
  const [, from, to] = /^(\d+)-(\d+)$/.exec(params.value.hm ?? "") ?? [];
  const first = from === undefined ? 0 : all.findIndex((number) => number >= Number(from));
  const last = to === undefined ? all.length - 1 : all.findLastIndex((number) => number <= Number(to));
  return first < 0 || last < first ? { first: 0, last: all.length - 1 } : { first, last };
}

function showSteps({ first, last }: Part): void {
  const all = steps.value;
  const [from, to] = [Math.max(0, first), Math.min(all.length - 1, last)];
  change({ hm: from === 0 && to === all.length - 1 ? undefined : `${all[from]}-${all[to]}` }, true);
}

// Twice as large or small about a step, at least four steps.
function zoomAbout(by: number, step: number, { first, last }: Part): void {
  const all = steps.value.length;
  const length = Math.min(all, Math.max(4, Math.round((last - first + 1) / by)));
  const start = Math.min(Math.max(0, Math.round(step - length / 2)), all - length);
  showSteps({ first: start, last: start + length - 1 });
}

const FEW_STEPS = 24; // all of them are wide enough

function Zoom({ shown }: { shown: Part }) {
  const all = steps.value;
  const length = shown.last - shown.first + 1;
  if (report.value || all.length <= FEW_STEPS) return null;
  const middle = (shown.first + shown.last) / 2;
  const marked = all.indexOf(step.value);
  const about = marked >= shown.first && marked <= shown.last ? marked : middle;
  const move = (by: number): void => {
    const first = Math.min(Math.max(0, shown.first + by * Math.ceil(length / 2)), all.length - length);
    showSteps({ first, last: first + length - 1 });
  };
  return (
    <div class="buttons zoom">
      <button type="button" class="small" disabled={shown.first === 0} aria-label={words.map.earlier} onClick={() => move(-1)}>‹</button>
      <span class="soft" role="status">{words.map.steps(all[shown.first] ?? 0, all[shown.last] ?? 0)}</span>
      <button type="button" class="small" disabled={shown.last === all.length - 1} aria-label={words.map.later} onClick={() => move(1)}>›</button>
      <button type="button" class="small" disabled={length <= 4} aria-label={words.map.closer} onClick={() => zoomAbout(2, about, shown)}>+</button>
      <button type="button" class="small" disabled={length === all.length} aria-label={words.map.wider} onClick={() => zoomAbout(0.5, about, shown)}>−</button>
      {length < all.length && <button type="button" class="small" onClick={() => showSteps({ first: 0, last: all.length - 1 })}>{words.map.allSteps}</button>}
    </div>
  );
}

interface HealthLine {
  rank: string; // empty: a scope of the chosen rank
  more: number; // rows of `scope` that this line brings; 0: it is a row
  name: string;
  scope: string;
  depth: number;
  opens: boolean;
  open: boolean;
  at: (column: number) => Health | undefined;
}

// The rows of all levels, children after their parent, and a row for each rank where there are several.
function linesOf(levels: HealthLevel[]): HealthLine[] {
  const lines: HealthLine[] = [];
  const own = levels.filter((level) => level.rank === rank.value);
  const bands = levels.filter((level) => level.scope === "");
  const add = ({ scope, cells, all }: HealthLevel, depth: number): void => {
    cells.rows.forEach((name, row) => {
      const inner = own.find((level) => level.scope === name && name !== scope);
      const at = (column: number): Health | undefined => cells.at.get(`${row} ${column}`);
      lines.push({ rank: "", more: 0, name: shorten(name, scope), scope: name, depth, opens: cells.columns.some((_, column) => at(column)?.opens), open: Boolean(inner), at });
      if (inner) add(inner, depth + 1);
    });
    const more = all - cells.rows.length;
    if (more > 0) lines.push({ rank: "", more, name: words.map.more(formatCount(more)), scope, depth, opens: true, open: false, at: () => undefined });
  };
  for (const band of bands) {
    const open = band.rank === rank.value;
    if (bands.length > 1) {
      const name = `${words.bar.rank} ${band.rank}`;
      lines.push({ rank: band.rank, more: 0, name, scope: name, depth: 0, opens: true, open, at: (column) => worstOf(band.cells, column) });
    }
    if (open) add(band, bands.length > 1 ? 1 : 0);
  }
  return lines;
}

function worstOf({ rows, at }: Cells<Health>, column: number): Health | undefined {
  const cells = rows.map((_, row) => at.get(`${row} ${column}`)).filter((cell) => cell !== undefined);
  return cells.reduce<Health | undefined>((worst, cell) => (worst && WORSE[worst.state] >= WORSE[cell.state] ? worst : cell), undefined);
}

function HealthPicture({ levels }: { levels: HealthLevel[] }) {
  const lines = linesOf(levels);
  const columns = levels[0]?.cells.columns ?? [];
  if (!lines.length) return <Empty>{words.states.nothing}</Empty>;
  return (
    <Matrix
      label={words.overview.map}
      rows={lines.map((line) => ({ name: line.name, title: line.more ? line.name : line.scope, opens: line.opens, open: line.opens && !line.more ? line.open : undefined, depth: line.depth }))}
      columns={columnNames(columns)}
      marked={markedColumn(columns)}
      cell={(row, column) => {
        const found = lines[row]?.at(column);
        if (!found) return null;
        const bad = WORSE[found.state] >= WORSE.healthy_infinity;
        return {
          colour: found.state === "not_measured" ? "hatch" : `--${found.state}`,
          sign: SIGNS[found.state],
          text: bad && found.worstOp ? `${words.classes[found.state]}, ${found.worstOp}` : words.classes[found.state],
        };
      }}
      onZoom={report.value ? undefined : (by, column) => zoomAbout(by, steps.value.indexOf(columns[column]?.first ?? 0), zoomedSteps())}
      onRange={report.value ? undefined : (first, last) => showSteps({ first: steps.value.indexOf(columns[first]?.first ?? 0), last: steps.value.indexOf(columns[last]?.last ?? 0) })}
      onRow={(row) => {
        if (lines[row]?.more) {
          const scope = lines[row].scope;
          pagesOf.value = new Map([...pagesOf.value, [scope, (pagesOf.value.get(scope) ?? 1) + 1]]);
          return;
        }
        const band = lines[row]?.rank;
        if (band) {
          change({ r: band });
          return;
        }
        const next = new Set(levels.map((level) => level.scope).filter(Boolean));
        const scope = lines[row]?.scope ?? "";
        if (!next.delete(scope)) next.add(scope);
        opened.value = next;
      }}
      onOpen={(row, column) => {
        const found = lines[row]?.at(column);
        if (found?.worstOp) go("overview", { op: found.worstOp, s: found.worstStep, t: undefined, ...(lines[row]?.rank ? { r: lines[row].rank } : {}) });
      }}
    />
  );
}

const shorten = (name: string, under: string): string => (name.startsWith(`${under}/`) ? name.slice(under.length + 1) : name);

export function GradientMatrix() {
  const query = { dump: dump.value || undefined, rank: rank.value, graph: graph.value, w: MOST_COLUMNS, h: MOST_PARAMETERS };
  const table = useData(keyOf("gradients", query), (from, signal) => from.table("gradients", query, signal));
  return <Await of={table}>{(value) => <GradientPicture table={value} />}</Await>;
}

function GradientPicture({ table }: { table: Table }) {
  const cells = arrange([table], "parameter", (_, i) => ({ norm: table.get("l2norm", i) as Num, state: String(table.get("class", i)) as Class }));
  if (!cells.rows.length) return <Empty>{words.overview.noGradients}</Empty>;
  const logs = [...cells.at.values()].map(({ norm }) => Math.log10(Number(norm))).filter((value) => Number.isFinite(value));
  const [low, high] = [Math.min(...logs), Math.max(...logs)];
  return (
    <>
      <Matrix
        label={words.overview.gradients}
        rows={cells.rows.map((name) => ({ name, title: name, opens: true }))}
        columns={columnNames(cells.columns)}
        marked={markedColumn(cells.columns)}
        cell={(row, column) => {
          const found = cells.at.get(`${row} ${column}`);
          if (!found) return null;
          if (BAD.includes(found.state)) {
            return { colour: `--${found.state}`, sign: SIGNS[found.state], text: words.classes[found.state] };
          }
          const log = Math.log10(Number(found.norm));
          const colour = found.norm === null ? "hatch" : Number.isFinite(log) ? css(viridis(high > low ? (log - low) / (high - low) : 0.5)) : "--zero";
          return { colour, sign: "", text: found.norm === null ? words.states.notMeasured : formatNumber(found.norm) };
        }}
        onRow={(row) => go("ops", { f: `parameter:${cells.rows[row]}`, all: 1 })}
        onOpen={(_row, column) => change({ s: cells.columns[column]?.first })}
      />
      {logs.length > 0 && <p class="legend">log10 <Scale low={low} high={high} /></p>}
      <Command text={pythonGradients()} />
    </>
  );
}
