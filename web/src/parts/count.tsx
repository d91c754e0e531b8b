// "1 of 4 NaN, rest -0.61 … 0.32": what is bad of a tensor in numbers, in place of statistics that are all NaN.
import { useEffect, useState } from "preact/hooks";
import type { FindingTensor } from "../answers.ts";
import type { Histogram } from "../api.ts";
import { formatCount, formatNumber, type Num, toNumber } from "../numbers.ts";
import type { Query, Source } from "../source/source.ts";
import { keyOf, useData } from "../state.ts";
import { words } from "../words.ts";

export interface Counted {
  readonly count?: number | null;
  readonly shape?: readonly number[] | null;
  readonly nan_count?: number | null;
  readonly positive_inf_count?: number | null;
  readonly negative_inf_count?: number | null;
  readonly max?: Num;
}

const MOST_READ = 4_000_000; // elements of a file that is read for the rest
const AT_ONCE = 3;
const WAIT_MS = 120; // a row that only passes by is not asked for

const elementsOf = ({ count, shape }: Counted): number | null => count ?? (shape ? shape.reduce((product, size) => product * size, 1) : null);

// The statistics say nothing but that there is a NaN or an infinity: what these leave of the norm is one.
export const isCounted = (of: Counted): boolean =>
  (Boolean(of.nan_count) && !Number.isFinite(toNumber(of.max))) || Boolean(of.positive_inf_count) || Boolean(of.negative_inf_count);

let running = 0;
const waiting: (() => void)[] = [];

// One after the other: a screen full of rows would keep the server from all else.
async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (running >= AT_ONCE) await new Promise<void>((resume) => waiting.push(resume));
  running += 1;
  try {
    return await work();
  } finally {
    running -= 1;
    waiting.shift()?.();
  }
}

// Smallest and largest of the finite elements; null: there is none, or nobody can say.
async function readRest(from: Source, query: Query, signal: AbortSignal): Promise<readonly [Num, Num] | null> {
  const found = await inTurn(async () => (signal.aborted ? null : from.json<Histogram>("tensor/histogram", { ...query, scale: "linear", bins: 64 }, signal).catch(() => null)));
  const isThere = found?.counts.some((count) => count > 0);
  return found && isThere ? [found.edges[0], found.edges.at(-1)] : null;
}

// "1 of 4 NaN" and "1 +inf".
function badParts(of: Counted): string[] {
  const all = elementsOf(of);
  const kinds: readonly (readonly [number, string])[] = [[of.nan_count ?? 0, "NaN"], [of.positive_inf_count ?? 0, "+inf"], [of.negative_inf_count ?? 0, "-inf"]];
  return kinds.filter(([count]) => count).map(([count, kind], i) => words.counts.part(formatCount(count), i === 0 && all !== null ? formatCount(all) : "", kind));
}

// "1 of 4 NaN, 1 +inf, rest -0.61 … 0.32" of a finding, in the page's language.
export function countedWords(of: FindingTensor): string {
  const parts = badParts(of);
  if (of.finite_min !== undefined && of.finite_max !== undefined) parts.push(words.counts.rest(formatNumber(of.finite_min, 3), formatNumber(of.finite_max, 3)));
  return parts.join(words.counts.and);
}

// `query`: of the tensor, where its values can be read.
export function BadCount({ of, query }: { of: Counted; query: Query | null }) {
  const all = elementsOf(of);
  const bad = (of.nan_count ?? 0) + (of.positive_inf_count ?? 0) + (of.negative_inf_count ?? 0);
  const hasRest = all !== null && all > bad && all <= MOST_READ;
  const [isStill, setStill] = useState(false);
  const key = hasRest && query ? keyOf("rest", query) : null;
  useEffect(() => {
    const timer = setTimeout(() => setStill(true), WAIT_MS);
    return () => clearTimeout(timer);
  }, [key]);
  const rest = useData(isStill ? key : null, (from, signal) => readRest(from, query ?? {}, signal));
  const parts = badParts(of);
  if (rest.value) parts.push(words.counts.rest(formatNumber(rest.value[0], 3), formatNumber(rest.value[1], 3)));
  return <span class="bad-count">{parts.join(words.counts.and)}</span>;
}
