// The answer of compare, in its own words, and the job that gives it: the same on the overview and on the screen of the comparison.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Job, Op, Overview } from "../api.ts";
import { isOver, runJob } from "../jobs.ts";
import { groupsOf } from "../groups.ts";
import { formatCount, formatShape } from "../numbers.ts";
import { CalledFrom, CodeLines } from "../parts/code.tsx";
import { NextCommands } from "../parts/next.tsx";
import { OpLink, shortScope, splitName } from "../parts/op_name.tsx";
import { Card, lineOf, Problem, Tags } from "../parts/ui.tsx";
import { dump, forget, formatSlot, hasOp, linkTo, type Patch, report, status, useAnnounced, useJson } from "../state.ts";
import { words } from "../words.ts";
import { type Comparison, type Difference, firstOf, goldenPlaceOf, isAt, type Pair, type Place, placeIn, useLastJob, verdictWord } from "./comparison.ts";

export const isPair = (): boolean => (status.value?.dumps.length ?? 0) > 1;

export interface Compared {
  shown: Job | null; // the last one that ended well; while another one runs, and when it fails, it stays
  result: Comparison | null; // of it
  runs: boolean;
  error: Error | undefined;
  run: (more?: Record<string, unknown>) => Promise<void>;
}

// The comparison of the two dumps. The first one starts by itself.
export function useCompare(): Compared {
  const [job, setJob] = useState<Job | null>(null);
  const [error, setError] = useState<Error>();
  const last = useLastJob(isPair());
  const run = async (more: Record<string, unknown> = {}): Promise<void> => {
    setError(undefined);
    try {
      const done = await runJob("compare", { csv: true, ...more }, setJob);
      if (done.state === "failed") setError(new Error(done.error));
      forget();
    } catch (problem) {
      setError(problem as Error);
    }
  };
  const now = job ?? last.value ?? null;
  const kept = useRef<Job | null>(null);
  if (now?.state === "done") kept.current = now;
  const shown = kept.current;
  const isFirst = last.value === null && !report.value && status.value?.state === "ready" && isPair();
  useEffect(() => {
    if (isFirst && !job) void run();
  }, [isFirst]);
  const failed = now && isOver(now) && now.state !== "done" ? new Error(now.error || words.jobs.states[now.state]) : undefined;
  return { shown, result: shown ? (shown.result as unknown as Comparison) : null, runs: now ? !isOver(now) : isPair() && last.value === undefined && !last.error, error: error ?? last.error ?? failed, run };
}

// Whether it is known that no operator differs and none lacks a counterpart: only then may a card say that nothing is wrong.
export const isEqual = ({ result }: Compared): boolean => result !== null && result.complete && result.findings.length === 0 && APART.every((verdict) => !result.summary[verdict]);

// Whether an operator of the target was compared with one of golden.
const isMet = ({ summary }: Comparison): boolean => Object.entries(summary).some(([verdict, count]) => verdict !== "unmatched" && count > 0);

const APART = ["introduced", "propagated", "unmatched"] as const;
// Rounding may part two runs that no finding parts.
const sameWords = ({ summary }: Comparison): string => ([...APART, "within_tolerance" as const].some((verdict) => summary[verdict]) ? words.compare.withinRounding : words.compare.same);

// On the overview: the difference, or why there is none yet.
export function FirstDifference({ of }: { of: Compared }) {
  if (of.result) {
    return (
      <>
        <DifferenceCard of={of.result}>
          <a class="button" href={linkTo("compare")}>{words.compare.show}</a>
        </DifferenceCard>
        {of.error && <Problem error={of.error} />}
      </>
    );
  }
  if (of.error) return <Card class="verdict first-difference unsure"><p class="headline">{words.compare.failed}</p><Problem error={of.error} /></Card>;
  return (
    <Card class="verdict first-difference waiting">
      <p class="buttons" role="status">
        {of.runs || status.value?.state === "ready" ? words.compare.running : status.value?.state === "live" ? words.compare.due : words.states.indexing}{" "}
        {!of.runs && status.value?.state === "live" && <button type="button" class="small" onClick={() => void of.run()}>{words.compare.run}</button>}
      </p>
    </Card>
  );
}

