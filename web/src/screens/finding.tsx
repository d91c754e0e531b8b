// The answer of first-bad, in its own words.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Finding, FirstBad } from "../answers.ts";
import { plainCommand } from "../commands.ts";
import { groupsOf } from "../groups.ts";
import { runJob } from "../jobs.ts";
import { shortName } from "../names.ts";
import { formatCount, formatNumber, formatShape, toNumber } from "../numbers.ts";
import { CalledFrom, CodeLines } from "../parts/code.tsx";
import { countedWords } from "../parts/count.tsx";
import { Before, NextCommands } from "../parts/next.tsx";
import { lacksRanks } from "../ranks.ts";
import { OpLink, shortScope, splitName } from "../parts/op_name.tsx";
import { Card, Command, Copy, lineOf, plainTag, Problem, Tags } from "../parts/ui.tsx";
import { dump, formatSlot, hasPath, linkTo, overview, rankName, ranks, report, useAnnounced } from "../state.ts";
import { language, words } from "../words.ts";

// `mayDiffer`: from a golden run, as another card says; then this one never says that nothing is wrong.
export function FindingCard({ of, mayDiffer }: { of: FirstBad; mayDiffer: boolean }) {
  return of.first ? <Found of={of} first={of.first} /> : <NothingFound of={of} mayDiffer={mayDiffer} />;
}

function NothingFound({ of, mayDiffer }: { of: FirstBad; mayDiffer: boolean }) {
  const whole = of.complete && of.unfinished.length === 0 && !lacksRanks(ranks.value, overview.value?.world_size ?? 0); // a note says which
  const healthy = mayDiffer ? words.overview.noBadValue : words.overview.healthy;
  // A run that was killed: all that it recorded was examined, as far as the problems below do not say otherwise.
  const recorded = of.complete || (of.unfinished.some((run) => run.state === "killed") && of.problems.length === 0 && of.looked_at.tensors > 0);
  const early = of.unfinished.find((run) => run.state !== "running");
  const headline = !recorded ? words.overview.incomplete : whole ? healthy : words.overview.healthySoFar;
  useAnnounced(headline);
  return (
    <Card class={`verdict first-bad ${!whole ? "unsure" : mayDiffer ? "quiet" : "good"}`}>
      <p class="headline">{!(whole && mayDiffer) && <span class="big-sign" aria-hidden="true">{whole ? "✓" : "?"}</span>} {headline}</p>
      {of.unfinished.map((run) => <p key={rankName(run)} class="why">{words.overview.unfinished(run.state, of.looked_at.ranks > 1 ? rankName(run) : "", run.step, run.in_step)}{run.reason && ` ${run.reason}`}</p>)}
      {early && <p class="soft">{words.overview.seeMore(early.complete_step, early.complete_step === null ? early.step : early.complete_step + 1)}</p>}
      <p class="soft">{words.overview.looked(formatCount(of.looked_at.ops), formatCount(of.looked_at.tensors))}</p>
      {of.notes.map((note) => <p key={note} class="soft">{note}</p>)}
      <Beside of={of} />
      <div class="more"><Healthy of={of} /><Problems of={of} /></div>
      <Command text={plainCommand("first-bad")} />
    </Card>
  );
}

// The card shows the way from before the step as stations.
const isShownBefore = ({ before = [] }: Finding, line: string): boolean => before.some(({ op_name: name, step }) => line.includes(name) && line.includes(` step ${step} `));

const nameOf = ({ op_name, tensor }: Finding): string => op_name || tensor.parameter;
const placeOf = (finding: Pick<Finding, "rank" | "dump" | "graph" | "step">) => ({ r: rankName(finding), g: finding.graph, s: finding.step });

