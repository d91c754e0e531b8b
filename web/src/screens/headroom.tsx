// Headroom: what the tensors of each scope would lose as another type, as a map that opens to the operators.
import { signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import type { HeadroomReport } from "../answers.ts";
import type { Job } from "../api.ts";
import { isOver, runJob } from "../jobs.ts";
import { formatCount, formatNumber } from "../numbers.ts";
import { splitName } from "../parts/op_name.tsx";
import { Matrix, type MatrixCell } from "../parts/matrix.tsx";
import { Card, Command, Empty, Problem, Select } from "../parts/ui.tsx";
import { dump, formatSlot, go } from "../state.ts";
import { words } from "../words.ts";
import { type Loss, type ScopeLine, scopeLines } from "./headroom_scopes.ts";

const SCALES = ["none", "tensor", "block"] as const;
const SIDES = ["output", "input", "both"] as const;
const MUCH_TO_ZERO = 0.01; // a share that is said before the headroom
const ONE_DOUBLING = 1;

// The last answer of each dump: it is there again when a person comes back from an operator.
const answers = signal<ReadonlyMap<number, Job>>(new Map());

export function Headroom() {
  const names = words.headroom;
  const [scale, setScale] = useState<(typeof SCALES)[number]>("none");
  const [side, setSide] = useState<(typeof SIDES)[number]>("output");
  const [dtypes, setDtypes] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const of = dump.value;
  const job = answers.value.get(of) ?? null;
  const setJob = (next: Job): void => void (answers.value = new Map([...answers.value, [of, next]]));
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    setError(null);
    const asked = dtypes.split(/[\s,]+/).filter(Boolean);
    try {
      const done = await runJob("headroom", { dump: of, scale, side, ...(asked.length ? { dtypes: asked } : {}) }, setJob);
      if (done.state === "failed") setError(new Error(done.error));
    } catch (problem) {
      setError(problem as Error);
    }
  };
  const result = job?.state === "done" ? (job.result as unknown as HeadroomReport) : null;
  return (
    <Card title={names.title} hint={names.hint}>
      <form class="toolbar" onSubmit={(event) => void run(event)}>
        <label class="slice long"><span>{names.types}</span> <input value={dtypes} placeholder={names.typesHint} onInput={(event) => setDtypes(event.currentTarget.value)} spellcheck={false} /></label>
        <Select label={names.scale} value={scale} onChange={setScale} choices={SCALES.map((value) => ({ value, label: names.scales[value] }))} />
        <Select label={names.side} value={side} onChange={setSide} choices={SIDES.map((value) => ({ value, label: names.sides[value] }))} />
        <button type="submit" disabled={job !== null && !isOver(job)}>{names.run}</button>
      </form>
      {error && <Problem error={error} />}
      {job && !isOver(job) && <Empty>{names.running}</Empty>}
      {!job && !error && <Empty>{names.hint}</Empty>}
      {result && <ScopeMap of={result} />}
      {result && job && <Command text={job.command} />}
    </Card>
  );
}

function ScopeMap({ of }: { of: HeadroomReport }) {
  const [toggled, setToggled] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [whole, setWhole] = useState<ReadonlySet<string>>(new Set());
  const lines = useMemo(() => scopeLines(of.tensors, toggled, whole), [of, toggled, whole]);
  const types = useMemo(() => [...new Set(of.tensors.flatMap((tensor) => tensor.as_dtypes.map(({ dtype }) => dtype)))], [of]);
  if (!of.tensors.length) return <Empty>{words.headroom.none}</Empty>;
  return (
    <>
      <Matrix
        label={words.headroom.map}
        rows={lines.map(({ kind, name, scope, open, depth }) => ({ name: nameOf(kind, name), title: scope || nameOf(kind, name), depth, opens: kind === "scope" || kind === "more", open: kind === "scope" ? open : undefined }))}
        columns={types.map((name) => ({ name, title: name }))}
        cell={(row, column) => {
          const loss = lines[row]?.losses.get(types[column] ?? "");
          return loss ? cellOf(loss) : null;
        }}
        onRow={(row) => {
          const line = lines[row];
          if (line?.kind === "more") setWhole(new Set([...whole, line.scope]));
          else if (line) setToggled(new Map([...toggled, [line.scope, !line.open]]));
        }}
        onOpen={(row, column) => {
          const worst = lines[row]?.losses.get(types[column] ?? "")?.worst;
          if (worst) go("op", { op: worst.op_name, t: formatSlot(worst), s: worst.step, g: worst.graph, r: String(worst.rank) });
        }}
      />
      <p class="soft">{words.headroom.legend}</p>
      {of.not_known > 0 && <p class="soft">{words.headroom.notKnown(formatCount(of.not_known))}</p>}
    </>
  );
}

const nameOf = (kind: ScopeLine["kind"], name: string): string => (kind === "all" ? words.headroom.all : kind === "more" ? words.map.more(name) : name);

const percent = (count: number, all: number): string => `${formatNumber((100 * count) / all, 2)} %`;

function cellOf(loss: Loss): MatrixCell {
  const names = words.headroom;
  const lost = loss.elements ? loss.underflow / loss.elements : 0;
  const room = loss.headroom === null ? "" : formatNumber(loss.headroom, 3);
  const parts = [
    loss.overflow ? names.over(percent(loss.overflow, loss.elements)) : loss.overflows ? names.overflows : "",
    loss.underflow ? names.toZero(percent(loss.underflow, loss.elements)) : "",
    loss.subnormal ? names.subnormal(percent(loss.subnormal, loss.elements)) : "",
    room ? names.room(room) : "",
    names.worst(`${splitName(loss.worst.op_name).own}:${loss.worst.side}.${loss.worst.slot}`),
    loss.counted < loss.tensors ? names.statistics(formatCount(loss.tensors - loss.counted), formatCount(loss.tensors)) : "",
  ];
  const text = parts.filter(Boolean).join(", ");
  if (loss.overflows) return { colour: "--infinity", sign: loss.overflow ? names.over(percent(loss.overflow, loss.elements)) : names.overflows, text };
  if (lost >= MUCH_TO_ZERO) return { colour: "--unjudged_infinity", sign: names.toZero(percent(loss.underflow, loss.elements)), text };
  return { colour: loss.headroom !== null && loss.headroom < ONE_DOUBLING ? "--healthy_infinity" : "--fine", sign: room, text };
}
