// The graph of a step: scopes in scopes, drawn on a canvas, and the same as a tree for the keyboard and for readers of the screen.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Class, Path } from "../api.ts";
import type { GraphAnswer } from "../graph/layout.worker.ts";
import type { Box } from "../graph/layout.ts";
import { buildModel, neighbourhood, opKey, type GraphEdge, type GraphOp, type Item } from "../graph/model.ts";
import { boxAt, type Camera, fit, Painter } from "../graph/painter.ts";
import { LayoutWorker } from "../graph/worker.ts";
import { useKeys } from "../keys.ts";
import { formatNumber } from "../numbers.ts";
import { Await, baseName, ClassMark, Empty, lineOf, useSize, useSlow, WORSE } from "../parts/ui.tsx";
import type { Query, Source } from "../source/source.ts";
import { change, dumpStatus, formatSlot, go, keyOf, linkTo, params, parseSlot, place, useData, useJson } from "../state.ts";
import { words } from "../words.en.ts";
import { GraphTree } from "./graph_tree.tsx";
import { nextBad } from "./ops.tsx";

const MANY = 3000;

interface GraphData {
  ops: GraphOp[];
  edges: GraphEdge[];
}

async function readGraph(from: Source, query: Query, signal: AbortSignal): Promise<GraphData> {
  const [nodes, edges] = await Promise.all([
    from.table("graph", { ...query, part: "nodes" }, signal),
    from.table("graph", { ...query, part: "edges" }, signal),
  ]);
  const ops = Array.from({ length: nodes.rows }, (_, i): GraphOp => {
    const state = String(nodes.get("class", i)) as Class;
    return {
      id: Number(nodes.get("node", i)), name: String(nodes.get("op_name", i)), type: String(nodes.get("op_type", i)), scope: String(nodes.get("scope", i)),
      phase: String(nodes.get("phase", i)), state, rank: WORSE[state] ?? 0,
    };
  });
  const links: GraphEdge[] = [];
  for (let i = 0; i < edges.rows; i += 1) {
    const maker = edges.get("from_node", i);
    if (maker !== null && maker !== undefined) links.push({ from: Number(maker), to: Number(edges.get("to_node", i)) });
  }
  return { ops, edges: links };
}

export function Graph() {
  const direction = params.value.path === "effect" ? "effect" : params.value.path ? "cause" : null;
  const name = params.value.op;
  const start = params.value.t === undefined ? {} : parseSlot(params.value.t); // without a tensor: from the whole operator
  const graph = useData(keyOf("graph", place.value), (from, signal) => readGraph(from, place.value, signal));
  const path = useJson<Path>(direction && name ? "path" : null, { ...place.value, name, ...start, direction: direction ?? undefined });
  const slow = useSlow(graph.loading && !graph.value);
  if (graph.error) return <p class="page problem" role="alert">{graph.error.message}</p>;
  if (!graph.value) return slow ? <p class="page empty">{words.states.loading}</p> : null;
  if (!graph.value.ops.length) return <div class="page"><Empty>{words.states.nothing}</Empty></div>;
  return (
    <div class="graph">
      <h1 class="hidden">{words.screens.graph}</h1>
      {direction && name && (
        <section class="graph-side" aria-label={words.graph.path}>
          <h2>{words.graph.pathOf(baseName(name))}</h2>
          <p class="buttons">
            <a class="button small" href={linkTo("graph", { path: direction === "cause" ? "effect" : "cause" })}>{direction === "cause" ? words.op.effect : words.op.path}</a>
            <a class="button small" href={linkTo("graph", { path: undefined })}>{words.graph.pathTo}</a>
          </p>
          <Await of={path}>{(value) => <Stations of={value} />}</Await>
        </section>
      )}
      <GraphView data={graph.value} path={direction && path.value?.ops.length ? path.value : null} />
    </div>
  );
}

