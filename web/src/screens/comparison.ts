// The last comparison of the server: pairs of operators, with verdict and error.
import type { Comparison } from "../answers.ts";
import type { Job, Jobs } from "../api.ts";
import { followJob, isOver } from "../jobs.ts";
import { type Num, toNumber } from "../numbers.ts";
import type { Query } from "../source/source.ts";
import { type Loaded, useData } from "../state.ts";
import { words } from "../words.ts";
import { type Choice, chooseRows } from "./choose.ts";

export type { Comparison };
export type Difference = Comparison["findings"][number];
export type Pair = Comparison["ops"][number];

// The newest one that ended well, or still runs and then ends; else the newest.
export function useLastJob(wanted = true): Loaded<Job | null> {
  return useData(wanted ? "compare" : null, async (from) => {
    const { jobs } = await from.json<Jobs>("jobs");
    const all = jobs.filter((entry) => entry.kind === "compare");
    const found = all.find((entry) => entry.state === "done" || !isOver(entry)) ?? all[0];
    return found ? followJob(from, await from.json<Job>(`jobs/${found.job}`)) : null;
  });
}

// The last comparison that ended; null: there was none.
export function useComparison(wanted = true): Loaded<Comparison | null> {
  const last = useLastJob(wanted);
  const job = last.value;
  return { ...last, value: job === undefined ? undefined : job?.state === "done" ? (job.result as unknown as Comparison) : null };
}

// "within tolerance" of within_tolerance, in the page's language.
export const verdictWord = (verdict: string): string => words.compare.verdicts[verdict as keyof typeof words.compare.verdicts] ?? verdict;

// The pair of an operator of the target.
export function pairOf({ ops }: Comparison, { rank, graph, step, name }: Query): Pair | undefined {
  return ops.find((pair) => pair.target.includes(String(name)) && pair.step === step && pair.graph === graph && String(pair.rank) === rank);
}

// The largest error of an operator's outputs, over what rounding explains of it.
export function overRounding(pair: Pair): number | null {
  let most: number | null = null;
  for (const { max_error: error, rounding_max: rounding } of pair.outputs) {
    const value = toNumber(error) / toNumber(rounding);
    if (Number.isFinite(value) && value > (most ?? 0)) most = value;
  }
  return most;
}

export const errorOf = (pair: Pair): Num => pair.outputs.reduce<Num>((most, output) => (most === undefined || toNumber(output.relative_error) > toNumber(most) ? output.relative_error : most), undefined);

export interface Place {
  rank: string;
  graph: number;
  step: number;
}

export const isAt = (one: { rank: number | string; graph: number; step: number }, at: Place): boolean => one.step === at.step && one.graph === at.graph && String(one.rank) === at.rank;
export const placeIn = (one: { rank: number | string; graph: number; step: number }): Place => ({ rank: String(one.rank), graph: one.graph, step: one.step });

// Of two implementations a golden operator may have run in another step than the target's that is made of it.
export function goldenPlaceOf({ relations }: Comparison, at: Place, target: string | undefined): Place {
  const found = relations?.find((one) => one.op_name === target && isAt(one, at) && one.golden_tensors.length > 0);
  const [first] = found?.golden_tensors ?? [];
  return first ? placeIn(first) : at;
}

// Elements that are NaN or infinite on one side alone: no number of an error counts them.
export const apartOf = (pair: Pair): number => pair.outputs.reduce((sum, output) => sum + (output.different_non_finite ?? 0), 0);

// The place of the first difference among the pairs, in the order of the run; undefined: it is none of them.
export function firstOf({ findings, ops }: Comparison): number | undefined {
  const [first] = findings;
  const at = first ? ops.findIndex((pair) => pair[first.in_golden ? "golden" : "target"].includes(first.op_name) && pair.step === first.step && pair.graph === first.graph && pair.rank === first.rank) : -1;
  return at < 0 ? undefined : at;
}

// The worst first, those that are identical last.
const WEIGHTS = ["introduced", "unmatched", "propagated", "within_tolerance", "unknown", "identical"];
export const weightOf = (verdict: string): number => (WEIGHTS.includes(verdict) ? WEIGHTS.indexOf(verdict) : WEIGHTS.length - 2);
export function byWeight(pairs: readonly Pair[]): Pair[] {
  const keyed = pairs.map((pair) => ({ pair, weight: weightOf(pair.verdict), over: apartOf(pair) ? Infinity : (overRounding(pair) ?? -1) }));
  return keyed.sort((a, b) => a.weight - b.weight || (a.over === b.over ? 0 : b.over - a.over)).map(({ pair }) => pair);
}

// What a filter and an order look at.
const cellsOf = (pair: Pair) => ({
  verdict: pair.verdict, kind: pair.kind, matched_by: pair.matched_by, moved: pair.moved, op_type: pair.op_type, step: pair.step, rank: pair.rank, graph: pair.graph,
  source_file: pair.source_file, source_line: pair.source_line, relative_error: apartOf(pair) ? Infinity : errorOf(pair), over: overRounding(pair), target: pair.target[0] ?? "",
});
export type PairCells = ReturnType<typeof cellsOf>;

const BY_PAIR: Choice<Pair> = {
  names: (pair) => [...pair.target, ...pair.golden], type: (pair) => pair.op_type, cells: cellsOf,
  kinds: { verdict: true, kind: true, matched_by: true }, flags: { moved: true },
};

export const choosePairs = (of: Comparison, filter: string, sort: string): Promise<Pair[]> => chooseRows(of.ops, BY_PAIR, filter, sort, byWeight);
