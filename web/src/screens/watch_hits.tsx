// What a check of conditions found: a summary by condition first, then the newest hit of each tensor, or all of them.
import { useMemo, useState } from "preact/hooks";
import type { JudgedPoint, JudgedValue, WatchDocument, WatchedOp, WatchedTensor, WatchPoint } from "../answers.ts";
import { formatCount, formatNumber, type Num, toNumber } from "../numbers.ts";
import { columnsOf, Grid } from "../parts/grid.tsx";
import { OpLink } from "../parts/op_name.tsx";
import { Card, Command, Empty, LineCell } from "../parts/ui.tsx";
import { sortRows } from "../source/rows.ts";
import { change, formatSlot, go, params, type Patch, ranks } from "../state.ts";
import { words } from "../words.ts";

interface Hit {
  hit: WatchedOp;
  tensor: WatchedTensor;
  point: JudgedPoint;
  times: number; // hits of this tensor and condition, of which this is the newest
}

const MOST_REASONS = 50;

// In a sentence; of a condition that the page does not know, the server's words.
export const sentenceOf = (id: string, summary = ""): string => (words.watch.sentences as Readonly<Record<string, string>>)[id] ?? summary;

const hitsOf = (of: WatchDocument): Hit[] =>
  (of.hits ?? []).flatMap((hit) => hit.tensors.flatMap((tensor) => tensor.watch_points.filter((point) => point.hit).map((point) => ({ hit, tensor, point, times: 1 }))));

const tensorKey = ({ hit, tensor, point }: Hit): string => [point.id, hit.rank, hit.graph, hit.op_name, tensor.side, tensor.slot].join(" ");

// In the order of the first hit of each tensor.
function newestOf(hits: readonly Hit[]): Hit[] {
  const newest = new Map<string, Hit>();
  for (const hit of hits) {
    const key = tensorKey(hit);
    const known = newest.get(key);
    newest.set(key, { ...(known && known.hit.step > hit.hit.step ? known : hit), times: (known?.times ?? 0) + 1 });
  }
  return [...newest.values()];
}

const patchOf = ({ hit, tensor }: Hit): Patch => ({ op: hit.op_name, t: formatSlot(tensor), s: hit.step, g: hit.graph, r: hit.rank });

// The parameters that are met; without one, what was counted.
const met = ({ point }: Hit) => point.watch_condition.params.filter((param) => param.is_hit && sizeOf(param) !== undefined);

// The statistic; of one that was not recorded the bound that decides.
type Param = JudgedValue;
const sizeOf = ({ actual_value: value, at_most: most, at_least: least }: Param): Num => value ?? most ?? least ?? undefined;
function sizeText(of: Param): string {
  const sign = of.actual_value !== null ? "" : (of.at_most ?? null) !== null ? "≤ " : "≥ ";
  return sign + formatNumber(sizeOf(of));
}
const each = (of: Hit, show: (param: ReturnType<typeof met>[number]) => string): string => met(of).map(show).join(", ");

// The report of watchpoints counts infinities of both signs as one.
function countsOf({ tensor, point }: Hit): string {
  const all = tensor.shape ? formatCount(tensor.shape.reduce((product, size) => product * size, 1)) : "";
  const parts = point.nan_count ? [words.counts.nan(formatCount(point.nan_count), all)] : [];
  if (point.inf_count) parts.push(words.counts.infinite(formatCount(point.inf_count)));
  return parts.join(words.counts.and);
}

function Found({ of }: { of: Hit }) {
  if (met(of).length) return <>{each(of, sizeText)}</>;
  const counts = countsOf(of);
  return counts ? <span class="bad-count" title={counts}>{counts}</span> : <span title={of.point.hit_detail}>{of.point.hit_detail}</span>;
}

const COLUMNS = columnsOf<Hit, ReturnType<typeof cellsOf>>({
  op_name: { label: words.watch.columns.operator, width: 110, grows: true, sortable: true, show: ({ hit, tensor }) => <OpLink name={hit.op_name} patch={{ s: hit.step, g: hit.graph, r: hit.rank, t: formatSlot(tensor) }} /> },
  slot: { label: words.watch.columns.tensor, width: 62, show: ({ tensor }) => `${tensor.side}.${tensor.slot}` },
  rank: { label: words.watch.columns.rank, width: 40, right: true, sortable: true, show: ({ hit }) => hit.rank },
  step: { label: words.watch.columns.step, width: 36, right: true, sortable: true, show: ({ hit }) => hit.step },
  times: { label: words.watch.columns.times, width: 36, right: true, sortable: true, show: ({ times }) => formatCount(times) },
  condition: { label: words.watch.columns.condition, width: 112, grows: 0.3, sortable: true, show: ({ point }) => <span title={sentenceOf(point.watch_condition.id)}>{point.watch_condition.id}</span> },
  limit: { label: words.watch.columns.setting, width: 74, right: true, sortable: true, show: (of) => <span title={each(of, (param) => `${param.name} ${formatNumber(param.value)}`)}>{each(of, (param) => formatNumber(param.value))}</span> },
  found: { label: words.watch.columns.found, width: 134, right: true, sortable: true, show: (of) => <Found of={of} /> },
  source_line: { label: words.compare.columns.source, width: 80, grows: 0.2, show: ({ hit }) => <LineCell file={hit.source_file} line={hit.source_line} /> },
});

