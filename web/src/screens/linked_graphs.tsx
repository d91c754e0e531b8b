// The graphs of two runs side by side: an operator that is chosen in one is chosen with its counterpart in the other.
import { useEffect, useMemo } from "preact/hooks";
import type { Overview } from "../api.ts";
import { Cameras, GraphCanvas } from "../graph/canvas.tsx";
import { lookOf } from "../graph/looks.ts";
import { type GraphModel, heatShades, type Item, opKey, shadesOf } from "../graph/model.ts";
import { type GraphData, readGraph, useLayout } from "../graph/use_layout.ts";
import { formatNumber } from "../numbers.ts";
import { OpLink, splitName } from "../parts/op_name.tsx";
import { Card, Empty, Select } from "../parts/ui.tsx";
import { change, dump, graph, keyOf, params, rank, report, step, useData, useJson } from "../state.ts";
import { words } from "../words.ts";
import { type Comparison, errorOf, goldenPlaceOf, isAt, overRounding, type Pair, type Place, placeIn, verdictWord } from "./comparison.ts";
import { ColourScale, logOver, relationShade, verdictShade } from "./graph_colours.tsx";
import { relationsByOp, relationWord } from "./relations.ts";

type Side = "target" | "golden";
const SIDES: readonly Side[] = ["target", "golden"];
type Colouring = "verdict" | "error" | "relation";
const COLOURINGS: readonly Colouring[] = ["verdict", "error", "relation"];
const RELATION_LEGEND = ["none", "joined", "sum", "cut", "permuted", "same", "constant"] as const;
const LEGEND = ["introduced", "propagated", "within_tolerance", "identical", "unmatched", "unknown"];

// The chosen step; without a choice that of the first difference.
function placeOf(of: Comparison): Place {
  const first = of.findings[0];
  const { r, g, s } = params.value;
  return {
    rank: r ?? (first ? String(first.rank) : rank.value),
    graph: g === undefined && first ? first.graph : graph.value,
    step: s === undefined && first ? first.step : step.value,
  };
}

// A step that the golden dump has: that of the counterpart, the same one, or the last before it. Null: not known yet.
function useGoldenPlace(of: Comparison, at: Place, target: string | undefined): Place | null {
  const overview = useJson<Overview>(report.value ? null : "overview", { dump: 1 });
  const there = overview.value?.steps;
  const wanted = goldenPlaceOf(of, at, target);
  if (!report.value && !overview.value && !overview.error) return null;
  if (!there?.length || there.some((one) => isAt(one, wanted))) return wanted;
  const [near = there[0]] = there.filter((one) => one.graph === wanted.graph && one.step <= wanted.step).slice(-1);
  return near ? placeIn(near) : wanted;
}

