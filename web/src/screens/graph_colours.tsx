// What the colours of a graph say: the class, a size, the change since the step before, the type, the error to golden.
import { useMemo } from "preact/hooks";
import { HUES } from "../graph/looks.ts";
import { type GraphModel, type GraphOp, hash, heatShades, oddRank, type Range, type Shade, type Shades, shadesOf } from "../graph/model.ts";
import { readGraph } from "../graph/use_layout.ts";
import { Scale } from "../parts/heat.tsx";
import { Select } from "../parts/ui.tsx";
import { change, dump, graph, keyOf, params, place, rank, ranks, report, status, step, steps, useData } from "../state.ts";
import { words } from "../words.ts";
import { overRounding, type Pair, useComparison } from "./comparison.ts";

export type Colouring = "class" | "norm" | "change" | "type" | "rank" | "verdict" | "error";
const COLOURINGS: readonly Colouring[] = ["class", "norm", "change", "type", "rank", "verdict", "error"];
const MOST_RANKS = 16;

// The larger is the worse.
const VERDICTS = ["", "unknown", "identical", "within_tolerance", "propagated", "unmatched", "introduced"];
export const verdictShade = (verdict: string | undefined): Shade => ({ state: verdict ?? "", rank: Math.max(0, VERDICTS.indexOf(verdict ?? "")) });

// The larger says more against the correspondence.
const RELATIONS = ["", "constant", "same", "permuted", "cut", "sum", "joined", "none"];
export const relationShade = (relation: string | undefined): Shade => ({ state: relation ?? "", rank: Math.max(0, RELATIONS.indexOf(relation ?? "")) });

const chosenColouring = (): Colouring => COLOURINGS.find((name) => name === params.value.colour) ?? "class";

// Null: the colours are those of the classes.
export function useColouring(model: GraphModel): { shades: Shades | null; range: Range } {
  const by = chosenColouring();
  const before = steps.value[steps.value.indexOf(step.value) - 1];
  const query = { ...place.value, step: before };
  const old = useData(by === "change" && before !== undefined ? keyOf("graph", query) : null, (from, signal) => readGraph(from, query, signal));
  const of = by === "rank" ? ranks.value.slice(0, MOST_RANKS) : [];
  const beside = useData(of.length > 1 ? keyOf("graph of ranks", { ...place.value, rank: of.join() }) : null, (from, signal) =>
    Promise.all(of.map((name) => readGraph(from, { ...place.value, rank: name }, signal))));
  const compares = by === "verdict" || by === "error";
  const comparison = useComparison(compares);
  return useMemo(() => {
    // A scope has operators of many types, and no colour.
    if (by === "type") return { shades: shadesOf(model, (op) => ({ state: `hue-${hash(op.type) % HUES}`, rank: -1 })), range: null };
    if (by === "norm") return heatShades(model, (op) => Math.log10(op.norm ?? NaN));
    if (by === "change") {
      const norms = new Map(old.value?.ops.map((op) => [op.name, op.norm ?? NaN]));
      return heatShades(model, (op) => Math.abs(Math.log10((op.norm ?? NaN) / (norms.get(op.name) ?? NaN))));
    }
    if (by === "rank") {
      const byRank = (beside.value ?? []).map(({ ops }) => new Map(ops.map((op) => [op.name, op])));
      return { shades: shadesOf(model, (op) => rankShade(byRank.map((ops) => ops.get(op.name)))), range: null };
    }
    if (compares) {
      const side = dump.value === 1 ? "golden" : "target";
      const pairs = new Map<string, Pair>();
      for (const pair of comparison.value?.ops ?? []) {
        if (String(pair.rank) === rank.value && pair.graph === graph.value && pair.step === step.value) for (const name of pair[side]) pairs.set(name, pair);
      }
      if (by === "verdict") return { shades: shadesOf(model, (op) => verdictShade(pairs.get(op.name)?.verdict)), range: null };
      return heatShades(model, (op) => logOver(pairs.get(op.name)));
    }
    return { shades: null, range: null };
  }, [model, by, old.value, beside.value, comparison.value, step.value]);
}

// Which of the ranks differs: the one with a worse class than all others, or with another norm than most of them have.
function rankShade(ops: readonly (GraphOp | undefined)[]): Shade | undefined {
  const odd = oddRank(ops.map((op) => op && { badness: op.rank, norm: op.norm ?? NaN }));
  if (odd === null) return undefined;
  return odd === "all" ? { state: "all_differ", rank: 1 } : { state: `rank-${ranks.value[odd]?.replace(/\D.*/, "") ?? odd}`, rank: 2 };
}

export function logOver(pair: Pair | undefined): number | null {
  const over = pair ? overRounding(pair) : null;
  return over === null || over <= 0 ? null : Math.log10(over);
}

export function ColourChoice({ range }: { range: Range }) {
  const two = (status.value?.dumps.length ?? 0) > 1;
  const offered = (name: Colouring): boolean => {
    if (name === "verdict" || name === "error") return two;
    if (name === "rank") return ranks.value.length > 1 && !report.value;
    return name !== "change" || !report.value;
  };
  const choices = COLOURINGS.filter(offered);
  return (
    <>
      <Select label={words.graph.colour} value={chosenColouring()} onChange={(by) => change({ colour: by === "class" ? undefined : by }, true)}
        choices={choices.map((value) => ({ value, label: words.graph.colours[value] }))} />
      <ColourScale range={range} />
      {chosenColouring() === "rank" && <span class="graph-scale soft">{words.graph.rankHint}</span>}
    </>
  );
}

export function ColourScale({ range }: { range: Range }) {
  return range && <span class="graph-scale soft">log10 <Scale low={range[0]} high={range[1]} /></span>;
}