function Stations({ of }: { of: Path }) {
  if (!of.ops.length) return <Empty>{words.graph.pathEmpty}</Empty>;
  return (
    <>
      <ol class="stations">
        {of.ops.map((station) => (
          <li key={station.op_name} class={station.op_name === params.value.op ? "chosen" : ""}>
            <ClassMark state={station.class} />{" "}
            <a href={linkTo("graph", { op: station.op_name, t: formatSlot({ side: "output", slot: station.output_slot }) })} title={station.op_name}>
              {baseName(station.op_name)}
            </a>{" "}
            <span class="where">{lineOf(station.source_file, station.source_line)}</span>
            {station.tensor && station.tensor.max !== undefined && station.tensor.max !== null && (
              <div class="soft">{formatNumber(station.tensor.min, 4)} … {formatNumber(station.tensor.max, 4)}</div>
            )}
          </li>
        ))}
      </ol>
      {of.reaches && <p class="soft">{words.graph.ends(of.reaches)}</p>}
      {!of.complete && <p class="soft">{words.graph.partly}</p>}
    </>
  );
}

function GraphView({ data, path }: { data: GraphData; path: Path | null }) {
  const onPath = useMemo(() => new Set(path?.ops.map((station) => station.op_name)), [path]);
  const shown = useMemo(() => (path ? neighbourhood(data.ops, data.edges, onPath) : data), [data, path]);
  const model = useMemo(() => buildModel(shown.ops, shown.edges), [shown]);
  const marked = useMemo(() => new Set([...onPath].map(opKey)), [onPath]);
  const [answer, setAnswer] = useState<GraphAnswer | null>(null);
  const [asked, setAsked] = useState(false);
  const [asTree, setAsTree] = useState(false);
  const [many, setMany] = useState<string[] | null>(null);
  const worker = useRef<LayoutWorker | null>(null);
  const anchor = useRef<string>("");
  const chosen = params.value.op ? opKey(params.value.op) : "";
  useEffect(() => {
    worker.current = new LayoutWorker((got) => {
      setAnswer(got);
      setAsked(false);
    });
    return () => worker.current?.stop();
  }, []);
  useEffect(() => {
    anchor.current = "";
    setAsked(true);
    worker.current?.ask({ graph: { ...shown, openAll: Boolean(path) }, open: null, show: chosen });
  }, [shown]);
  useEffect(() => {
    // Chosen elsewhere, by the search or the path: its scopes open.
    if (answer && chosen && model.items.has(chosen) && !answer.layout.boxes.some((box) => box.key === chosen)) {
      worker.current?.ask({ open: answer.open, show: chosen });
    }
  }, [chosen]);
  const setOpen = (open: string[], around: string): void => {
    anchor.current = around;
    setAsked(true);
    worker.current?.ask({ open });
  };
  const toggle = (key: string, all: boolean): void => {
    const item = model.items.get(key);
    if (!answer || !item || item.op) return;
    const open = new Set(answer.open);
    if (open.has(key) && !all) open.delete(key);
    else for (const inner of all ? scopesIn(item) : [item]) open.add(inner.key);
    if (all && item.ops > MANY) setMany([...open]);
    else setOpen([...open], key);
  };
  const select = (key: string): void => {
    const op = model.items.get(key)?.op;
    if (op) change({ op: op.name, t: undefined });
  };
  useKeys({
    p: () => params.value.op && change({ path: "cause" }), n: () => void nextBad(1), N: () => void nextBad(-1),
    Backspace: () => {
      const parent = model.items.get(chosen)?.parent;
      if (parent?.key && answer?.open.includes(parent.key)) toggle(parent.key, false);
    },
  });
  const slow = useSlow(asked, 400);
  return (
    <div class="graph-view">
      {asTree ? (
        <GraphTree model={model} open={answer?.open ?? []} chosen={chosen} onToggle={toggle} onSelect={select} />
      ) : (
        <GraphCanvas answer={answer} chosen={chosen} marked={marked} anchor={anchor} onToggle={toggle} onSelect={select} />
      )}
      <div class="graph-tools">
        <button type="button" class="small" onClick={() => setAsTree(!asTree)}>{asTree ? words.graph.canvas : words.graph.asTree}</button>
        {params.value.op && !path && <a class="button small" href={linkTo("graph", { path: "cause" })}>{words.op.path}</a>}
      </div>
      {slow && <p class="graph-note" role="status">{words.graph.working}</p>}
      {many && (
        <p class="graph-note" role="alert">
          {words.graph.many(many.length)}{" "}
          <button type="button" class="small" onClick={() => { setOpen(many, ""); setMany(null); }}>{words.graph.openAll}</button>{" "}
          <a class="button small" href={linkTo("ops")}>{words.graph.list}</a>
        </p>
      )}
      {!dumpStatus.value?.has_data_flow && <p class="graph-note">{words.states.noFlow}</p>}
    </div>
  );
}

