// The graph of a step: scopes in scopes, drawn on a canvas, and the same as a tree for the keyboard and for readers of the screen.
import { useMemo, useState } from "preact/hooks";
import type { EarlierOp, Tensor } from "../answers.ts";
import type { Class, Path } from "../api.ts";
import { command } from "../commands.ts";
import { GraphCanvas } from "../graph/canvas.tsx";
import { neighbourhood, opKey } from "../graph/model.ts";
import { useStrips } from "../graph/strips.ts";
import { type GraphData, readGraph, useLayout } from "../graph/use_layout.ts";
import { useKeys } from "../keys.ts";
import { shortName } from "../names.ts";
import { formatNumber } from "../numbers.ts";
import { BadCount, isCounted } from "../parts/count.tsx";
import { Before } from "../parts/next.tsx";
import { WayBack } from "../parts/way_back.tsx";
import { Await, baseName, ClassMark, Command, Empty, lineOf, Problem, useSlow } from "../parts/ui.tsx";
import { change, dumpStatus, firstBad, formatSlot, keyOf, linkTo, params, parseSlot, place, pointed, step, useData, useJson } from "../state.ts";
import { words } from "../words.ts";
import { ColourChoice, useColouring } from "./graph_colours.tsx";
import { GraphSearch } from "./graph_search.tsx";
import { GraphTree } from "./graph_tree.tsx";
import { healthQuery } from "./maps.tsx";

export function Graph() {
  const direction = (params.value.path as "cause" | "effect" | undefined) ?? null;
  const name = params.value.op;
  const start = params.value.t === undefined ? {} : parseSlot(params.value.t); // without a tensor: from the whole operator
  const graph = useData(keyOf("graph", place.value), (from, signal) => readGraph(from, place.value, signal));
  const path = useJson<Path>(direction && name ? "path" : null, { ...place.value, name, ...start, direction: direction ?? undefined });
  const slow = useSlow(graph.loading && !graph.value);
  if (graph.error) return <div class="page"><Problem error={graph.error} /></div>;
  if (!graph.value) return slow ? <p class="page empty">{words.states.loading}</p> : null;
  if (!graph.value.ops.length) return <div class="page"><Empty>{words.states.nothing}</Empty></div>;
  return (
    <div class="graph">
      <h1 class="hidden">{words.screens.graph}</h1>
      {direction && name && (
        <section class="graph-side" aria-label={words.graph.path}>
          <h2>{words.graph.pathOf(shortName(baseName(name)))}</h2>
          <p class="buttons">
            {direction === "cause" && <a class="button small" href={linkTo("graph", { path: "effect" })}>{words.op.effect}</a>}
            {direction === "effect" && path.value?.ops[0] && <WayBack state={path.value.ops[0].class} name={path.value.ops[0].op_name} step={step.value} small />}
            <a class="button small" href={linkTo("graph", { path: undefined })}>{words.graph.pathTo}</a>
          </p>
          <Await of={path}>{(value) => <Stations of={value} />}</Await>
        </section>
      )}
      <GraphView data={graph.value} path={direction && path.value?.ops.length ? path.value : null} />
    </div>
  );
}

// The operator that is to blame read nothing bad; what it read is followed by its finding.
function beforeFinding(op: string | undefined): readonly EarlierOp[] {
  const first = firstBad.value?.first;
  return first?.before && first.op_name === op && first.step === step.value ? first.before : [];
}

// What the operator that is to blame makes bad in a later step.
function laterOfFinding(op: string | undefined): { op: string; step: number; graph: number } | null {
  const { first, goes_on: later, path } = firstBad.value ?? {};
  const name = later && path?.[later.first];
  return name && first && first.op_name === op && first.step === step.value ? { op: name, step: later.step, graph: later.graph } : null;
}

// What first-bad blames; a key or a link may ask for its way all the same.
const isFinding = (station: Path["ops"][number] | undefined): boolean =>
  station !== undefined && [...(firstBad.value?.findings ?? []), ...(firstBad.value?.by_rank ?? [])].some((one) => one.op_name === station.op_name && one.step === step.value);