export function LinkedGraphs({ of }: { of: Comparison }) {
  const at = placeOf(of);
  const pairs = useMemo(() => {
    const found: Record<Side, Map<string, Pair>> = { target: new Map(), golden: new Map() };
    for (const pair of of.ops) {
      if (!isAt(pair, at)) continue;
      for (const side of SIDES) for (const name of pair[side]) found[side].set(name, pair);
    }
    return found;
  }, [of, at.rank, at.graph, at.step]);
  const cameras = useMemo(() => new Cameras(), []);
  const twins = useMemo((): Twins => ({}), []);
  useEffect(showTabs, []);
  // Without a choice the first difference is shown.
  const first = params.value.op === undefined ? of.findings[0] : undefined;
  const side: Side = (first ? first.in_golden : dump.value === 1) ? "golden" : "target";
  const name = params.value.op ?? first?.op_name ?? "";
  const pair = pairs[side].get(name);
  // What the first difference has no counterpart of changes something that the other side has.
  const instead = first && !first.in_golden && pair && !pair.golden.length && pairs.golden.has(first.golden) ? first.golden : "";
  const golden = useGoldenPlace(of, at, side === "target" ? name : pair?.target[0]);
  const colouring: Colouring = params.value.colour === "error" ? "error" : params.value.colour === "relation" && of.relations ? "relation" : "verdict";
  const relations = useMemo(() => (colouring === "relation" ? relationsByOp(of, at, golden ?? at) : null), [of, colouring, at.rank, at.graph, at.step, golden?.rank, golden?.graph, golden?.step]);
  return (
    <Card title={words.compare.graphs} hint={words.compare.graphsHint}
      extra={(
        <Select label={words.graph.colour} value={colouring} onChange={(by) => change({ colour: by === "verdict" ? undefined : by }, true)}
          choices={COLOURINGS.filter((name) => name !== "relation" || of.relations).map((value) => ({ value, label: words.graph.colours[value] }))} />
      )}>
      <p class="linked-said" role="status">{name ? <Said name={name} side={side} pair={pair} golden={golden} /> : words.compare.choose(at.step)}</p>
      <div class="linked">
        {SIDES.map((own) => (
          <Half key={own} twins={twins} side={own} at={at} shown={own === "golden" ? golden : at} pairs={pairs[own]} chosen={own === side ? name : (pair?.[own][0] ?? instead)} also={pair?.[own] ?? []} cameras={cameras} colouring={colouring} relations={relations?.[own] ?? null} />
        ))}
      </div>
      {colouring !== "error" && (
        <ul class="legend">
          {(relations ? RELATION_LEGEND.map((name) => [name, relationWord(name)] as const) : LEGEND.map((name) => [name, verdictWord(name)] as const)).map(([name, word]) => (
            <li key={name}><span class="swatch" style={{ background: colour(lookOf(name).fill) }} aria-hidden="true">{lookOf(name).sign}</span> {word}</li>
          ))}
        </ul>
      )}
    </Card>
  );
}

// The card of the first difference takes most of a small window: the pictures come up to its top.
function showTabs(): void {
  const main = document.getElementById("main");
  const tabs = main?.querySelector(".page > .tabs");
  if (main && tabs) main.scrollTop += tabs.getBoundingClientRect().top - main.getBoundingClientRect().top - TABS_GAP;
}
const TABS_GAP = 8;

const colour = (name: string): string => (name.startsWith("--") ? `var(${name})` : name);
const other = (side: Side): Side => (side === "target" ? "golden" : "target");

// What the comparison says of the chosen operator.
function Said({ name, side, pair, golden }: { name: string; side: Side; pair: Pair | undefined; golden: Place | null }) {
  const { own } = splitName(name);
  if (!pair) return <>{words.compare.notCompared(own, side)}</>;
  const there = pair[other(side)];
  if (!there.length) return <><strong>{words.compare.noCounterpart(own, side, other(side))}</strong> {pair.nearest ? words.compare.nearest(splitName(pair.nearest).own, pair.reason ?? "") : pair.reason}</>;
  const over = overRounding(pair);
  return (
    <>
      {pair.target.map((entry) => <OpLink key={entry} name={entry} patch={{ d: 0 }} scope={false} />)} <span aria-hidden="true">↔</span>{" "}
      {pair.golden.map((entry) => <span key={entry}><OpLink name={entry} patch={{ d: 1, ...(golden ? { r: golden.rank, g: golden.graph, s: golden.step } : {}) }} scope={false} /> </span>)}
      <span class={`verdict-word ${pair.verdict}`}>{verdictWord(pair.verdict)}</span>
      <span class="soft">
        {errorOf(pair) !== undefined && <> · {words.compare.columns.error} {formatNumber(errorOf(pair), 3)}</>}
        {over !== null && <> · {words.compare.columns.over} {formatNumber(over, 3)}</>}
      </span>
    </>
  );
}

// The two pictures open and close scopes together: each knows how to find the counterpart of the other's.
interface Twin {
  model: GraphModel;
  isOpen: (key: string) => boolean;
  toggle: (key: string, all: boolean) => void;
}
type Twins = Partial<Record<Side, Twin>>;