function Found({ of, first }: { of: FirstBad; first: Finding }) {
  const { own, scope } = splitName(nameOf(first));
  const where = { op: first.op_name, ...placeOf(first), t: formatSlot(first.tensor) };
  useAnnounced(`${words.overview.first}: ${shortName(own)} ${lineOf(first.code.source_file, first.code.source_line)}: ${saidOf(first) || first.why}`);
  return (
    <Card class={`verdict first-bad bad${first.tags.includes("uncertain") ? " uncertain" : ""}`}>
      <div class="verdict-columns">
        <div>
          <p class="eyebrow">{words.overview.first} <Tags of={first.tags} /></p>
          <h2 class="headline">
            <span class="big-sign" aria-hidden="true">✕</span> <a href={linkTo("op", where)} title={nameOf(first)}>{shortName(own)}</a>
            <span class="at"> {lineOf(first.code.source_file, first.code.source_line)}</span>
          </h2>
          <Why of={first} />
          <p class="soft">
            {shortScope(scope) && <>{shortScope(scope)} <span class="dot">·</span> </>}
            {words.overview.where(rankName(first), first.step, first.phase)}
            {" "}<span class="dot">·</span> {first.tensor.side}.{first.tensor.slot} {first.tensor.dtype} {formatShape(first.tensor.shape)}
            {first.tensor.counted && <> <span class="dot">·</span> <span class="bad-count">{countedWords(first.tensor)}</span></>}
          </p>
          {first.before && first.before.length > 0 && <><p class="soft">{words.overview.before}</p><Before of={first.before} rank={rankName(first)} /></>}
          <PathLine of={of} patch={placeOf(first)} />
          <p class="buttons">
            <a class="button primary" href={linkTo("op", where)}>{words.overview.showOp}</a>
            {hasPath("effect", where) && <a class="button" href={linkTo("graph", { ...where, path: "effect" })}>{words.overview.showPath}</a>}
            <NextConfiguration />
          </p>
        </div>
        <div>
          <CodeLines lines={first.code.lines} marked={first.code.source_line} />
          <CalledFrom of={first.code} />
          <ul class="evidence">{first.evidence.filter((line) => !isShownBefore(first, line)).map((line) => <li key={line}><code>{line}</code></li>)}</ul>
        </div>
      </div>
      <OtherRanks of={of} first={first} />
      {of.notes.map((note) => <p key={note} class="beside note">{note}</p>)}
      <Beside of={of} />
      <More of={of} first={first} />
      <NextCommands of={of.next_commands} />
      <Command text={plainCommand("first-bad")} />
    </Card>
  );
}

// In the page's language, from the facts; empty: the sentence of the engine is in it, and the answer has it.
const saidOf = ({ kind, op_type: type, tensor, why }: Finding): string => (language === "en" && why ? "" : words.overview.said(kind, type, countedWords(tensor)));

function Why({ of, children }: { of: Finding; children?: ComponentChildren }) {
  const said = saidOf(of);
  if (!said) return <p class="why">{of.why}{children}</p>;
  return <><p class="why">{said}{children}</p>{of.why && <p class="soft" lang="en">{of.why}</p>}</>;
}

// One line for a finding: its operator, its line, the reason.
function Line({ of, tags = of.tags, children }: { of: Finding; tags?: readonly string[]; children?: ComponentChildren }) {
  return (
    <>
      <OpLink name={nameOf(of)} patch={placeOf(of)} scope={false} /> <span class="where">{lineOf(of.code.source_file, of.code.source_line)}</span>{" "}
      <Tags of={tags} /> {saidOf(of) && <>{saidOf(of)}{of.why && <> <span class="dot">·</span> </>}</>}{of.why}{children}
    </>
  );
}

// Of the operator's own screen: the answer is about it.
export function FindingOfOp({ of, name, step }: { of: FirstBad; name: string; step: number }) {
  const found = of.findings.find((finding) => finding.op_name === name && finding.step === step) ?? of.by_rank.find((finding) => finding.op_name === name && finding.step === step);
  if (!found) return null;
  const isFirst = of.first?.op_name === name && of.first.step === step;
  return (
    <Card class={`of-finding bad${found.tags.includes("uncertain") ? " uncertain" : ""}`}>
      <p class="eyebrow">{isFirst ? words.overview.first : words.overview.finding} <Tags of={found.tags} /></p>
      <Why of={found}>{found.tensor.counted && <> <span class="dot">·</span> <span class="bad-count">{countedWords(found.tensor)}</span></>}</Why>
      {found.before && found.before.length > 0 && <><p class="soft">{words.overview.before}</p><Before of={found.before} rank={rankName(found)} /></>}
      {isFirst && <PathLine of={of} patch={placeOf(found)} />}
      {isFirst && <NextCommands of={of.next_commands} />}
    </Card>
  );
}

// What ranks did by themselves, beside the answer: no rank stands for another.
function OtherRanks({ of, first }: { of: FirstBad; first: Finding }) {
  const others = of.by_rank.filter((finding) => rankName(finding) !== rankName(first));
  if (!others.length) return null;
  return (
    <div class="beside ranks">
      <p class="beside-title">{words.overview.otherRanks}</p>
      <ul class="plain-list">{others.slice(0, MOST_RANKS).map((finding) => <li key={rankName(finding)}><strong>{words.overview.rank(rankName(finding))}</strong>: <Line of={finding} /></li>)}</ul>
      {others.length > MOST_RANKS && (
        <details>
          <summary>{words.overview.moreRanks(others.length - MOST_RANKS)}</summary>
          <ul class="plain-list">{others.slice(MOST_RANKS).map((finding) => <li key={rankName(finding)}><strong>{words.overview.rank(rankName(finding))}</strong>: <Line of={finding} /></li>)}</ul>
        </details>
      )}
    </div>
  );
}

