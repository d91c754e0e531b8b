// The last comparison of the server: pairs of operators, with verdict and error.
import type { Job, Jobs } from "../api.ts";
import { isOver } from "../jobs.ts";
import { type Num, toNumber } from "../numbers.ts";
import type { Query } from "../source/source.ts";
import { type Loaded, useData } from "../state.ts";

export interface PairTensor {
  side: string;
  slot: number;
  shape: number[];
  equal: boolean;
  beyond: boolean;
  relative_error?: Num;
  max_error?: Num;
  rounding_max?: Num;
}

export interface Pair {
  rank: number;
  graph: number;
  step: number;
  verdict: string;
  target: string[];
  golden: string[];
  op_type: string;
  source_file: string;
  source_line: number;
  outputs: PairTensor[];
  reason?: string;
}

// docs/json/compare.schema.json, as far as the page shows it.
export interface Comparison {
  complete: boolean;
  findings: { rank: number; graph: number; step: number; op_name: string; text: string; golden: string; tensor?: PairTensor; in_golden: boolean }[];
  summary: Record<string, number>;
  notes: string[];
  ops: Pair[];
}

export function useLastJob(wanted = true): Loaded<Job | null> {
  return useData(wanted ? "compare" : null, async (from) => {
    const { jobs } = await from.json<Jobs>("jobs");
    const found = jobs.find((entry) => entry.kind === "compare" && (entry.state === "done" || !isOver(entry)));
    return found ? from.json<Job>(`jobs/${found.job}`) : null;
  });
}

// The last comparison that ended; null: there was none.
export function useComparison(wanted = true): Loaded<Comparison | null> {
  const last = useLastJob(wanted);
  const job = last.value;
  return { ...last, value: job === undefined ? undefined : job?.state === "done" ? (job.result as unknown as Comparison) : null };
}

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