// The scope with the same key, else the innermost one that contains the counterparts of its operators.
function counterpartOf(key: string, own: Twin, pairs: ReadonlyMap<string, Pair>, side: Side, twin: Twin): string | null {
  if (twin.model.items.has(key)) return key;
  const item = own.model.items.get(key);
  let common: Item[] | null = null;
  for (const name of item ? namesIn(item) : []) {
    const there = twin.model.items.get(opKey(pairs.get(name)?.[other(side)][0] ?? ""));
    if (!there) continue;
    const way: Item[] = [];
    for (let at = there.parent; at?.key; at = at.parent) way.unshift(at);
    const before: Item[] | null = common;
    common = before ? way.filter((entry, i) => before[i] === entry) : way;
  }
  return common?.at(-1)?.key ?? null;
}

const namesIn = (item: Item): string[] => (item.op ? [item.op.name] : item.children.flatMap(namesIn));

interface HalfProps {
  twins: Twins;
  side: Side;
  at: Place; // of the target's pairs
  shown: Place | null; // of the graph; null: not known yet
  pairs: ReadonlyMap<string, Pair>;
  chosen: string;
  also: readonly string[];
  cameras: Cameras;
  colouring: Colouring;
  relations: ReadonlyMap<string, string> | null; // of the operators of this side; null: the colours say something else
}

function Half(props: HalfProps) {
  const query = { dump: props.side === "golden" ? 1 : undefined, ...props.shown };
  const data = useData(props.shown && keyOf("graph", query), (from, signal) => readGraph(from, query, signal));
  return (
    <section class="linked-half" aria-label={words.compare.sides[props.side]}>
      <h3>{words.compare.sides[props.side]}</h3>
      {data.error && <Empty>{data.error.message}</Empty>}
      {data.value && (data.value.ops.length ? <Picture {...props} data={data.value} /> : <Empty>{words.states.nothing}</Empty>)}
    </section>
  );
}

function Picture({ data, twins, side, at, pairs, chosen, also, cameras, colouring, relations }: HalfProps & { data: GraphData }) {
  const key = chosen ? opKey(chosen) : "";
  const { model, answer, anchor, many, toggle, openMany } = useLayout(data, false, key);
  const marked = useMemo(() => new Set(also.map(opKey)), [also]);
  const own: Twin = { model, toggle, isOpen: (box) => answer?.open.includes(box) ?? false };
  twins[side] = own;
  const toggleBoth = (box: string, all: boolean): void => {
    const twin = twins[other(side)];
    const there = twin && counterpartOf(box, own, pairs, side, twin);
    const opens = all || !own.isOpen(box);
    toggle(box, all);
    if (twin && there && (all || twin.isOpen(there) !== opens)) twin.toggle(there, all);
  };
  const { shades, range } = useMemo(
    () => {
      if (colouring === "error") return heatShades(model, (op) => logOver(pairs.get(op.name)));
      if (relations) return { shades: shadesOf(model, (op) => relationShade(relations.get(op.name))), range: null };
      return { shades: shadesOf(model, (op) => verdictShade(pairs.get(op.name)?.verdict)), range: null };
    },
    [model, pairs, colouring, relations],
  );
  return (
    <div class="graph-view" data-chosen={chosen} data-open={answer?.open.length}>
      <GraphCanvas answer={answer} chosen={key} marked={marked} anchor={anchor} shades={shades} cameras={cameras} keys={side === "target"}
        label={words.compare.graphOf(side)} onToggle={toggleBoth}
        onSelect={(box) => {
          const op = model.items.get(box)?.op;
          if (op) change({ op: op.name, t: undefined, d: side === "golden" ? 1 : 0, r: at.rank, g: at.graph, s: at.step });
        }} />
      <ColourScale range={range} />
      {many && <p class="graph-note" role="alert">{words.graph.many(many)} <button type="button" class="small" onClick={openMany}>{words.graph.openAll}</button></p>}
    </div>
  );
}
