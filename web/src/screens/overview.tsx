// The first screen: is the run sick, since when, where. The sentence is that of first-bad; the page judges nothing.
import { effect } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { inWords } from "../address.ts";
import type { FirstBad } from "../answers.ts";
import type { Class, Job, Overview as Document } from "../api.ts";
import { ReportFacts } from "../frame.tsx";
import { formatBytes, formatCount, formatNumber } from "../numbers.ts";
import { isOver, runJob } from "../jobs.ts";
import { besideOther, curvesByRank, meanLosses, type Point } from "../parts/curves.ts";
import { Plot } from "../parts/plot.tsx";
import { lacksRanks } from "../ranks.ts";
import { BAD, Card, Copy, Empty } from "../parts/ui.tsx";
import { change, dump, dumpStatus, forget, graph, notice, overview, rank, ranks, refresh, report, source, status, step, useJson } from "../state.ts";
import { words } from "../words.ts";
import { FindingCard } from "./finding.tsx";
import { FirstDifference, isEqual, isPair, useCompare } from "./first_difference.tsx";
import { GradientMatrix } from "./gradients.tsx";
import { HealthMap } from "./maps.tsx";
import { Requests } from "./requests.tsx";

export function Overview() {
  const document = overview.value;
  const compared = useCompare();
  if (!document) return <div class="page"><h1 class="hidden">{words.overview.title}</h1><Empty>{words.states.loading}</Empty></div>;
  return (
    <div class="page overview">
      <h1 class="hidden">{words.overview.title}</h1>
      {isPair() && <FirstDifference of={compared} />}
      <Verdict of={document} mayDiffer={isPair() && !isEqual(compared)} />
      <div class="overview-columns">
        <div>
          <Card title={words.overview.map} hint={words.overview.mapHint}><HealthMap /></Card>
          <Measure of={document} />
          <Card title={words.overview.gradients} hint={words.overview.gradientHint}><GradientMatrix /></Card>
        </div>
        <div>
          <Loss of={document} />
          <Requests />
          <Holds of={document} />
          <Notes of={document} />
          {report.value && <Card class="report-facts" title={words.report.about}><ReportFacts of={report.value} /></Card>}
        </div>
      </div>
    </div>
  );
}

// The result of first-bad; where none has run, or the dump has changed since, the page starts one.
function Verdict({ of, mayDiffer }: { of: Document; mayDiffer: boolean }) {
  const finding = of.finding as unknown as FirstBad | null;
  const [job, setJob] = useState<Job | null>(null);
  const [failed, setFailed] = useState("");
  const state = dumpStatus.value?.state;
  // A live run is asked once it has something bad; until then the user may.
  const ready = state === "ready" || (state === "live" && of.steps.some((entry) => BAD.includes(entry.class)));
  const isOld = finding !== null && !report.value && of.finding_generation !== of.generation;
  const isDue = !finding || (isOld && !(state === "live" && finding.first)); // what was first in a run stays first while it goes on
  const start = async (): Promise<void> => {
    if (!source.value) return;
    const look = { generation: of.generation, at: Date.now(), isRunning: true };
    asked.set(dump.value, look);
    setFailed("");
    try {
      const done = await runJob("first-bad", { dump: dump.value }, setJob).finally(() => (look.isRunning = false));
      if (done.state !== "done") setFailed(done.error || words.jobs.states[done.state]);
      else {
        await refresh();
        forget();
      }
    } catch (error) {
      notice(error);
      setFailed((error as Error).message);
    }
  };
  const isIdle = job === null || isOver(job);
  useEffect(() => {
    const last = asked.get(dump.value);
    if (!isDue || !ready || !source.value || last?.isRunning || last?.generation === of.generation) return;
    const timer = setTimeout(() => void start(), last ? Math.max(0, last.at + AGAIN_MS - Date.now()) : 0);
    return () => clearTimeout(timer);
  }, [isDue, ready, isIdle, of.generation, of.finding_generation, source.value]);
  const isSaid = finding && (finding.first || !isOld || state === "live"); // "nothing is wrong" holds for what was looked at alone
  if (isSaid) return <><FindingCard of={finding} mayDiffer={mayDiffer} />{isOld && <Changed isLooking={!isIdle} start={start} />}</>;
  if (failed) return <Card><p class="problem" role="alert">{failed}</p></Card>;
  return (
    <Card class="verdict waiting">
      <p class="buttons">
        {job || ready ? words.overview.looking : state === "live" ? words.overview.live : words.states.indexing}{" "}
        {!job && !ready && state === "live" && <button type="button" class="small" onClick={() => void start()}>{words.overview.run}</button>}
        {job && <button type="button" class="small" onClick={() => void source.value?.send("DELETE", `jobs/${job.job}`)}>{words.overview.cancel}</button>}
      </p>
    </Card>
  );
}

const AGAIN_MS = 10_000; // a dump that keeps changing is not looked at without a pause
const asked = new Map<number, { generation: number; at: number; isRunning: boolean }>(); // of each dump: the last look

function Changed({ isLooking, start }: { isLooking: boolean; start: () => Promise<void> }) {
  return (
    <p class="buttons soft">
      {isLooking ? words.overview.looking : words.overview.changed}{" "}
      {!isLooking && <button type="button" class="small" onClick={() => void start()}>{words.overview.again}</button>}
    </p>
  );
}

