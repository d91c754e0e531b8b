// One tensor: its distribution, values, picture, and its way over the steps.
import { useState } from "preact/hooks";
import type { Element, Histogram, Op } from "../api.ts";
import { plainCommand, pythonTensor, showCommand } from "../commands.ts";
import { bitsOf, elementAt, type Npy, readNpy } from "../npy.ts";
import { formatCount, formatNumber, formatShape, type Num, toNumber } from "../numbers.ts";
import { curvesByRank } from "../parts/curves.ts";
import { HeatMap, type HeatKind } from "../parts/heat.tsx";
import { HistogramPicture } from "../parts/histogram.tsx";
import { Plot } from "../parts/plot.tsx";
import { SliceField, sliceOf } from "../parts/slice.tsx";
import { Await, Card, Command, Empty, Select, Tabs, useSize } from "../parts/ui.tsx";
import type { Query } from "../source/source.ts";
import { change, dump, keyOf, params, place, report, source, status, step, useData, useJson } from "../state.ts";
import { words } from "../words.ts";
import { GoldenTab, PreviousTab } from "./difference.tsx";
import type { OpTensor } from "./tensor_card.tsx";

type Tab = keyof typeof words.op.tabs;

export function TensorView({ of, op }: { of: OpTensor; op: Op }) {
  const { tensor } = of;
  const before = op.steps[op.steps.indexOf(step.value) - 1];
  const tabs: Tab[] = of.has_values ? ["histogram", "values", "heat", "trend"] : ["trend"];
  if (of.has_values && before !== undefined) tabs.push("previous");
  if (of.has_values && (status.value?.dumps.length ?? 0) > 1 && dump.value === 0) tabs.push("golden");
  const tab = tabs.find((name) => name === params.value.tab) ?? (tabs[0] as Tab);
  const query: Query = { ...place.value, name: op.op_name, side: tensor.side, slot: tensor.slot };
  return (
    <Card
      title={`${tensor.side}.${tensor.slot}  ${tensor.dtype} ${formatShape(tensor.shape)}`}
      extra={of.has_values && !report.value && <Download query={query} name={`${op.op_type}.${tensor.side}.${tensor.slot}.npy`} />}
    >
      <Tabs label={words.op.tab} value={tab} choices={tabs.map((value) => ({ value, label: words.op.tabs[value] }))} onChange={(value) => change({ tab: value })} />
      <div role="tabpanel" aria-label={words.op.tabs[tab]} class="tab-panel">
        {!of.has_values && <Empty>{words.states.noValues}</Empty>}
        {tab === "histogram" && <HistogramTab query={query} op={op} />}
        {tab === "values" && <ValuesTab query={query} shape={tensor.shape ?? []} />}
        {tab === "heat" && <HeatTab query={query} shape={tensor.shape ?? []} />}
        {tab === "trend" && <TrendTab query={query} />}
        {tab === "previous" && before !== undefined && <PreviousTab query={query} shape={tensor.shape ?? []} before={before} />}
        {tab === "golden" && <GoldenTab query={query} shape={tensor.shape ?? []} of={of} />}
      </div>
      <Command text={commandOf(tab, of, before, sliceOf(tensor.shape ?? [], query))} />
    </Card>
  );
}

// What gives the numbers of a tab.
function commandOf(tab: Tab, { tensor }: OpTensor, before: number | undefined, slice: string): string {
  if (tab === "histogram") return showCommand(tensor);
  if (tab === "trend") return showCommand(tensor, ["--trend", "max,min,avg,l2norm"], null);
  if (tab === "golden") return plainCommand("compare") && `${plainCommand("compare")} ${status.value?.dumps[1]?.path ?? "GOLDEN"}`;
  const values = pythonTensor(tensor, slice);
  return tab === "previous" && values ? `${values} - ${pythonTensor(tensor, slice, before)}` : values;
}

