// The table of correspondences of two implementations: both sides' tensors, how one is made from the other, and the verdict.
import { useMemo } from "preact/hooks";
import { formatCount, formatNumber, formatShape } from "../numbers.ts";
import { FilterField } from "../parts/filter.tsx";
import { columnsOf, Grid } from "../parts/grid.tsx";
import { OpLink } from "../parts/op_name.tsx";
import { Card, Command, LineCell, lineOf, Problem } from "../parts/ui.tsx";
import { change, go, keyOf, params, useData } from "../state.ts";
import { words } from "../words.ts";
import { type Comparison, verdictWord } from "./comparison.ts";
import { chooseRelated, goldenName, goldenPatch, type Related, type RelatedCells, relatedOf, relationWord, targetName, targetPatch } from "./relations.ts";

const COLUMNS = columnsOf<Related, RelatedCells & { golden: unknown; golden_line: unknown; how: unknown; shape: unknown }>({
  verdict: { label: words.compare.columns.verdict, width: 104, sortable: true, show: ({ pair }) => pair && <span class={`verdict-word ${pair.verdict}`}>{verdictWord(pair.verdict)}</span> },
  relation: { label: words.compare.columns.relation, width: 106, sortable: true, show: ({ of, pair }) => <span class={of.relation === "none" ? `verdict-word ${pair?.verdict ?? "unmatched"}` : ""}>{relationWord(of.relation)}</span> },
  target: { label: words.compare.columns.target, width: 140, grows: true, sortable: true, show: (row) => <OpLink name={targetName(row)} patch={targetPatch(row)} scope={Boolean(row.of.op_name)} /> },
  source_line: { label: words.compare.columns.source, width: 84, sortable: true, show: ({ of }) => <LineCell file={of.source_file} line={of.source_line} /> },
  golden: { label: words.compare.columns.golden, width: 134, grows: true, show: ({ of }) => (
    <span class="several" title={of.golden}>{of.golden_tensors.map((golden, i) => <OpLink key={i} name={goldenName(golden)} patch={goldenPatch(golden)} scope={of.golden_tensors.length === 1 && Boolean(golden.op_name)} />)}</span>
  ) },
  golden_line: { label: words.compare.columns.goldenSource, width: 84, show: ({ of }) => [...new Set(of.golden_tensors.map((golden) => lineOf(golden.source_file, golden.source_line)).filter(Boolean))].join(" ") },
  how: { label: words.compare.columns.how, width: 118, grows: true, show: ({ of }) => <span title={of.golden}>{of.golden}</span> },
  relative_error: { label: words.compare.columns.error, width: 90, right: true, sortable: true, show: ({ of }) => formatNumber(of.relative_error, 3) },
  shape: { label: words.op.shape, width: 92, show: ({ of }) => formatShape(of.shape) },
  step: { label: words.watch.columns.step, width: 40, right: true, sortable: true, show: ({ of }) => of.step },
});

export function Relations({ of, job, command }: { of: Comparison; job: number; command: string }) {
  const all = useMemo(() => relatedOf(of), [of]);
  const sort = params.value.sort ?? "";
  const filter = params.value.f ?? "";
  const name = JSON.stringify([job, filter, sort]);
  const chosen = useData(keyOf("chosen relations", { name }), async () => ({ name, rows: await chooseRelated(all, filter, sort) }));
  const shown = (chosen.error ? undefined : chosen.value) ?? { name: "", rows: [] };
  const kinds = useMemo(() => [...new Set(all.map((row) => row.of.relation))].map((kind) => ({ kind, count: all.filter((row) => row.of.relation === kind).length })), [all]);
  return (
    <Card title={words.compare.relationTable} hint={words.compare.relationHint} extra={<span class="count" aria-live="polite">{words.table.rows(formatCount(shown.rows.length))}</span>}>
      <div class="toolbar">
        <FilterField value={filter} hint={words.compare.relationFilterHint} />
        {kinds.map(({ kind, count }) => (
          <button key={kind} type="button" class="small" aria-pressed={filter === `relation:${kind}`} onClick={() => change({ f: filter === `relation:${kind}` ? undefined : `relation:${kind}` })}>
            {formatCount(count)} {relationWord(kind)}
          </button>
        ))}
      </div>
      {chosen.error && <Problem error={chosen.error} />}
      <div class="pairs">
        <Grid<Related> label={words.compare.relationTable} name={shown.name} columns={COLUMNS} sort={sort} onSort={(by) => change({ sort: by || undefined })}
          fetch={(offset, limit) => Promise.resolve({ count: shown.rows.length, rows: shown.rows.slice(offset, offset + limit) })}
          onOpen={(row) => go("op", targetPatch(row))} onSelect={(row) => change(targetPatch(row), true)} empty={words.table.empty}
          selected={(row) => targetName(row) === params.value.op && String(row.of.step) === params.value.s && (params.value.d ?? "0") === "0"} />
      </div>
      <Command text={command && `${command} --relations`} />
    </Card>
  );
}
