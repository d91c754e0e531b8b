// Two implementations of one network: how each tensor of the target is made from golden ones, beside the verdict of its operator.
import type { Comparison, Correspondence, GoldenTensor } from "../answers.ts";
import { toNumber } from "../numbers.ts";
import type { Patch } from "../state.ts";
import { words } from "../words.ts";
import { type Choice, chooseRows } from "./choose.ts";
import { isAt, type Pair, type Place, weightOf } from "./comparison.ts";

export interface Related {
  of: Correspondence;
  pair: Pair | undefined; // of the operator that made it
}

const placeKey = (of: { rank: number; graph: number; step: number }, name: string): string => [of.rank, of.graph, of.step, name].join(" ");

export function relatedOf({ relations = [], ops }: Comparison): Related[] {
  const pairs = new Map<string, Pair>();
  for (const pair of ops) for (const name of pair.target) pairs.set(placeKey(pair, name), pair);
  return relations.map((of) => ({ of, pair: of.op_name ? pairs.get(placeKey(of, of.op_name)) : undefined }));
}

// "a part" of cut, in the page's language.
export const relationWord = (relation: Correspondence["relation"]): string => words.compare.relations[relation];

const nameOf = ({ op_name: name, parameter }: Correspondence | GoldenTensor): string => name || parameter;
export const targetName = ({ of }: Related): string => nameOf(of);
export const goldenName = nameOf;

// The operator's screen, at the tensor; what comes from outside is chosen by its own name.
export const targetPatch = ({ of }: Related): Patch => ({ op: nameOf(of), d: 0, r: of.rank, g: of.graph, s: of.step, t: of.op_name ? `o${of.slot}` : undefined });
export const goldenPatch = (of: GoldenTensor): Patch => ({ op: nameOf(of), d: 1, r: of.rank, g: of.graph, s: of.step, t: of.op_name ? `o${of.slot}` : undefined });

const cellsOf = ({ of, pair }: Related) => ({
  relation: of.relation, verdict: pair?.verdict ?? "", op_type: pair?.op_type ?? "", parameter: of.parameter, step: of.step, rank: of.rank, graph: of.graph,
  source_file: of.source_file, source_line: of.source_line, relative_error: of.relative_error, target: nameOf(of),
});
export type RelatedCells = ReturnType<typeof cellsOf>;

const BY_RELATION: Choice<Related> = {
  names: ({ of }) => [nameOf(of), of.parameter, ...of.golden_tensors.flatMap((golden) => [nameOf(golden), golden.parameter])].filter(Boolean),
  type: ({ pair }) => pair?.op_type ?? "", cells: cellsOf, kinds: { relation: true, verdict: true }, flags: {},
};

// The worst first: by the verdict, then without a counterpart, then by the error.
function byWorst(some: readonly Related[]): Related[] {
  const errorOf = ({ of }: Related): number => (of.relative_error === undefined ? -1 : toNumber(of.relative_error));
  const weight = ({ of, pair }: Related): number => weightOf(pair?.verdict ?? "unknown") * 2 + (of.relation === "none" ? 0 : 1);
  return [...some].sort((a, b) => weight(a) - weight(b) || errorOf(b) - errorOf(a));
}

export const chooseRelated = (all: readonly Related[], filter: string, sort: string): Promise<Related[]> => chooseRows(all, BY_RELATION, filter, sort, byWorst);

// Of each operator of a step the relation that a graph shows: without a counterpart before all others.
export function relationsByOp({ relations = [] }: Comparison, at: Place, goldenAt: Place): Record<"target" | "golden", Map<string, Correspondence["relation"]>> {
  const found = { target: new Map<string, Correspondence["relation"]>(), golden: new Map<string, Correspondence["relation"]>() };
  const isShown = (of: Correspondence | GoldenTensor, place: Place): boolean => of.op_name !== "" && isAt(of, place);
  for (const of of relations) {
    if (isShown(of, at) && found.target.get(of.op_name) !== "none") found.target.set(of.op_name, of.relation);
    for (const golden of of.golden_tensors) {
      if (isShown(golden, goldenAt) && found.golden.get(golden.op_name) !== "same") found.golden.set(golden.op_name, of.relation);
    }
  }
  return found;
}