function Download({ query, name }: { query: Query; name: string }) {
  const save = async (): Promise<void> => {
    if (!source.value) return;
    const bytes = await source.value.bytes("tensor/file", query);
    const address = URL.createObjectURL(new Blob([bytes]));
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  return <button type="button" class="small" onClick={() => void save()}>{words.op.download}</button>;
}

type Scale = "linear" | "log" | "symlog";

function HistogramTab({ query, op }: { query: Query; op: Op }) {
  const scale = (["log", "symlog"].find((name) => name === params.value.scale) ?? "linear") as Scale;
  const [ghost, setGhost] = useState(false);
  const now = useJson<Histogram>("tensor/histogram", { ...query, scale, bins: 64 });
  const before = op.steps[op.steps.indexOf(step.value) - 1];
  const edges = now.value?.edges;
  const old = useJson<Histogram>(ghost && before !== undefined && edges ? "tensor/histogram" : null, {
    ...query, step: before, scale, bins: 64, min: Number(toNumber(edges?.[0])), max: Number(toNumber(edges?.at(-1))),
  });
  return (
    <>
      <div class="toolbar">
        <Select label={words.histogram.scale} value={scale} onChange={(value) => change({ scale: value === "linear" ? undefined : value }, true)}
          choices={(["linear", "log", "symlog"] as const).map((value) => ({ value, label: words.histogram[value] }))} />
        {before !== undefined && !report.value && (
          <label class="check"><input type="checkbox" checked={ghost} onChange={(event) => setGhost(event.currentTarget.checked)} /> {words.histogram.ghost}</label>
        )}
      </div>
      <Await of={now}>{(value) => <HistogramPicture of={value} ghost={ghost ? old.value : undefined} />}</Await>
    </>
  );
}

const MOST_CELLS = 4000;
type Kind = keyof typeof words.values.kinds;

function ValuesTab({ query, shape }: { query: Query; shape: readonly number[] }) {
  const slice = sliceOf(shape, query);
  const values = useData(keyOf("tensor/values", { ...query, slice }), async (from, signal) => readNpy(await from.bytes("tensor/values", { ...query, slice }, signal)));
  const [message, setMessage] = useState("");
  const [mark, setMark] = useState<readonly number[] | null>(null);
  const [from, setFrom] = useState(0);
  const [bits, setBits] = useState(false);
  const jump = async (of: Kind): Promise<void> => {
    if (!source.value) return;
    const ask = (start: number): Promise<Element> => (source.value as NonNullable<typeof source.value>).json<Element>("tensor/next", { ...query, of, from: start });
    let found = await ask(report.value ? 0 : from);
    if (!found.index && from) found = await ask(0);
    if (!found.index || found.flat === null) {
      setMessage(words.values.none);
      return;
    }
    setMessage(`[${found.index.join(",")}] = ${found.text}`);
    if (!report.value || !/\d/.test(slice)) setMark(found.index);
    setFrom(found.flat + 1);
    if (shape.length > 2 && !report.value) change({ at: [...found.index.slice(0, -2), ":", ":"].join(",") }, true);
  };
  return (
    <>
      <div class="toolbar">
        <SliceField shape={shape} query={query} />
        <span class="buttons">
          <span class="soft">{words.values.next}</span>
          {(Object.keys(words.values.kinds) as Kind[]).map((kind) => (
            <button key={kind} type="button" class="small" onClick={() => void jump(kind)}>{words.values.kinds[kind]}</button>
          ))}
        </span>
        <label class="check"><input type="checkbox" checked={bits} onChange={(event) => setBits(event.currentTarget.checked)} /> {words.values.bits}</label>
      </div>
      <p class="read-out" aria-live="polite">{message || " "}</p>
      <Await of={values}>{(value) => <ValueTable of={value} mark={mark && mark.slice(-2)} bits={bits} />}</Await>
    </>
  );
}

function ValueTable({ of, mark, bits }: { of: Npy; mark: readonly number[] | null; bits: boolean }) {
  const columns = of.shape.at(-1) ?? 1;
  const all = of.shape.reduce((product, size) => product * size, 1);
  const rows = columns ? Math.min(all / columns, Math.max(1, Math.floor(MOST_CELLS / columns))) : 0;
  const shownColumns = Math.min(columns, MOST_CELLS);
  const left = all - rows * shownColumns;
  return (
    <div class="scroll-x values" tabIndex={0} role="region" aria-label={words.op.tabs.values}>
      <table>
        <thead>
          <tr><th />{Array.from({ length: shownColumns }, (_, column) => <th key={column} scope="col">{column}</th>)}</tr>
        </thead>
        <tbody>
          {Array.from({ length: rows }, (_, row) => (
            <tr key={row}>
              <th scope="row">{row}</th>
              {Array.from({ length: shownColumns }, (__, column) => {
                const value = elementAt(of, row * columns + column);
                const marked = mark !== null && mark.at(-1) === column && (mark.length < 2 || mark[0] === row);
                const kind = Number.isNaN(value) ? "nan" : Number.isFinite(value) ? "" : "infinity";
                return <td key={column} class={`${kind}${marked ? " marked" : ""}`} ref={marked ? scrollTo : null}>{bits ? bitsOf(of, row * columns + column) : formatNumber(value)}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
      {left > 0 && <Empty>{words.values.rest(formatCount(left))}</Empty>}
    </div>
  );
}

const scrollTo = (element: HTMLElement | null): void => element?.scrollIntoView({ block: "nearest", inline: "nearest" });

function HeatTab({ query, shape }: { query: Query; shape: readonly number[] }) {
  const [kind, setKind] = useState<HeatKind>("mean");
  const [frame, size] = useSize<HTMLDivElement>();
  const slice = sliceOf(shape, query);
  const side = report.value ? 64 : 256;
  const cells = { ...query, slice, w: side, h: side };
  const table = useData(size.width ? keyOf("tensor/heat", cells) : null, (from, signal) => from.table("tensor/heat", cells, signal));
  return (
    <div ref={frame}>
      <div class="toolbar">
        <SliceField shape={shape} query={query} />
        <Select label={words.heat.shows} value={kind} onChange={setKind} choices={(["mean", "min", "max"] as const).map((value) => ({ value, label: words.heat[value] }))} />
      </div>
      <Await of={table}>{(value) => <HeatMap table={value} kind={kind} label={words.op.tabs.heat} />}</Await>
    </div>
  );
}

const STATISTICS = ["max", "min", "avg", "l2norm"] as const;

function TrendTab({ query }: { query: Query }) {
  const [name, setName] = useState<(typeof STATISTICS)[number] | "all">("l2norm");
  const [log, setLog] = useState(false);
  const { step: _step, rank: _rank, ...asked } = query;
  const table = useData(keyOf("trend", asked), (from, signal) => from.table("trend", asked, signal));
  return (
    <>
      <div class="toolbar">
        <Select label={words.trend.statistics} value={name} onChange={setName} choices={STATISTICS.map((value) => ({ value, label: value }))} />
        <label class="check"><input type="checkbox" checked={log} onChange={(event) => setLog(event.currentTarget.checked)} /> {words.trend.log}</label>
      </div>
      <Await of={table}>
        {(value) => {
          const rows = Array.from({ length: value.rows }, (_, i) => ({ rank: String(value.get("rank", i)), step: Number(value.get("step", i)), y: value.get(name, i) as Num }));
          const { x, curves } = curvesByRank(rows.map((row) => ({ ...row, y: row.y === null ? null : toNumber(row.y) })), name, String(place.value.rank));
          if (x.length < 2) return <Empty>{words.trend.one}</Empty>;
          return <Plot label={words.op.tabs.trend} x={x} curves={curves} log={log} height={240} at={step.value} xLabel={words.trend.step} onPick={(s) => change({ s })} />;
        }}
      </Await>
    </>
  );
}
