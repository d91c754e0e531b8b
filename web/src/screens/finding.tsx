// The answer of first-bad, in its own words.
import { useState } from "preact/hooks";
import { plainCommand } from "../commands.ts";
import { runJob } from "../jobs.ts";
import { formatCount, formatNumber, formatShape, type Num } from "../numbers.ts";
import { CodeLines } from "../parts/code.tsx";
import { OpLink, shortScope, splitName } from "../parts/op_name.tsx";
import { Card, Command, Copy, lineOf, Problem } from "../parts/ui.tsx";
import { dump, formatSlot, linkTo, rankName } from "../state.ts";
import { words } from "../words.ts";

interface FoundTensor {
  op_name: string;
  side: string;
  slot: number;
  dtype: string;
  shape: number[] | null;
  nan_count?: number | null;
  positive_inf_count?: number | null;
  negative_inf_count?: number | null;
}

export interface FoundCode {
  source_file: string;
  source_line: number;
  function: string;
  lines: { number: number; text: string }[];
}

export interface Finding {
  kind: string;
  rank: number;
  dump: string;
  graph: number;
  step: number;
  phase: string;
  op_name: string;
  why: string;
  tensor?: FoundTensor | null;
  numbers: Record<string, Num>;
  evidence: string[];
  limits: string[];
  code?: FoundCode | null;
}

// docs/json/first-bad.schema.json, as far as the page shows it.
export interface FirstBad {
  complete: boolean;
  unfinished: { state: "killed" | "stopped" | "running"; rank: number; dump: string; graph: number; step: number; in_step: boolean }[];
  first: Finding | null;
  findings: Finding[];
  reaches: string;
  path: string[];
  healthy: { tensor: FoundTensor; rank: number; graph: number; step: number; places: { rank: number; dump: string }[]; how: string; absorbed_by: string[]; code?: FoundCode | null }[];
  notes: string[];
  looked_at: { ranks: number; steps: number; ops: number; tensors: number };
}

export function FindingCard({ of }: { of: FirstBad }) {
  if (!of.first) {
    const whole = of.complete && of.unfinished.length === 0;
    const headline = !of.complete ? words.overview.incomplete : whole ? words.overview.healthy : words.overview.healthySoFar;
    return (
      <Card class={`verdict ${whole ? "good" : "unsure"}`}>
        <p class="headline"><span class="big-sign" aria-hidden="true">{whole ? "✓" : "?"}</span> {headline}</p>
        {of.unfinished.map((run) => <p key={rankName(run)} class="why">{words.overview.unfinished(run.state, of.looked_at.ranks > 1 ? rankName(run) : "", run.step, run.in_step)}</p>)}
        <p class="soft">{words.overview.looked(formatCount(of.looked_at.ops), formatCount(of.looked_at.tensors))}</p>
        {of.notes.map((note) => <p key={note} class="soft">{note}</p>)}
        <Healthy of={of} />
        <Command text={plainCommand("first-bad")} />
      </Card>
    );
  }
  const first = of.first;
  const { own, scope } = splitName(first.op_name);
  const where = { op: first.op_name, r: rankName(first), g: first.graph, s: first.step, t: first.tensor ? formatSlot(first.tensor) : undefined };
  return (
    <Card class="verdict bad">
      <div class="verdict-columns">
        <div>
          <p class="eyebrow">{words.overview.first}</p>
          <h2 class="headline">
            <span class="big-sign" aria-hidden="true">✕</span> <a href={linkTo("op", where)}>{own}</a>
            {first.code && <span class="at"> {lineOf(first.code.source_file, first.code.source_line)}</span>}
          </h2>
          <p class="why">{first.why}</p>
          <p class="soft">
            {shortScope(scope) && <>{shortScope(scope)} <span class="dot">·</span> </>}
            {words.overview.where(rankName(first), first.step, first.phase)}
            {first.tensor && <> <span class="dot">·</span> {first.tensor.side}.{first.tensor.slot} {first.tensor.dtype} {formatShape(first.tensor.shape)}</>}
          </p>
          <PathLine of={of} patch={{ s: first.step, r: rankName(first), g: first.graph }} />
          <p class="buttons">
            <a class="button primary" href={linkTo("op", where)}>{words.overview.showOp}</a>
            <a class="button" href={linkTo("graph", { ...where, path: "effect" })}>{words.overview.showPath}</a>
            <NextConfiguration />
          </p>
        </div>
        <div>
          {first.code && <CodeLines lines={first.code.lines} marked={first.code.source_line} />}
          <ul class="evidence">{first.evidence.map((line) => <li key={line}><code>{line}</code></li>)}</ul>
        </div>
      </div>
      <More of={of} />
      <Command text={plainCommand("first-bad")} />
    </Card>
  );
}

