// Two runs: the first difference in the words of `sonde compare`, the error along the run, and every pair of operators.
import { useMemo, useState } from "preact/hooks";
import type { Job } from "../api.ts";
import { formatCount, formatNumber, formatShape } from "../numbers.ts";
import { FilterField } from "../parts/filter.tsx";
import { columnsOf, Grid } from "../parts/grid.tsx";
import { OpLink } from "../parts/op_name.tsx";
import { Plot } from "../parts/plot.tsx";
import { Save, saveJobFile } from "../parts/save.tsx";
import { Card, Command, Empty, LineCell, Problem, Tabs } from "../parts/ui.tsx";
import { change, go, keyOf, params, report, useData } from "../state.ts";
import { words } from "../words.ts";
import { apartOf, choosePairs, type Comparison, errorOf, firstOf, overRounding, type Pair, type PairCells, verdictWord } from "./comparison.ts";
import { DifferenceCard, isPair, useCompare } from "./first_difference.tsx";
import { LinkedGraphs } from "./linked_graphs.tsx";
import { Relations } from "./relations.tsx";

export function Compare() {
  const [tolerance, setTolerance] = useState("");
  const [mapping, setMapping] = useState("");
  const compared = useCompare();
  const { result, shown, runs } = compared;
  const run = (): Promise<void> => compared.run({ ...(tolerance ? { rtol: Number(tolerance) } : {}), ...(mapping.trim() ? { mapping } : {}) });
  if (!isPair()) return <div class="page"><h1>{words.screens.compare}</h1><Empty>{words.compare.none}</Empty></div>;
  return (
    <div class="page">
      <h1 class="hidden">{words.screens.compare}</h1>
      {result && <DifferenceCard of={result} />}
      {!report.value && <div class="toolbar">
        <label class="slice"><span>{words.compare.tolerance}</span> <input inputMode="decimal" value={tolerance} onInput={(event) => setTolerance(event.currentTarget.value)} /></label>
        <button type="button" class={result ? "" : "primary"} disabled={runs} onClick={() => void run()}>{words.compare.run}</button>
        <details class="mapping">
          <summary>{words.compare.mapping}</summary>
          <textarea rows={5} value={mapping} aria-label={words.compare.mapping} placeholder={words.compare.mappingHint} spellcheck={false}
            onInput={(event) => setMapping(event.currentTarget.value)} />
          <input type="file" aria-label={words.compare.mappingFile}
            onChange={(event) => void event.currentTarget.files?.[0]?.text().then(setMapping)} />
        </details>
        {runs && <span class="soft" role="status">{words.compare.running}</span>}
        {shown?.file && <Save label={words.save.csv} title={words.compare.csvHint} run={() => saveJobFile(shown)} />}
      </div>}
      {compared.error && <Problem error={compared.error} />}
      {result && shown && <Pairs of={result} job={shown} />}
    </div>
  );
}

const COLUMNS = columnsOf<Pair, PairCells & Pick<Pair, "golden"> & { shape: unknown }>({
  verdict: { label: words.compare.columns.verdict, width: 122, sortable: true, show: (pair) => <><span class={`verdict-word ${pair.verdict}`}>{verdictWord(pair.verdict)}</span>{pair.moved && <span class="moved" title={words.compare.movedHint}> ⇅ <span class="hidden">{words.compare.movedHint}</span></span>}</> },
  target: { label: words.compare.columns.target, width: 200, grows: true, sortable: true, show: (pair) => pair.target[0] && <OpLink name={pair.target[0]} patch={{ d: 0, s: pair.step, g: pair.graph, r: pair.rank }} /> },
  golden: { label: words.compare.columns.golden, width: 170, show: (pair) => pair.golden[0] && <OpLink name={pair.golden[0]} patch={{ d: 1, s: pair.step, g: pair.graph, r: pair.rank }} scope={false} /> },
  step: { label: words.watch.columns.step, width: 44, right: true, sortable: true, show: (pair) => pair.step },
  shape: { label: words.op.shape, width: 90, show: (pair) => pair.outputs[0] && formatShape(pair.outputs[0].shape) },
  relative_error: { label: words.compare.columns.error, width: 124, right: true, sortable: true, show: (pair) => (apartOf(pair) ? <span class="bad-count">{words.compare.apart(formatCount(apartOf(pair)))}</span> : formatNumber(errorOf(pair), 3)) },
  over: { label: words.compare.columns.over, width: 100, right: true, sortable: true, show: (pair) => formatNumber(overRounding(pair), 3) },
  source_line: { label: words.compare.columns.source, width: 110, grows: 0.4, show: (pair) => <LineCell file={pair.source_file} line={pair.source_line} /> },
});

