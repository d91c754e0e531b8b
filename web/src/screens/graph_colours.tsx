// What the colours of a graph say: the class, a size, the change since the step before, the type, the error to golden.
import { useMemo } from "preact/hooks";
import { HUES } from "../graph/looks.ts";
import { type GraphModel, hash, heatShades, type Range, type Shade, type Shades, shadesOf } from "../graph/model.ts";
import { readGraph } from "../graph/use_layout.ts";
import { Scale } from "../parts/heat.tsx";
import { Select } from "../parts/ui.tsx";
import { change, dump, graph, keyOf, params, place, rank, report, status, step, steps, useData } from "../state.ts";
import { words } from "../words.en.ts";
import { overRounding, type Pair, useComparison } from "./comparison.ts";

export type Colouring = "class" | "norm" | "change" | "type" | "verdict" | "error";
const COLOURINGS: readonly Colouring[] = ["class", "norm", "change", "type", "verdict", "error"];

// The larger is the worse.
const VERDICTS = ["", "unknown", "identical", "within_tolerance", "propagated", "unmatched", "introduced"];
export const verdictShade = (verdict: string | undefined): Shade => ({ state: verdict ?? "", rank: Math.max(0, VERDICTS.indexOf(verdict ?? "")) });

const chosenColouring = (): Colouring => COLOURINGS.find((name) => name === params.value.colour) ?? "class";

// Null: the colours are those of the classes.
export function useColouring(model: GraphModel): { shades: Shades | null; range: Range } {
  const by = chosenColouring();
  const before = steps.value[steps.value.indexOf(step.value) - 1];
  const query = { ...place.value, step: before };
  const old = useData(by === "change" && before !== undefined ? keyOf("graph", query) : null, (from, signal) => readGraph(from, query, signal));
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
  }, [model, by, old.value, comparison.value, step.value]);
}

export function logOver(pair: Pair | undefined): number | null {
  const over = pair ? overRounding(pair) : null;
  return over === null || over <= 0 ? null : Math.log10(over);
}

export function ColourChoice({ range }: { range: Range }) {
  const two = (status.value?.dumps.length ?? 0) > 1;
  const choices = COLOURINGS.filter((name) => (two || (name !== "verdict" && name !== "error")) && !(report.value && name === "change"));
  return (
    <>
      <Select label={words.graph.colour} value={chosenColouring()} onChange={(by) => change({ colour: by === "class" ? undefined : by }, true)}
        choices={choices.map((value) => ({ value, label: words.graph.colours[value] }))} />
      <ColourScale range={range} />
    </>
  );
}

export function ColourScale({ range }: { range: Range }) {
  return range && <span class="graph-scale soft">log10 <Scale low={range[0]} high={range[1]} /></span>;
}