const MOST_OF_PATH = 14; // of a longer one the first and the last are shown

function PathLine({ of, patch }: { of: FirstBad; patch: Record<string, string | number> }) {
  if (!of.reaches) return <p class="path-line soft">{words.overview.reachesNothing}</p>;
  return (
    <p class="path-line">
      <span class="soft">{words.overview.reaches(of.reaches)}: </span>
      {of.path.map((name, i) => {
        const isLong = of.path.length > MOST_OF_PATH;
        if (isLong && i > MOST_OF_PATH - 4 && i < of.path.length - 3) return null;
        const left = isLong && i === MOST_OF_PATH - 4;
        return (
          <span key={name}>
            {i > 0 && <span aria-hidden="true"> → </span>}
            {left ? <a href={linkTo("graph", { ...patch, op: of.path[0], path: "effect" })}>… {words.overview.between(of.path.length - MOST_OF_PATH + 1)} …</a> : <OpLink name={name} patch={patch} scope={false} />}
          </span>
        );
      })}
    </p>
  );
}

function More({ of }: { of: FirstBad }) {
  const others = of.findings.filter((finding) => finding.op_name !== of.first?.op_name || finding.step !== of.first.step || rankName(finding) !== rankName(of.first));
  const limits = of.first?.limits ?? [];
  return (
    <div class="more">
      <Copy text={textOf(of)} label={words.copy.text} small />
      {others.length > 0 && (
        <details>
          <summary>{words.overview.others(others.length)}</summary>
          <ul class="plain-list">
            {others.map((finding, i) => (
              <li key={i}><OpLink name={finding.op_name} patch={{ s: finding.step, r: rankName(finding), g: finding.graph }} /> {finding.why}</li>
            ))}
          </ul>
        </details>
      )}
      <Healthy of={of} />
      {(limits.length > 0 || of.notes.length > 0) && (
        <details>
          <summary>{words.overview.notKnown}</summary>
          <ul class="plain-list">{[...limits, ...of.notes].map((line) => <li key={line}>{line}</li>)}</ul>
        </details>
      )}
    </div>
  );
}

function Healthy({ of }: { of: FirstBad }) {
  if (!of.healthy.length) return null;
  return (
    <details>
      <summary>{words.overview.healthyList}: {of.healthy.length}</summary>
      <ul class="plain-list">
        {of.healthy.map((entry, i) => (
          <li key={i}>
            <OpLink name={entry.tensor.op_name} patch={{ s: entry.step, r: rankName(entry.places[0] ?? entry), g: entry.graph, t: formatSlot(entry.tensor) }} scope={false} /> {entry.how}
            {entry.absorbed_by.map((name) => <span key={name}> → <OpLink name={name} patch={{ s: entry.step, r: rankName(entry.places[0] ?? entry), g: entry.graph }} scope={false} /></span>)}
            {entry.code && <span class="where"> {lineOf(entry.code.source_file, entry.code.source_line)}</span>}
          </li>
        ))}
      </ul>
    </details>
  );
}

function NextConfiguration() {
  const [text, setText] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const make = async (): Promise<void> => {
    try {
      const job = await runJob("next-config", { dump: dump.value }, () => undefined);
      if (job.state === "done") setText(JSON.stringify(job.result, null, 2));
      else setError(new Error(job.error || words.jobs.states[job.state]));
    } catch (problem) {
      setError(problem as Error);
    }
  };
  return (
    <>
      <button type="button" onClick={() => void make()}>{words.overview.nextConfig}</button>
      {error && <Problem error={error} />}
      {text && <span class="next-config"><pre tabIndex={0}>{text}</pre><Copy text={text} /></span>}
    </>
  );
}

// The sentence as text, for an issue or a letter.
function textOf(of: FirstBad): string {
  const { first } = of;
  if (!first) return "";
  const code = first.code;
  return [
    `first bad: ${first.op_name}`,
    ...(code ? [`  ${code.source_file}:${code.source_line} in ${code.function}`, ...code.lines.map((line) => `  ${line.number === code.source_line ? ">" : " "} ${line.number}  ${line.text}`)] : []),
    `  where  rank ${rankName(first)}, graph ${first.graph}, step ${first.step}, ${first.phase}`,
    `  why    ${first.why}`,
    ...Object.entries(first.numbers).map(([name, value]) => `  ${name} ${formatNumber(value)}`),
    ...first.evidence.map((line) => `  ${line}`),
    ...(of.reaches ? [`  reaches ${of.reaches}: ${of.path.map((name) => splitName(name).own).join(" -> ")}`] : []),
  ].join("\n");
}