const MOST_RANKS = 8;

// What grew before, what the loss scaler expected, and what no training reads.
function Beside({ of }: { of: FirstBad }) {
  const { growth } = of;
  return (
    <>
      {growth && (
        <p class="beside growth">
          <strong>{words.overview.grew}</strong>: {growth.tensor.op_name && growth.tensor.parameter && <span title={growth.tensor.parameter}>{words.overview.grownBy(shortName(growth.tensor.parameter))} </span>}<OpLink name={growth.tensor.op_name || growth.tensor.parameter} scope={false}
            patch={{ s: growth.step, r: rankOf(of, growth.rank), g: of.first?.graph, t: formatSlot(growth.tensor), tab: "trend" }} />{" "}
          <span class="where">{lineOf(growth.code.source_file, growth.code.source_line)}</span>{" "}
          {words.overview.growth(growth.step, growth.of_norm, formatNumber(growth.now, 4), formatNumber(growth.before, 4), formatNumber(toNumber(growth.now) / toNumber(growth.before), 3))}
          <span class="soft"> <span class="dot">·</span> {words.overview.byStep} {growth.series.slice(-MOST_POINTS).map(({ step, value }) => `${step}: ${formatNumber(value, 4)}`).join(", ")}</span>
        </p>
      )}
      <List name="expected" title={words.overview.expected} of={of.expected} />
      <List name="asides" title={words.overview.asides} of={of.asides} />
    </>
  );
}

const MOST_POINTS = 8;
const MOST_LINES = 5;

// The rank as the page names it: findings say which of several dumps it is of.
const rankOf = (of: FirstBad, rank: number): string => rankName(of.findings.find((finding) => finding.rank === rank) ?? { rank });

// Calls of one line, in whatever step.
const lineKey = (finding: Finding): string => [finding.op_type, splitName(nameOf(finding)).scope, rankName(finding), finding.code.source_file, finding.code.source_line].join(" ");

// A loop makes the same finding in each step, and in each of its turns: the first one is shown, with how often.
function List({ name, title, of }: { name: string; title: string; of: readonly Finding[] }) {
  const all = groupsOf(of, lineKey);
  if (!all.length) return null;
  const lines = (some: readonly Finding[][]) => (
    <ul class="plain-list">
      {some.map((same, i) => same[0] && (
        <li key={i}><Line of={same[0]} tags={same[0].tags.filter((tag) => tag !== "aside")}> <span class="soft">({words.overview.inSteps(same[0].step, same.length)})</span></Line></li>
      ))}
    </ul>
  );
  return (
    <div class={`beside ${name}`}>
      <p class="beside-title">{title}</p>
      {lines(all.slice(0, MOST_LINES))}
      {all.length > MOST_LINES && <details><summary>{words.overview.others(all.length - MOST_LINES)}</summary>{lines(all.slice(MOST_LINES))}</details>}
    </div>
  );
}

const MOST_OF_PATH = 14; // of a longer one the first and the last are shown

const isLater = ({ goes_on: later }: FirstBad, i: number): boolean => later !== undefined && later !== null && i >= later.first;

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
          <span key={i}>
            {i > 0 && <span aria-hidden="true"> → </span>}
            {left && hasPath("effect", { ...patch, op: of.path[0], t: undefined }) ? <a href={linkTo("graph", { ...patch, op: of.path[0], path: "effect" })}>… {words.overview.between(of.path.length - MOST_OF_PATH + 1)} …</a> : left ? <>… {words.overview.between(of.path.length - MOST_OF_PATH + 1)} …</> : <OpLink name={name} patch={isLater(of, i) ? { ...patch, s: of.goes_on?.step, g: of.goes_on?.graph } : patch} scope={false} />}
            {of.goes_on?.first === i && <span class="soft"> {words.overview.ofStep(of.goes_on.step)}</span>}
          </span>
        );
      })}
    </p>
  );
}