// The operator of a row: of golden where the target has none.
const patchOf = ({ target, golden, step, graph, rank }: Pair) => ({ op: target[0] ?? golden[0], d: target[0] ? 0 : 1, s: step, g: graph, r: rank, t: undefined });

type View = "table" | "relations" | "graphs";

function Pairs({ of, job }: { of: Comparison; job: Job }) {
  // Of two implementations the operators are those that correspond: their tensors come first.
  const views: readonly View[] = of.relations ? ["relations", "table", "graphs"] : ["table", "graphs"];
  const view = views.find((name) => name === params.value.view) ?? (views[0] as View);
  const curve = useMemo(() => of.ops.map(overRounding), [of]);
  const x = useMemo(() => of.ops.map((_, i) => i), [of]);
  const sort = params.value.sort ?? "";
  const filter = params.value.f ?? "";
  const name = JSON.stringify([job.job, filter, sort]);
  const chosen = useData(keyOf("chosen pairs", { name }), async () => ({ name, pairs: await choosePairs(of, filter, sort) }));
  const shown = (chosen.error ? undefined : chosen.value) ?? { name: "", pairs: [] };
  const read = (offset: number, limit: number): Promise<{ count: number; rows: readonly Pair[] }> =>
    Promise.resolve({ count: shown.pairs.length, rows: shown.pairs.slice(offset, offset + limit) });
  const open = (pair: Pair | undefined): void => void (pair && go("op", patchOf(pair)));
  const first = useMemo(() => firstOf(of), [of]);
  return (
    <>
      <Tabs label={words.compare.view} value={view} onChange={(to) => change({ view: to === views[0] ? undefined : to, f: undefined, sort: undefined })}
        choices={views.map((value) => ({ value, label: { table: words.compare.table, relations: words.compare.relationTable, graphs: words.compare.graphs }[value] }))} />
      {view === "graphs" && <LinkedGraphs of={of} />}
      {view === "relations" && <Relations of={of} job={job.job} command={job.command} />}
      {view === "table" && (
        <>
          {curve.some((value) => value !== null) && (
            <Card title={words.compare.curve} hint={words.compare.curveHint}>
              <Plot label={words.compare.curve} x={x} curves={[{ label: words.compare.columns.over, values: curve }]} log dots mark={1} height={190}
                at={first} atLabel={words.compare.first} xLabel={words.compare.axes.run} yLabel={words.compare.axes.error} onPick={(i) => open(of.ops[i])} />
            </Card>
          )}
          <Card title={words.compare.table} extra={<span class="count" aria-live="polite">{words.table.rows(formatCount(shown.pairs.length))}</span>}>
            <div class="toolbar">
              <FilterField value={filter} hint={words.compare.filterHint} />
              {of.ops.some((pair) => pair.moved) && (
                <button type="button" class="small" onClick={() => change({ f: "moved:yes" })}>{words.compare.moved(of.ops.filter((pair) => pair.moved).length)}</button>
              )}
            </div>
            {chosen.error && <Problem error={chosen.error} />}
            <div class="pairs">
              <Grid<Pair> label={words.compare.table} name={shown.name} columns={COLUMNS} fetch={read} sort={sort}
                onSort={(by) => change({ sort: by || undefined })} onOpen={open} onSelect={(pair) => change(patchOf(pair), true)} empty={words.table.empty}
                selected={(pair) => patchOf(pair).op === params.value.op && String(pair.step) === params.value.s && String(patchOf(pair).d) === (params.value.d ?? "0")} />
            </div>
            <Command text={job.command} />
          </Card>
        </>
      )}
    </>
  );
}

