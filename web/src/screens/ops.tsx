// All tensors or operators as a table. The server sorts and filters.
import { useState } from "preact/hooks";
import type { OpsRow, TensorsRow } from "../api.ts";
import { formatCount, formatNumber, formatShape, toNumber, type Num } from "../numbers.ts";
import { BadCount, isCounted } from "../parts/count.tsx";
import { FilterField } from "../parts/filter.tsx";
import { type Column, columnsOf, Grid } from "../parts/grid.tsx";
import { OpLink } from "../parts/op_name.tsx";
import { SaveTable } from "../parts/save.tsx";
import { Spark } from "../parts/spark.tsx";
import { BAD, ClassMark, Command, LineCell, Tabs } from "../parts/ui.tsx";
import type { Query } from "../source/source.ts";
import { change, formatSlot, go, params, place, report, source, step, steps } from "../state.ts";
import { words } from "../words.ts";

interface Answer<Row> {
  count: number;
  rows: readonly Row[];
  command?: string;
}

const COLUMN = words.table.columns;
// A number is never cut: one that is wider has fewer digits.
const MOST_LETTERS = 10;
const NUMBER_WIDTH = 78;
const number = (value: unknown): string => {
  const texts = [6, 5, 4].map((digits) => formatNumber(value as Num, digits));
  return texts.find((text) => text.length <= MOST_LETTERS) ?? (texts.at(-1) as string);
};

const TENSOR_COLUMNS = columnsOf<TensorsRow>({
  class: { label: COLUMN.class, narrow: true, width: 26, sortable: true, show: (row) => row.class && <ClassMark state={row.class} /> },
  op_name: { label: COLUMN.op_name, width: 170, grows: true, sortable: true, show: (row) => <OpLink name={row.op_name ?? ""} patch={{ t: slotOf(row), s: row.step }} /> },
  side: { label: COLUMN.side, width: 62, show: (row) => `${row.side}.${row.slot}` },
  step: { label: COLUMN.step, width: 44, right: true, sortable: true, show: (row) => row.step },
  dtype: { label: COLUMN.dtype, width: 58, sortable: true, show: (row) => row.dtype },
  shape: { label: COLUMN.shape, width: 84, grows: 0.3, show: (row) => formatShape(row.shape) },
  max: { label: "max", width: NUMBER_WIDTH, right: true, sortable: true, heat: true, merged: (row) => (isCounted(row) ? 4 : 1), show: (row) => (isCounted(row) ? <BadCount of={row} query={valuesOf(row)} /> : number(row.max)) },
  min: { label: "min", width: NUMBER_WIDTH, right: true, sortable: true, heat: true, show: (row) => number(row.min) },
  avg: { label: "avg", width: NUMBER_WIDTH, right: true, sortable: true, heat: true, show: (row) => number(row.avg) },
  l2norm: { label: "l2norm", width: NUMBER_WIDTH, right: true, sortable: true, heat: true, show: (row) => number(row.l2norm) },
  nan_count: { label: COLUMN.nan_count, width: 46, right: true, sortable: true, heat: true, show: (row) => count(row.nan_count) },
  source_line: { label: COLUMN.source_line, width: 84, grows: 0.2, show: (row) => <LineCell file={row.source_file ?? ""} line={row.source_line ?? 0} /> },
});

const OP_COLUMNS = columnsOf<OpsRow>({
  class: { label: COLUMN.class, narrow: true, width: 26, sortable: true, show: (row) => row.class && <ClassMark state={row.class} /> },
  op_name: { label: COLUMN.op_name, width: 240, grows: true, sortable: true, show: (row) => <OpLink name={row.op_name ?? ""} patch={{ s: row.step }} /> },
  op_type: { label: COLUMN.op_type, width: 140, sortable: true, show: (row) => row.op_type },
  phase: { label: COLUMN.phase, width: 84, sortable: true, show: (row) => !row.is_parameter && row.phase }, // no part of the step runs a parameter
  step: { label: COLUMN.step, width: 44, right: true, sortable: true, show: (row) => row.step },
  tensors: { label: COLUMN.tensors, width: 64, right: true, sortable: true, show: (row) => row.tensors },
  nan_tensors: { label: COLUMN.nan_tensors, width: 72, right: true, sortable: true, show: (row) => count(row.nan_tensors) },
  inf_tensors: { label: COLUMN.inf_tensors, width: 72, right: true, sortable: true, show: (row) => count(row.inf_tensors) },
  source_line: { label: COLUMN.source_line, width: 120, grows: 0.4, show: (row) => <LineCell file={row.source_file ?? ""} line={row.source_line ?? 0} /> },
});

// The bar says which step it is.
const ofOneStep = <Row,>(columns: readonly Column<Row>[]): readonly Column<Row>[] => columns.filter((column) => column.name !== "step");

const CURVES = ["max", "min", "avg", "l2norm"];

// The course over the steps of the statistic that sorts the table, else of the norm.
function withCurve<Row extends { step?: number }>(columns: readonly Column<Row>[], of: "tensors" | "ops", query: Query): readonly Column<Row>[] {
  if (report.value || steps.value.length < 2) return columns;
  const by = String(query.sort).replace(/^-/, "");
  const column = of === "tensors" && CURVES.includes(by) ? by : "l2norm";
  const curve: Column<Row> = {
    name: "curve", label: COLUMN.curve, hint: words.table.curve(column), width: 92, show: (row, at) => <Spark query={{ ...query, of, column }} row={at} step={row.step} />,
  };
  return [...columns.slice(0, -1), curve, ...columns.slice(-1)]; // the line is the last one
}