function Stations({ of }: { of: Path }) {
  if (!of.ops.length) return <Empty>{words.graph.pathEmpty}</Empty>;
  const later = params.value.path === "effect" ? laterOfFinding(of.ops[0]?.op_name) : null;
  const before = of.before.length ? of.before : beforeFinding(of.ops[0]?.op_name);
  return (
    <>
      {before.length > 0 && <Before of={before} rank={params.value.r} />}
      <ol class="stations">
        {of.ops.map((station) => (
          <li key={station.op_name} class={station.op_name === params.value.op ? "chosen" : ""}>
            <ClassMark state={station.class} />{" "}
            <a href={linkTo("graph", { op: station.op_name, t: formatSlot({ side: "output", slot: station.output_slot }) })} title={station.op_name}>
              {shortName(baseName(station.op_name))}
            </a>{" "}
            <span class="where">{lineOf(station.source_file, station.source_line)}</span>
            {station.tensor && station.tensor.max !== undefined && station.tensor.max !== null && (
              <div class="soft"><Range of={station.tensor} /></div>
            )}
          </li>
        ))}
      </ol>
      {later && <p class="soft">{words.graph.goesOn(later.step)} <a href={linkTo("graph", { op: later.op, s: later.step, g: later.graph, t: undefined, path: "effect" })}>{baseName(later.op)}</a></p>}
      {params.value.path === "cause" && of.ops.length === 1 && before.length === 0 && isFinding(of.ops[0]) && <p class="soft">{words.graph.begins}</p>}
      {of.reaches && before.length === 0 && !later && <p class="soft">{words.graph.ends(of.reaches)}</p>}
      {of.missing && <p class="soft">{of.missing}</p>}
      {!of.complete && <p class="soft">{words.graph.partly}</p>}
    </>
  );
}

function Range({ of }: { of: Tensor }) {
  const query = { ...place.value, name: of.op_name, side: of.side, slot: of.slot };
  return isCounted(of) ? <BadCount of={of} query={of.tensor_file ? query : null} /> : <>{formatNumber(of.min, 4)} … {formatNumber(of.max, 4)}</>;
}

function GraphView({ data, path }: { data: GraphData; path: Path | null }) {
  const onPath = useMemo(() => new Set(path?.ops.map((station) => station.op_name)), [path]);
  const shown = useMemo(() => (path ? neighbourhood(data.ops, data.edges, onPath) : data), [data, path]);
  const marked = useMemo(() => new Set([...onPath].map(opKey)), [onPath]);
  const chosen = params.value.op ? opKey(params.value.op) : "";
  const found = pointed.value?.step === step.value ? opKey(pointed.value.name) : "";
  const { model, answer, anchor, slow, many, toggle, openMany } = useLayout(shown, Boolean(path), chosen, found);
  const chosenOp = model.items.get(chosen)?.op;
  const { shades, range } = useColouring(model);
  const strips = useStrips(answer, healthQuery());
  const [asTree, setAsTree] = useState(false);
  const select = (key: string): void => {
    const op = model.items.get(key)?.op;
    if (op) change({ op: op.name, t: undefined });
  };
  const close = (key: string): void => {
    const item = model.items.get(key);
    const scope = item && !item.op && answer?.open.includes(key) ? item : item?.parent;
    if (scope?.key && answer?.open.includes(scope.key)) toggle(scope.key, false);
  };
  useKeys({ Backspace: () => close(chosen) });
  return (
    <div class="graph-view">
      {asTree ? (
        <GraphTree model={model} open={answer?.open ?? []} chosen={chosen} onToggle={toggle} onSelect={select} />
      ) : (
        <GraphCanvas answer={answer} chosen={chosen} marked={marked} found={model.items.get(found)} anchor={anchor} shades={shades} strips={strips} onToggle={toggle} onClose={close} onSelect={select} />
      )}
      <div class="graph-tools">
        <button type="button" class="small" onClick={() => setAsTree(!asTree)}>{asTree ? words.graph.canvas : words.graph.asTree}</button>
        <GraphSearch of={model} />
        {!asTree && <ColourChoice range={range} />}
        {chosenOp && !path && <WayBack state={chosenOp.state as Class} name={chosenOp.name} step={step.value} small />}
      </div>
      <div class="graph-foot"><Command text={command("graph", path && params.value.op ? [params.value.op, "--distance", String(path.ops.length), "--json"] : [])} /></div>
      {slow && <p class="graph-note" role="status">{words.graph.working}</p>}
      {many && (
        <p class="graph-note" role="alert">
          {words.graph.many(many)}{" "}
          <button type="button" class="small" onClick={openMany}>{words.graph.openAll}</button>{" "}
          <a class="button small" href={linkTo("ops")}>{words.graph.list}</a>
        </p>
      )}
      {!dumpStatus.value?.has_data_flow && <p class="graph-note">{words.states.noFlow}</p>}
    </div>
  );
}