export function DifferenceCard({ of, children }: { of: Comparison; children?: preact.ComponentChildren }) {
  const first = of.findings[0];
  const headline = of.complete ? sameWords(of) : isMet(of) ? words.compare.incomplete : words.compare.nothingMet;
  useAnnounced(first ? `${words.compare.first}: ${splitName(first.op_name).own} ${lineOf(first.source_file, first.source_line)}` : headline);
  if (!first) {
    return (
      <Card class={`verdict first-difference ${of.complete ? "good" : "unsure"}`}>
        <p class="headline"><span class="big-sign" aria-hidden="true">{of.complete ? "✓" : "?"}</span> {headline}</p>
        <Facts of={of} />
        <div class="buttons">{children}</div>
      </Card>
    );
  }
  const { called, clauses: [why = "", ...more] } = reasonsOf(first);
  // A fact of the sentence is not repeated.
  const evidence = first.evidence.filter((line) => !first.text.includes(line.slice(line.indexOf(": ") + 2)));
  // Nor one that the evidence says with more.
  const clauses = more.filter((clause) => !evidence.some((line) => line.startsWith(clause.replace(/ [\d.e+-]+$/, ""))));
  const there = goldenPlaceOf(of, placeIn(first), first.op_name);
  const golden = { ...placeOf(first), r: there.rank, g: there.graph, s: there.step, d: 1 };
  const said = words.compare.said(first.kind, first.op_type);
  const pair = of.ops[firstOf(of) ?? -1];
  return (
    <Card class={`verdict first-difference bad${first.tags.includes("uncertain") ? " uncertain" : ""}`}>
      <div class="verdict-columns">
        <div>
          <p class="eyebrow">{words.compare.first} <Tags of={first.tags} /></p>
          <h2 class="headline">
            <span class="big-sign" aria-hidden="true">✕</span> <DifferenceLink of={first} /><span class="at"> {lineOf(first.source_file, first.source_line)}</span>
          </h2>
          {called && <p class="why" lang="en">{called}</p>}
          {said && <p class="why">{said}</p>}
          {why && <p class={said || called ? "soft" : "why"} lang={said ? "en" : undefined}>{why}</p>}
          {clauses.length > 0 && <ul class="evidence">{clauses.map((clause) => <li key={clause}>{clause}</li>)}</ul>}
          {evidence.length > 0 && <ul class="evidence" lang="en">{evidence.map((line) => <li key={line}><code>{line}</code></li>)}</ul>}
          <Where of={first} />
          <p class="buttons">
            <a class="button primary" href={linkTo("op", { ...placeOf(first), t: slotOf(first), tab: pair?.golden[0] ? "golden" : undefined })}>{words.overview.showOp}</a>
            {!first.in_golden && pair?.golden[0] && hasOp(pair.golden[0], golden) && <a class="button" href={linkTo("op", { ...golden, op: pair.golden[0] })}>{words.compare.showGolden}</a>}
            <a class="button" href={linkTo("compare", { ...placeOf(first), view: "graphs" })}>{words.compare.graphs}</a>
            {children}
          </p>
        </div>
        <Sides of={first} pair={pair} there={there} />
      </div>
      <Facts of={of} />
      <NextCommands of={of.next_commands} />
      <Others of={of} />
    </Card>
  );
}

// A loop, as over parts of a batch, makes one difference in each call of a line: it is listed once, with the other calls.
function Others({ of }: { of: Comparison }) {
  const [own = [], ...others] = groupsOf(of.findings, (finding) => [finding.op_type, splitName(finding.op_name).scope, finding.source_file, finding.source_line, finding.kind, finding.in_golden, finding.rank].join(" "));
  return (
    <>
      <Again of={own} />
      {others.length > 0 && (
        <details>
          <summary>{words.overview.others(others.length)}</summary>
          <ul class="plain-list">{others.map((same, i) => same[0] && <li key={i}><DifferenceLink of={same[0]} /> <Tags of={same[0].tags} /> {same[0].text} <Again of={same} /></li>)}</ul>
        </details>
      )}
    </>
  );
}

function Again({ of: [, ...more] }: { of: readonly Difference[] }) {
  if (!more.length) return null;
  return <p class="soft again">{words.overview.alsoCalls(more.length)}: {more.slice(0, MOST_CALLS).map((one, i) => <span key={i}>{i > 0 && ", "}<DifferenceLink of={one} /> {words.map.step} {one.step}</span>)}{more.length > MOST_CALLS && ", …"}</p>;
}

const MOST_CALLS = 8;