// Of the other dump of a pair: where the curves part, the runs do.
function useOtherLosses(): readonly Point[] {
  const other = useJson<Document>(isPair() && !report.value ? "overview" : null, { dump: dump.value === 0 ? 1 : 0 });
  return meanLosses((other.value?.loss ?? []).filter((point) => point.graph === graph.value));
}

function Loss({ of }: { of: Document }) {
  const others = useOtherLosses();
  const points = meanLosses(of.loss.filter((point) => point.graph === graph.value));
  if (!points.length) return <Card title={words.overview.loss}><Empty>{words.overview.noLoss}</Empty></Card>;
  const { target, golden } = words.compare.sides;
  const [own, other] = dump.value === 0 ? [target, golden] : [golden, target];
  const { x, curves } = besideOther(curvesByRank(points, others.length ? own : words.overview.loss, rank.value), others, rank.value, other);
  const last = points.find((point) => point.rank === rank.value && point.step === step.value);
  return (
    <Card title={words.overview.loss} extra={last && <span class="where">{words.map.step} {last.step}: <strong>{formatNumber(last.y)}</strong></span>}>
      <Plot label={words.overview.loss} x={x} curves={curves} height={150} at={step.value} onPick={(s) => change({ s })} />
    </Card>
  );
}

// Of a dump without statistics nobody has looked at the values: a job reads them.
function Measure({ of }: { of: Document }) {
  const [job, setJob] = useState<Job | null>(null);
  const [failed, setFailed] = useState("");
  if (!of.steps.some((entry) => entry.class === "not_measured")) return null;
  const run = async (): Promise<void> => {
    try {
      const done = await runJob("measure", { dump: dump.value }, setJob);
      if (done.state === "failed") setFailed(done.error);
      forget();
      await refresh();
    } catch (error) {
      notice(error);
      setFailed((error as Error).message);
    }
  };
  return (
    <Card>
      <p class="buttons">
        <span class="soft">{words.overview.notMeasured}</span>
        <button type="button" class="small" disabled={job !== null && !isOver(job)} onClick={() => void run()}>{words.overview.measure}</button>
      </p>
      {failed && <p class="problem" role="alert">{failed}</p>}
    </Card>
  );
}

function Holds({ of }: { of: Document }) {
  const sum = (name: "ops" | "tensors" | "files" | "bytes" | "known"): number => of.steps.reduce((all, entry) => all + entry[name], 0);
  const run = of.ranks.find((entry) => entry.rank === rank.value)?.runs.at(-1);
  const steps = new Set(of.steps.map((entry) => `${entry.graph} ${entry.step}`)).size;
  const facts: [string, string][] = [
    [words.holds.ranks, lacksRanks(ranks.value, of.world_size) ? `${formatCount(of.ranks.length)}: ${inWords(ranks.value)}` : formatCount(of.ranks.length)], [words.holds.steps, formatCount(steps)], [words.holds.ops, formatCount(sum("ops"))],
    [words.holds.tensors, formatCount(sum("tensors"))], [words.holds.files, formatCount(sum("files"))],
  ];
  if (sum("bytes")) facts.push([words.holds.bytes, formatBytes(sum("bytes"))]);
  if (sum("tensors") > sum("known")) facts.push([words.holds.unknown, formatCount(sum("tensors") - sum("known"))]);
  if (run) {
    const ended = run.finished ? words.holds.whole : dumpStatus.value?.ended === "live" ? words.holds.running : words.holds.killed;
    facts.push([words.holds.ended, run.error ? words.holds.stopped(run.error) : ended]);
    if (run.saved_data) facts.push([words.holds.data, run.saved_data]);
    if (run.host) facts.push([words.holds.host, run.host]);
    if (run.started_us) facts.push([words.holds.started, new Date(run.started_us / 1000).toISOString().slice(0, 19).replace("T", " ")]);
  }
  return (
    <Card title={words.overview.holds}>
      <dl class="facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {run?.command && <p class="command"><code>{run.command}</code> <Copy text={run.command} small /></p>}
    </Card>
  );
}

function Notes({ of }: { of: Document }) {
  const notes = [...of.warnings, ...of.ranks.flatMap((entry) => entry.runs.flatMap((run) => [...run.notes, ...(run.error ? [run.error] : [])]))];
  return (
    <>
      {of.problems.length > 0 && (
        <Card title={words.overview.problems}>
          <ul class="notes">{of.problems.map((problem, i) => <li key={i}>{problem.path && <code>{problem.path}</code>} {problem.message}</li>)}</ul>
        </Card>
      )}
      {notes.length > 0 && <Card title={words.overview.notes}><ul class="notes">{notes.map((note, i) => <li key={i}>{note}</li>)}</ul></Card>}
    </>
  );
}

// The title and the sign of the tab follow the state, so that another tab notices the first NaN.
export function watchTitle(): void {
  effect(() => {
    const document = overview.value;
    const states = new Set<Class>(document?.steps.map((entry) => entry.class));
    const bad = states.has("nan") ? "✕ " : states.has("infinity") ? "∞ " : "";
    const name = status.value?.dumps[0]?.name;
    window.document.title = `${bad}${name ? `${name} – ` : ""}${words.product}`;
    const icon = window.document.querySelector<HTMLLinkElement>("link[rel=icon]");
    const fill = bad ? "%23c62828" : "%230b5cad";
    if (icon) icon.href = `data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><circle cx='8' cy='8' r='7' fill='${fill}'/></svg>`;
  });
}

