// Health by scope and step: open at the finding, whose cell has a ring.
import { signal } from "@preact/signals";
import type { Class } from "../api.ts";
import { command } from "../commands.ts";
import { Matrix } from "../parts/matrix.tsx";
import { Await, ClassMark, Command, Empty, SIGNS, WORSE } from "../parts/ui.tsx";
import type { Query } from "../source/source.ts";
import { change, dimensionsOf, dump, go, graph, hasOp, isLaterBad, keyOf, params, pointed, rank, ranks, report, request, step, steps, useData } from "../state.ts";
import { words } from "../words.ts";
import { columnNames, columnOf } from "./cells.ts";
import { type Choices, type HealthLevel, type HealthLine, isIn, linesOf, readLevels } from "./health_levels.ts";

const MOST_COLUMNS = 400;
const LEGEND: readonly Class[] = ["nan", "infinity", "unjudged_infinity", "healthy_infinity", "fine", "not_measured"];

// They stay while the page is open.
const choices = signal<Choices>({ toggled: new Map(), pages: new Map() });
const toggle = (scope: string, open: boolean): void => void (choices.value = { ...choices.value, toggled: new Map([...choices.value.toggled, [scope, open]]) });
const showMore = (scope: string): void => {
  const { pages } = choices.value;
  choices.value = { ...choices.value, pages: new Map([...pages, [scope, (pages.get(scope) ?? 1) + 1]]) };
};

export const healthQuery = (): Query => ({ dump: dump.value || undefined, rank: rank.value, graph: graph.value, w: MOST_COLUMNS });

export function HealthMap() {
  const zoomed = zoomedSteps();
  const query = { ...healthQuery(), steps: askedSteps() };
  const op = pointedName();
  const asked = { query, ranks: ranks.value, op, choices: choices.value };
  const key = keyOf("health", { ...query, op, ranks: ranks.value.join(), choices: JSON.stringify([[...choices.value.toggled], [...choices.value.pages]]) });
  const levels = useData(key, (from, signal) => readLevels(from, asked, signal));
  const shown = new Set(levels.value?.flatMap(({ cells }) => cells.rows.flatMap((_, row) => cells.columns.map(({ number }) => cells.at(row, number)?.state))));
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

// Those of a chosen request, unless a part is chosen.
function askedSteps(): string | undefined {
  const { hm } = params.value;
  return hm || !request.value || report.value ? hm : `${steps.value[0]}-${steps.value.at(-1)}`;
}

// Empty: there is none.
const pointedName = (): string => pointed.value?.name ?? "";

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

// Where the finding is: its own row, or that of a closed scope around it.
function ringOf(lines: readonly HealthLine[], columns: HealthLevel["cells"]["columns"]): readonly [number, number] | null {
  const found = pointed.value;
  if (!found) return null;
  const { name } = found;
  const isThere = (line: HealthLine, scope: string): boolean => (line.kind === "op" ? scope === name : line.kind === "scope" && isIn(name, scope));
  const row = lines.findLastIndex((line) => isThere(line, line.scope));
  const column = columnOf(columns, found.step);
  return row >= 0 && column >= 0 ? [row, column] : null;
}

function HealthPicture({ levels }: { levels: HealthLevel[] }) {
  const lines = linesOf(levels, rank.value, choices.value.toggled, pointedName(), (of) => [`${words.bar.rank} ${of}`, dimensionsOf(of)].filter(Boolean).join(" · "));
  const columns = levels.find((level) => level.rank === rank.value)?.cells.columns ?? [];
  const ring = ringOf(lines, columns);
  if (!lines.length) return <Empty>{words.states.nothing}</Empty>;
  // What is worse only because of the finding: later columns, and in its own column the rows below it.
  const follows = (row: number, column: number): boolean => {
    const line = lines[row];
    if (line?.kind === "rank") return isLaterBad({ rank: line.scope, step: columns[column]?.first ?? 0 });
    return ring !== null && pointed.value?.isBad === true && (column > ring[1] || (column === ring[1] && row > ring[0] && columns[column]?.first === columns[column]?.last));
  };
  return (
    <Matrix
      label={words.overview.map}
      rows={lines.map(({ kind, name, title, open, depth }) => ({ name, title, opens: kind !== "op", open: kind === "op" || kind === "more" ? undefined : open, depth }))}
      columns={columnNames(columns)}
      marked={columnOf(columns, step.value)}
      ring={ring}
      cell={(row, column) => {
        const found = lines[row]?.at(columns[column]?.number ?? 0);
        if (!found) return null;
        const bad = WORSE[found.state] >= WORSE.healthy_infinity;
        return {
          colour: found.state === "not_measured" ? "hatch" : `--${found.state}`,
          sign: SIGNS[found.state],
          text: bad && found.worstOp ? `${words.classes[found.state]}, ${found.worstOp}` : words.classes[found.state],
          dim: bad && follows(row, column),
        };
      }}
      onZoom={report.value ? undefined : (by, column) => zoomAbout(by, steps.value.indexOf(columns[column]?.first ?? 0), zoomedSteps())}
      onRange={report.value ? undefined : (first, last) => showSteps({ first: steps.value.indexOf(columns[first]?.first ?? 0), last: steps.value.indexOf(columns[last]?.last ?? 0) })}
      onRow={(row) => {
        const line = lines[row];
        if (line?.kind === "more") showMore(line.scope);
        else if (line?.kind === "rank") change({ r: line.scope });
        else if (line) toggle(line.scope, !line.open);
      }}
      onOpen={(row, column) => {
        const found = lines[row]?.at(columns[column]?.number ?? 0);
        const at = { s: found?.worstStep, ...(lines[row]?.kind === "rank" ? { r: lines[row].scope } : {}) };
        if (found?.worstOp && hasOp(found.worstOp, at)) go("overview", { op: found.worstOp, t: undefined, ...at });
      }}
    />
  );
}