const foundOf = (of: Hit): Num => {
  const [first] = met(of);
  return first && sizeOf(first);
};
const numberOf = (value: Num): number => toNumber(value);
const cellsOf = (of: Hit) => ({
  of, op_name: of.hit.op_name, slot: of.tensor.slot, rank: of.hit.rank, step: of.hit.step, source_line: of.hit.source_line, times: of.times, condition: of.point.id,
  limit: numberOf(met(of)[0]?.value), found: numberOf(foundOf(of) ?? ((of.point.nan_count ?? 0) + (of.point.inf_count ?? 0))),
});

export function Hits({ of, command }: { of: WatchDocument; command: string }) {
  const [only, setOnly] = useState<number | null>(null); // the number of a watchpoint
  const [all, setAll] = useState(false);
  const [sort, setSort] = useState("");
  const hits = useMemo(() => hitsOf(of), [of]);
  const rows = useMemo(() => {
    const chosen = only === null ? hits : hits.filter((hit) => hit.point.id === only);
    return sortRows((all ? chosen : newestOf(chosen)).map(cellsOf), sort).map((row) => row.of as Hit);
  }, [hits, only, all, sort]);
  const open = (hit: Hit): void => go("op", patchOf(hit));
  return (
    <>
      <Card title={`${words.watch.hits}: ${formatCount(hits.length)}`}>
        {!hits.length && <Empty>{words.watch.none}</Empty>}
        {hits.length > 0 && (
          <>
            <Summary of={of.watch_points ?? []} hits={hits} only={only} onOnly={setOnly} />
            <div class="toolbar">
              <label class="check"><input type="checkbox" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} /> {words.watch.all}</label>
              <span class="count" aria-live="polite">{words.table.rows(formatCount(rows.length))}</span>
            </div>
            <div class="pairs watch-hits">
              <Grid<Hit> label={words.watch.hits} name={JSON.stringify([command, only, all, sort])} columns={COLUMNS.filter(({ name }) => (name !== "times" || !all) && (name !== "rank" || ranks.value.length > 1) && (name !== "limit" || rows.some((hit) => met(hit).length > 0)))} sort={sort} onSort={setSort}
                fetch={(offset, limit) => Promise.resolve({ count: rows.length, rows: rows.slice(offset, offset + limit) })} onOpen={open} onSelect={(hit) => change(patchOf(hit), true)}
                selected={({ hit, tensor }) => hit.op_name === params.value.op && formatSlot(tensor) === params.value.t && String(hit.step) === params.value.s} empty={words.watch.none} />
            </div>
          </>
        )}
        <Command text={command} />
      </Card>
      <NotJudged of={of} />
      {(of.notes?.length ?? 0) > 0 && <div class="watch-notes">{of.notes?.map((note) => <p key={note} class="soft">{note}</p>)}</div>}
    </>
  );
}

// Of each condition the first step that meets it, and how often. Its button shows its hits alone.
function Summary({ of, hits, only, onOnly }: { of: readonly WatchPoint[]; hits: readonly Hit[]; only: number | null; onOnly: (id: number | null) => void }) {
  const names = words.watch.summary;
  const firstOf = (own: readonly Hit[]): number => own.reduce((least, { hit }) => Math.min(least, hit.step), Infinity);
  const lines = of.map((watched) => ({ watched, own: hits.filter((hit) => hit.point.id === watched.id) }));
  lines.sort((a, b) => (firstOf(a.own) === firstOf(b.own) ? b.own.length - a.own.length : firstOf(a.own) - firstOf(b.own))); // those without a hit come last
  return (
    <table class="list-table watch-summary">
      <thead><tr><th scope="col">{words.watch.columns.condition}</th><th scope="col" class="nowrap">{names.first}</th><th scope="col">{names.hits}</th><th scope="col">{names.ops}</th></tr></thead>
      <tbody>
        {lines.map(({ watched, own }) => {
          const { id } = watched.watch_condition;
          return (
            <tr key={watched.id} class={only === watched.id ? "chosen" : ""}>
              <th scope="row">
                {own.length ? <button type="button" class="plain" aria-pressed={only === watched.id} onClick={() => onOnly(only === watched.id ? null : watched.id)}>{sentenceOf(id, id)}</button> : <span class="soft">{sentenceOf(id, id)}</span>}{" "}
                <code>{id}</code>
              </th>
              <td class="right">{own.length ? firstOf(own) : ""}</td>
              <td class="right">{formatCount(own.length)}</td>
              <td class="right">{formatCount(new Set(own.map(({ hit }) => hit.op_name)).size)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function NotJudged({ of }: { of: WatchDocument }) {
  const entries = of.not_judged ?? [];
  if (!entries.length) return null;
  return (
    <Card title={`${words.watch.notJudged}: ${entries.length}`}>
      <ul class="plain-list">
        {entries.slice(0, MOST_REASONS).map((entry, i) => <li key={i}><OpLink name={entry.op_name} patch={{ s: entry.step }} scope={false} /> {entry.reason}</li>)}
      </ul>
      {entries.length > MOST_REASONS && <Empty>{words.op.more(entries.length - MOST_REASONS)}</Empty>}
    </Card>
  );
}