function More({ of, first }: { of: FirstBad; first: Finding }) {
  const others = groupsOf(of.findings.filter((finding) => finding.op_name !== first.op_name || finding.step !== first.step || rankName(finding) !== rankName(first)), lineKey);
  return (
    <div class="more">
      <Copy text={textOf(of)} label={words.copy.text} small />
      {others.length > 0 && (
        <details>
          <summary>{words.overview.others(others.length)}</summary>
          <ul class="plain-list">{others.map((same, i) => same[0] && <li key={i}><Line of={same[0]}>{same.length > 1 && <span class="soft"> ({words.overview.alsoCalls(same.length - 1)})</span>}</Line></li>)}</ul>
        </details>
      )}
      <Healthy of={of} />
      {first.limits.length > 0 && (
        <details>
          <summary>{words.overview.notKnown}</summary>
          <ul class="plain-list">{first.limits.map((line) => <li key={line}>{line}</li>)}</ul>
        </details>
      )}
      {of.suspects.length > 0 && (
        <details>
          <summary>{words.overview.suspects(of.suspects.length)}</summary>
          <ul class="plain-list">{of.suspects.map((name) => <li key={name}><OpLink name={name} patch={placeOf(first)} /></li>)}</ul>
        </details>
      )}
      <Problems of={of} />
    </div>
  );
}

function Problems({ of }: { of: FirstBad }) {
  if (!of.problems.length) return null;
  return (
    <details class="problems">
      <summary>{words.overview.problems}: {formatCount(of.problems.length)}</summary>
      <ul class="plain-list">{of.problems.map(({ path, message }, i) => <li key={i}>{path && <code>{path}</code>} {message}</li>)}</ul>
    </details>
  );
}

function Healthy({ of }: { of: FirstBad }) {
  if (!of.healthy.length) return null;
  return (
    <details>
      <summary>{words.overview.healthyList(of.healthy.some(({ tensor }) => (tensor.nan_count ?? 0) > 0))}: {of.healthy.length + of.healthy_left_out}</summary>
      <ul class="plain-list">
        {of.healthy.map((entry, i) => (
          <li key={i}>
            <OpLink name={entry.tensor.op_name || entry.tensor.parameter} patch={{ s: entry.step, r: rankName(entry.places[0] ?? entry), g: entry.graph, t: formatSlot(entry.tensor) }} /> {entry.tensor.counted && <>{countedWords(entry.tensor)}, </>}{words.overview.how[entry.how] ?? entry.how}
            {entry.absorbed_by.map((name) => <span key={name}> → <OpLink name={name} patch={{ s: entry.step, r: rankName(entry.places[0] ?? entry), g: entry.graph }} scope={false} /></span>)}
            <span class="where"> {lineOf(entry.code.source_file, entry.code.source_line)}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

function NextConfiguration() {
  const [text, setText] = useState("");
  const [error, setError] = useState<Error | null>(null);
  if (report.value?.left_out.some(({ what }) => what === "next configuration")) return null;
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
  const { code, tags } = first;
  return [
    `first bad: ${nameOf(first)}${tags.length ? ` (${tags.map(plainTag).join(", ")})` : ""}`,
    ...(code.source_file ? [`  ${code.source_file}:${code.source_line} in ${code.function}`, ...code.lines.map((line) => `  ${line.number === code.source_line ? ">" : " "} ${line.number}  ${line.text}`)] : []),
    `  where  rank ${rankName(first)}, graph ${first.graph}, step ${first.step}, ${first.phase}`,
    `  why    ${first.why}`,
    ...(first.tensor.counted ? [`  holds  ${first.tensor.counted}`] : []),
    ...(first.before ?? []).toReversed().map((one) => `  before  written by ${one.op_name} of step ${one.step}, ${lineOf(one.source_file, one.source_line)}`),
    ...Object.entries(first.numbers).map(([name, value]) => `  ${name} ${formatNumber(value)}`),
    ...first.evidence.map((line) => `  ${line}`),
    ...(of.reaches ? [`  reaches ${of.reaches}: ${of.path.map((name, i) => `${splitName(name).own}${of.goes_on?.first === i ? ` of step ${of.goes_on.step}` : ""}`).join(" -> ")}`] : []),
    ...of.by_rank.filter((finding) => rankName(finding) !== rankName(first)).map((finding) => `rank ${rankName(finding)}: ${nameOf(finding)} ${lineOf(finding.code.source_file, finding.code.source_line)}: ${finding.why}`),
    ...(of.growth ? [`grew first: ${[of.growth.tensor.parameter, of.growth.tensor.op_name].filter(Boolean).join(", by ")} in step ${of.growth.step}: ${formatNumber(of.growth.now)} after ${formatNumber(of.growth.before)}`] : []),
    ...of.notes,
    ...of.asides.map((finding) => `aside: ${nameOf(finding)}: ${finding.why}`),
    ...of.next_commands.map(({ purpose, command }) => `next: ${purpose}: ${command}`),
  ].join("\n");
}