// Of the operator's own screen: the comparison's finding about it.
export function DifferenceOfOp({ of, name, at }: { of: Comparison; name: string; at: Place }) {
  const found = of.findings.find((one) => one.op_name === name && one.in_golden === (dump.value === 1) && isAt(at, placeIn(one)));
  if (!found) return null;
  const { called, clauses } = reasonsOf(found);
  return (
    <Card class={`of-finding bad${found.tags.includes("uncertain") ? " uncertain" : ""}`}>
      <p class="eyebrow">{found === of.findings[0] ? words.compare.first : words.overview.finding} <Tags of={found.tags} /></p>
      {[...(called ? [called] : []), ...clauses].map((clause, i) => <p key={clause} class={i ? "soft" : "why"} lang="en">{clause}</p>)}
    </Card>
  );
}

// What the two programs ask for comes before the numbers that follow from it.
function reasonsOf(of: Difference): { called: string; clauses: string[] } {
  const called = of.attributes.length ? words.compare.called(of.attributes.join("; ")) : "";
  return { called, clauses: clausesOf(of).filter((clause) => !of.attributes.some((one) => clause.endsWith(one))) };
}

// The sentence without the place that it begins with: what the headline says already.
export function clausesOf({ text, op_name: name }: Difference): string[] {
  const at = name ? text.indexOf(name) : -1;
  const end = at < 0 ? -1 : text.indexOf(": ", at + name.length);
  return (end < 0 ? text : text.slice(end + 2)).split(/; (?![^(]*\))/); // none of those in parentheses
}

const placeOf = (of: Difference): Patch => ({ op: of.op_name, s: of.step, g: of.graph, r: of.rank, d: of.in_golden ? 1 : 0, t: undefined });
const slotOf = ({ tensor }: Difference): string | undefined => tensor && formatSlot(tensor);

function Where({ of }: { of: Difference }) {
  const scope = shortScope(splitName(of.op_name).scope);
  return (
    <p class="soft">
      {scope && <>{scope} <span class="dot">·</span> </>}{words.overview.where(String(of.rank), of.step, "")}
      {of.tensor && <> <span class="dot">·</span> {of.tensor.side}.{of.tensor.slot} {of.tensor.dtype} {formatShape(of.tensor.shape)}</>}
    </p>
  );
}

// The lines of both programs; a side that the dump or the report has no text of is left out.
function Sides({ of, pair, there }: { of: Difference; pair: Pair | undefined; there: Place }) {
  const at = { rank: of.rank, graph: of.graph, step: of.step };
  const other = useJson<Overview>(pair && !report.value ? "overview" : null, { dump: 1 });
  const isThere = report.value !== null || other.value?.steps.some((one) => isAt(one, there));
  const target = useJson<Op>(pair?.target[0] ? "op" : null, { ...at, name: pair?.target[0] });
  const golden = useJson<Op>(pair?.golden[0] && isThere ? "op" : null, { ...there, dump: 1, name: pair?.golden[0] });
  const side = (name: string, op: Pick<Op, "code"> | undefined): preact.ComponentChildren =>
    op && op.code.lines.length > 0 && <><p class="eyebrow">{name} <span class="where">{lineOf(op.code.source_file, op.code.source_line)}</span></p><CodeLines lines={op.code.lines} marked={op.code.source_line} /><CalledFrom of={op.code} /></>;
  const isMissing = golden.error || (other.value && !isThere);
  const ownGolden = golden.value ?? (isMissing && of.golden_code ? { code: of.golden_code } : undefined);
  return <div>{side(words.compare.sides.target, target.value)}{side(words.compare.sides.golden, ownGolden)}</div>;
}

const DifferenceLink = ({ of }: { of: Difference }) => <OpLink name={of.op_name} patch={{ s: of.step, g: of.graph, r: of.rank, d: of.in_golden ? 1 : 0 }} scope={false} />;

// The operators by verdict, and what could not be compared.
function Facts({ of }: { of: Comparison }) {
  const counts = Object.entries(of.summary).filter(([, count]) => count > 0);
  return (
    <>
      <p class="soft">{counts.map(([name, count]) => `${count} ${verdictWord(name)}`).join(" · ")}</p>
      {of.joined && <p class="soft" lang="en">{of.joined}</p>}
      {of.notes.map((note) => <p key={note} class="soft">{note}</p>)}
      {of.problems.length > 0 && (
        <details class="problems" open={of.findings.length === 0}>
          <summary>{words.compare.leftOut}: {formatCount(of.problems.length)}</summary>
          <ul class="plain-list">{of.problems.map(({ path, message }, i) => <li key={i}>{path && <code>{path}</code>} {message}</li>)}</ul>
        </details>
      )}
    </>
  );
}
