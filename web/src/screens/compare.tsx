// Two runs: the first difference in the words of `sonde compare`, the error along the run, and every pair of operators.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Job } from "../api.ts";
import { isOver, runJob } from "../jobs.ts";
import { formatCount, formatNumber, formatShape } from "../numbers.ts";
import { FilterField } from "../parts/filter.tsx";
import { Grid, type Column } from "../parts/grid.tsx";
import { OpLink } from "../parts/op_name.tsx";
import { Plot } from "../parts/plot.tsx";
import { Save, saveJobFile } from "../parts/save.tsx";
import { Card, Command, Empty, lineOf, Problem, Tabs } from "../parts/ui.tsx";
import { change, forget, go, keyOf, params, report, status, useData } from "../state.ts";
import { words } from "../words.ts";
import { choosePairs, type Comparison, errorOf, overRounding, type Pair, useLastJob, verdictWord } from "./comparison.ts";
import { LinkedGraphs } from "./linked_graphs.tsx";

export function Compare() {
  const [job, setJob] = useState<Job | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [rtol, setRtol] = useState("");
  const [mapping, setMapping] = useState("");
  const last = useLastJob();
  const run = async (): Promise<void> => {
    setError(null);
    try {
      const done = await runJob("compare", { csv: true, ...(rtol ? { rtol: Number(rtol) } : {}), ...(mapping.trim() ? { mapping } : {}) }, setJob);
      if (done.state === "failed") setError(new Error(done.error));
      forget();
    } catch (problem) {
      setError(problem as Error);
    }
  };
  // While another one runs, and when it fails, the one before it stays.
  const now = job ?? last.value ?? null;
  const kept = useRef<Job | null>(null);
  if (now?.state === "done") kept.current = now;
  const shown = kept.current;
  const runs = now !== null && !isOver(now);
  const isFirst = last.value === null && status.value?.state === "ready" && status.value.dumps.length > 1;
  useEffect(() => {
    if (isFirst && !job) void run();
  }, [isFirst]);
  if ((status.value?.dumps.length ?? 0) < 2) return <div class="page"><h1>{words.screens.compare}</h1><Empty>{words.compare.none}</Empty></div>;
  const result = shown ? (shown.result as unknown as Comparison) : null;
  return (
    <div class="page">
      <h1 class="hidden">{words.screens.compare}</h1>
      {result && <Differences of={result} />}
      {!report.value && <div class="toolbar">
        <label class="slice"><span>{words.compare.rtol}</span> <input inputMode="decimal" value={rtol} onInput={(event) => setRtol(event.currentTarget.value)} /></label>
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
      {error && <Problem error={error} />}
      {last.error && <Problem error={last.error} />}
      {result && shown && <Pairs of={result} job={shown} />}
    </div>
  );
}

function Differences({ of }: { of: Comparison }) {
  const first = of.findings[0];
  if (!first) {
    return <Card class={`verdict ${of.complete ? "good" : "unsure"}`}><p class="headline">{of.complete ? words.compare.same : words.overview.incomplete}</p></Card>;
  }
  return (
    <Card class="verdict bad">
      <p class="eyebrow">{words.compare.first}</p>
      <h2 class="headline"><OpLink name={first.op_name} patch={{ s: first.step, g: first.graph, r: first.rank, d: first.in_golden ? 1 : 0 }} scope={false} /></h2>
      <p class="why">{first.text}</p>
      <p class="soft">{Object.entries(of.summary).filter(([, count]) => count > 0).map(([name, count]) => `${count} ${verdictWord(name)}`).join(" · ")}</p>
      {of.findings.length > 1 && (
        <details>
          <summary>{words.overview.others(of.findings.length - 1)}</summary>
          <ul class="plain-list">{of.findings.slice(1).map((finding, i) => <li key={i}>{finding.text}</li>)}</ul>
        </details>
      )}
    </Card>
  );
}

const COLUMNS: readonly Column<Pair>[] = [
  { name: "verdict", label: words.compare.columns.verdict, width: 122, sortable: true, show: (pair) => <><span class={`verdict-word ${pair.verdict}`}>{verdictWord(pair.verdict)}</span>{pair.moved && <span class="moved" title={words.compare.movedHint}> ⇅ <span class="hidden">{words.compare.movedHint}</span></span>}</> },
  { name: "target", label: words.compare.columns.target, width: 280, sortable: true, show: (pair) => pair.target[0] && <OpLink name={pair.target[0]} patch={{ d: 0, s: pair.step, g: pair.graph, r: pair.rank }} /> },
  { name: "golden", label: words.compare.columns.golden, width: 170, show: (pair) => pair.golden[0] && <OpLink name={pair.golden[0]} patch={{ d: 1, s: pair.step, g: pair.graph, r: pair.rank }} scope={false} /> },
  { name: "step", label: words.watch.columns.step, width: 44, right: true, sortable: true, show: (pair) => pair.step },
  { name: "shape", label: words.op.shape, width: 90, show: (pair) => formatShape(pair.outputs[0]?.shape) },
  { name: "relative_error", label: words.compare.columns.error, width: 100, right: true, sortable: true, show: (pair) => formatNumber(errorOf(pair), 3) },
  { name: "over", label: words.compare.columns.over, width: 100, right: true, sortable: true, show: (pair) => formatNumber(overRounding(pair), 3) },
  { name: "source_line", label: words.compare.columns.source, width: 110, show: (pair) => lineOf(pair.source_file, pair.source_line) },
];

function Pairs({ of, job }: { of: Comparison; job: Job }) {
  const curve = useMemo(() => of.ops.map(overRounding), [of]);
  const x = useMemo(() => of.ops.map((_, i) => i), [of]);
  const sort = params.value.sort ?? "";
  const filter = params.value.f ?? "";
  const name = JSON.stringify([job.job, filter, sort]);
  const chosen = useData(keyOf("chosen pairs", { name }), async () => ({ name, pairs: await choosePairs(of, filter, sort) }));
  const shown = (chosen.error ? undefined : chosen.value) ?? { name: "", pairs: [] };
  const read = (offset: number, limit: number): Promise<{ count: number; rows: readonly Pair[] }> =>
    Promise.resolve({ count: shown.pairs.length, rows: shown.pairs.slice(offset, offset + limit) });
  const open = (pair: Pair | undefined): void => {
    if (pair?.target[0]) go("op", { op: pair.target[0], d: 0, s: pair.step, g: pair.graph, r: pair.rank, t: undefined });
  };
  return (
    <>
      <Tabs label={words.compare.view} value={params.value.view === "graphs" ? "graphs" : "table"} onChange={(view) => change({ view: view === "graphs" ? view : undefined })}
        choices={[{ value: "table", label: words.compare.table }, { value: "graphs", label: words.compare.graphs }]} />
      {params.value.view === "graphs" ? <LinkedGraphs of={of} /> : (
        <>
          {curve.some((value) => value !== null) && (
            <Card title={words.compare.curve} hint={words.compare.curveHint}>
              <Plot label={words.compare.curve} x={x} curves={[{ label: words.compare.columns.over, values: curve }]} log dots mark={1} height={170} onPick={(i) => open(of.ops[i])} />
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
                onSort={(by) => change({ sort: by || undefined })} onOpen={open} empty={words.table.empty} />
            </div>
            <Command text={job.command} />
          </Card>
        </>
      )}
    </>
  );
}