function scopesIn(item: Item): Item[] {
  return item.op ? [] : [item, ...item.children.flatMap(scopesIn)];
}

const LEAST_SCALE = 0.02;
const MOST_SCALE = 2.5;

function GraphCanvas({ answer, chosen, marked, anchor, onToggle, onSelect }: {
  answer: GraphAnswer | null; chosen: string; marked: ReadonlySet<string>; anchor: { current: string };
  onToggle: (key: string, all: boolean) => void; onSelect: (key: string) => void;
}) {
  const [frame, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const camera = useRef<Camera | null>(null);
  const before = useRef<Box[]>([]);
  const [, redraw] = useState(0);
  const [cursor, setCursor] = useState("");
  const painter = useRef<Painter | null>(null);
  const layout = answer?.layout;
  const active = cursor || chosen;

  // The box that was opened or closed keeps its place on the screen.
  useEffect(() => {
    if (!layout || !size.width) return;
    const [old, now] = [before.current, layout.boxes].map((boxes) => boxes.find((box) => box.key === anchor.current));
    if (old && now && camera.current) {
      camera.current = { ...camera.current, x: camera.current.x + now.x - old.x, y: camera.current.y + now.y - old.y };
    } else {
      camera.current = fit(layout, size.width, size.height);
      const box = layout.boxes.find((entry) => entry.key === chosen);
      if (camera.current.scale < 0.6) camera.current = look(box ?? layout.boxes.find((entry) => entry.state === "nan" && !entry.open) ?? layout.boxes[0], size);
    }
    before.current = layout.boxes;
    redraw((count) => count + 1);
  }, [layout, size.width > 0]);
  useEffect(() => {
    const box = layout?.boxes.find((entry) => entry.key === chosen);
    if (box && camera.current && !inView(box, camera.current, size)) {
      camera.current = look(box, size, camera.current.scale);
      redraw((count) => count + 1);
    }
  }, [chosen]);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const changed = (): void => {
      painter.current?.readStyle();
      redraw((count) => count + 1);
    };
    scheme.addEventListener("change", changed);
    return () => scheme.removeEventListener("change", changed);
  }, []);
  useEffect(() => {
    if (!canvas.current || !layout || !camera.current) return;
    if (!painter.current) {
      painter.current = new Painter(canvas.current);
      painter.current.readStyle();
    }
    painter.current.draw({
      layout, camera: camera.current, selected: active, marked,
      text: { ops: words.graph.ops, lane: (label) => words.graph.lanes[label as keyof typeof words.graph.lanes] ?? label },
    });
  });
  const zoom = (by: number, atX = size.width / 2, atY = size.height / 2): void => {
    const now = camera.current;
    if (!now) return;
    const scale = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, now.scale * by));
    camera.current = { scale, x: now.x + atX / now.scale - atX / scale, y: now.y + atY / now.scale - atY / scale };
    redraw((count) => count + 1);
  };
  const showAll = (): void => {
    if (layout) camera.current = fit(layout, size.width, size.height);
    redraw((count) => count + 1);
  };
  useKeys({ f: showAll, "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3) });

  const under = (event: MouseEvent): Box | null => {
    const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    const now = camera.current;
    if (!layout || !now) return null;
    return boxAt(layout, now.x + (event.clientX - box.left) / now.scale, now.y + (event.clientY - box.top) / now.scale);
  };
  const drag = useRef<{ x: number; y: number; moved: boolean } | null>(null);
  const move = (event: PointerEvent): void => {
    const from = drag.current;
    if (!from || !camera.current) return;
    const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
    if (!from.moved && Math.hypot(dx, dy) < 4) return;
    camera.current = { ...camera.current, x: camera.current.x - dx / camera.current.scale, y: camera.current.y - dy / camera.current.scale };
    drag.current = { x: event.clientX, y: event.clientY, moved: true };
    redraw((count) => count + 1);
  };
  const key = (event: KeyboardEvent): void => {
    if (!layout) return;
    if (event.key.startsWith("Arrow")) {
      const next = neighbour(layout.boxes, active, event.key);
      if (!next) return;
      setCursor(next.key);
      if (next.kind === "op") onSelect(next.key);
      if (camera.current && !inView(next, camera.current, size)) camera.current = look(next, size, camera.current.scale);
    } else if (event.key === "Enter" && active) {
      if (layout.boxes.find((box) => box.key === active)?.kind === "op") go("op");
      else onToggle(active, event.shiftKey);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="graph-view" ref={frame}>
      <canvas
        ref={canvas} tabIndex={0} role="application" data-boxes={layout?.boxes.length} aria-label={words.graph.canvas} onKeyDown={key}
        onPointerDown={(event) => {
          drag.current = { x: event.clientX, y: event.clientY, moved: false };
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={move}
        onPointerUp={(event) => {
          const moved = drag.current?.moved;
          drag.current = null;
          const box = moved ? null : under(event);
          if (!box) return;
          setCursor(box.key);
          onSelect(box.key);
        }}
        onDblClick={(event) => {
          const box = under(event);
          if (box?.kind === "op") go("op");
          else if (box) onToggle(box.key, event.shiftKey);
        }}
        onWheel={(event) => {
          event.preventDefault();
          const box = event.currentTarget.getBoundingClientRect();
          zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
        }}
      />
      <div class="graph-tools at-end">
        <button type="button" class="small" onClick={() => zoom(1.3)} aria-label={words.graph.in}>+</button>
        <button type="button" class="small" onClick={() => zoom(1 / 1.3)} aria-label={words.graph.out}>−</button>
        <button type="button" class="small" onClick={showAll}>{words.graph.fit}</button>
      </div>
    </div>
  );
}

interface Size {
  width: number;
  height: number;
}

function look(box: Box | undefined, size: Size, scale = 0.9): Camera {
  if (!box) return { x: 0, y: 0, scale };
  const y = box.open ? box.y - 60 / scale : box.y + box.height / 2 - size.height / 2 / scale;
  return { scale, x: box.x + box.width / 2 - size.width / 2 / scale, y };
}

function inView(box: Box, { x, y, scale }: Camera, size: Size): boolean {
  return box.x >= x && box.y >= y && box.x + box.width <= x + size.width / scale && box.y + box.height <= y + size.height / scale;
}

// The nearest closed box in a direction.
function neighbour(boxes: readonly Box[], from: string, key: string): Box | undefined {
  const closed = boxes.filter((box) => !box.open);
  const now = boxes.find((box) => box.key === from);
  if (!now) return closed[0];
  const [dx, dy] = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[key] ?? [0, 0];
  const middle = (box: Box): [number, number] => [box.x + box.width / 2, box.y + box.height / 2];
  const [x, y] = middle(now);
  let best: Box | undefined;
  let least = Infinity;
  for (const box of closed) {
    const [bx, by] = middle(box);
    const along = (bx - x) * (dx ?? 0) + (by - y) * (dy ?? 0);
    if (along < 6 || box.key === from) continue;
    const across = Math.abs((bx - x) * (dy ?? 0)) + Math.abs((by - y) * (dx ?? 0));
    if (along + across * 2.5 < least) [best, least] = [box, along + across * 2.5];
  }
  return best;
}