const count = (value: number | null | undefined): string => (value ? formatCount(value) : value === 0 ? "0" : "");
// The rest of the elements can be read where the dump has a file.
const valuesOf = (row: TensorsRow): Query | null => (row.tensor_file ? { ...place.value, step: row.step, name: row.op_name, side: row.side, slot: row.slot } : null);
const slotOf = (row: TensorsRow): string => formatSlot({ side: row.side ?? "output", slot: row.slot ?? 0 });

export function Ops() {
  const kind = params.value.k === "ops" ? "ops" : "tensors";
  const all = params.value.all === "1";
  const sort = params.value.sort ?? "";
  const filter = params.value.f ?? "";
  const [found, setFound] = useState<{ count: number; command: string } | null>(null);
  const [rows, setRows] = useState<readonly (TensorsRow | OpsRow)[]>([]);
  const query = { ...place.value, step: all ? undefined : step.value, filter, sort };
  const fetchPage = async <Row,>(offset: number, limit: number, signal: AbortSignal): Promise<Answer<Row>> => {
    if (!source.value) throw new Error(words.states.lost);
    const answer = await source.value.json<Answer<Row>>(kind, { ...query, offset, limit }, signal);
    setFound({ count: answer.count, command: answer.command ?? "" });
    return answer;
  };
  const name = JSON.stringify([kind, query]); // a growing dump moves nobody to the top
  const shared = {
    label: words.table[kind], name, sort, onSort: (by: string) => change({ sort: by || undefined }), onRows: setRows,
    empty: <>{words.table.empty} {filter && <button type="button" class="small" onClick={() => change({ f: undefined })}>{words.table.clear}</button>}</>,
  };
  return (
    <div class="ops">
      <h1 class="hidden">{words.screens.ops}</h1>
      <div class="toolbar">
        <Tabs label={words.screens.ops} value={kind} choices={[{ value: "tensors", label: words.table.tensors }, { value: "ops", label: words.table.ops }]}
          onChange={(value) => change({ k: value === "ops" ? "ops" : undefined, sort: undefined })} />
        <FilterField value={filter} hint={words.table.filterHint} />
        <label class="check"><input type="checkbox" checked={all} onChange={(event) => change({ all: event.currentTarget.checked ? 1 : undefined })} /> {words.table.allSteps}</label>
        <span class="count" aria-live="polite">{found ? words.table.rows(formatCount(found.count)) : ""}</span>
        {found && <SaveTable path={kind} query={query} count={found.count} />}
      </div>
      {kind === "tensors" ? (
        <Grid<TensorsRow> {...shared} columns={withCurve(withHeat(all ? TENSOR_COLUMNS : ofOneStep(TENSOR_COLUMNS), sort, rows as readonly TensorsRow[]), kind, query)} fetch={(o, l, s) => fetchPage<TensorsRow>(o, l, s)}
          onOpen={(row) => go("op", { op: row.op_name, t: slotOf(row), s: row.step })} onSelect={(row) => change({ op: row.op_name, t: slotOf(row) }, true)}
          selected={(row) => row.op_name === params.value.op && slotOf(row) === (params.value.t ?? "o0")} />
      ) : (
        <Grid<OpsRow> {...shared} columns={withCurve(all ? OP_COLUMNS : ofOneStep(OP_COLUMNS), kind, query)} fetch={(o, l, s) => fetchPage<OpsRow>(o, l, s)}
          onOpen={(row) => go("op", { op: row.op_name, t: undefined, s: row.step })} onSelect={(row) => change({ op: row.op_name, t: undefined }, true)}
          selected={(row) => row.op_name === params.value.op} />
      )}
      {found && <Command text={found.command} />}
    </div>
  );
}

// The column that sorts the table has a bar of its size behind the numbers.
function withHeat(columns: readonly Column<TensorsRow>[], sort: string, rows: readonly TensorsRow[]): readonly Column<TensorsRow>[] {
  const by = sort.replace(/^-/, "");
  const values = rows.map((row) => Math.abs(toNumber(row[by as keyof TensorsRow] as Num))).filter((value) => Number.isFinite(value) && value > 0);
  if (values.length < 2) return columns;
  const [low, high] = [Math.log(Math.min(...values)), Math.log(Math.max(...values))];
  return columns.map((column) =>
    column.name !== by || !column.heat
      ? column
      : {
          ...column,
          background: (row) => {
            const value = Math.abs(toNumber(row[by as keyof TensorsRow] as Num));
            if (!Number.isFinite(value) || value === 0 || high <= low) return undefined;
            const share = Math.round(((Math.log(value) - low) / (high - low)) * 100);
            return `linear-gradient(to left, var(--heat) ${share}%, transparent ${share}%)`;
          },
        },
  );
}

// The next operator of this step with a NaN or an infinity.
export async function nextBad(direction: 1 | -1): Promise<void> {
  if (!source.value) return;
  const from = source.value;
  const query = { ...place.value, limit: 1000 };
  const answers = await Promise.all(BAD.map((state) => from.json<Answer<OpsRow>>("ops", { ...query, filter: `class:${state}` })));
  const bad = answers.flatMap((answer) => answer.rows).filter((row) => !row.is_parameter);
  const names = bad.sort((a, b) => (a.op_id ?? 0) - (b.op_id ?? 0)).map((row) => row.op_name ?? "");
  const at = names.indexOf(params.value.op ?? "");
  const next = names[at < 0 ? (direction > 0 ? 0 : names.length - 1) : at + direction];
  if (next) change({ op: next, t: undefined });
}
