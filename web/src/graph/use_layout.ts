// The graph of a step from the server, and its layout by the worker: what is open, and what opens.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { GraphEdgeRow, GraphNodeRow } from "../api.ts";
import { toNumber } from "../numbers.ts";
import { useSlow, WORSE } from "../parts/ui.tsx";
import type { Query, Source } from "../source/source.ts";
import { recorder } from "../state.ts";
import type { GraphAnswer } from "./layout_answer.ts";
import { LayoutWorker } from "./layout_worker.ts";
import { buildModel, countBoxes, type GraphEdge, type GraphModel, type GraphOp, type Item } from "./model.ts";

export const MANY = 3000;

export interface GraphData {
  ops: GraphOp[];
  edges: GraphEdge[];
}

// MindSpore's names say nothing of the network itself: what it runs beside its cells is of the forward pass.
const laneOf = (phase: string): string => (phase === "outside" && recorder.value.startsWith("mindspore") ? "forward" : phase);

export async function readGraph(data: Source, query: Query, signal: AbortSignal): Promise<GraphData> {
  const [nodes, edges] = await Promise.all([
    data.table("graph", { ...query, part: "nodes" }, signal),
    data.table("graph", { ...query, part: "edges" }, signal),
  ]);
  const ops = Array.from({ length: nodes.rows }, (_, i): GraphOp => {
    const { node: id = i, op_name: name = "", op_type: type = "", scope = "", phase = "outside", class: state = "not_recorded", l2norm } = nodes.row<GraphNodeRow>(i);
    return { id, name, type, scope, phase: laneOf(phase), state, rank: WORSE[state] ?? 0, norm: toNumber(l2norm) };
  });
  const byId = new Map(ops.map((op) => [op.id, op]));
  const links: GraphEdge[] = [];
  for (let i = 0; i < edges.rows; i += 1) {
    const { from_node: from, to_node: to = 0, parameter } = edges.row<GraphEdgeRow>(i);
    if (from !== null && from !== undefined) links.push({ from, to });
    else if (parameter) (byId.get(to) ?? { parameters: [] as string[] }).parameters = [...(byId.get(to)?.parameters ?? []), parameter];
  }
  return { ops, edges: links };
}

export interface OpenGraph {
  model: GraphModel;
  answer: GraphAnswer | null;
  anchor: { current: string }; // the box that keeps its place
  slow: boolean;
  many: number | null; // so many boxes that the user is asked
  toggle: (key: string, all: boolean) => void;
  openMany: () => void;
}

// `chosen`: a key, whose scopes open. Without one it is `found`, what the finding names.
export function useLayout(shown: GraphData, openAll: boolean, chosen: string, found = ""): OpenGraph {
  const model = useMemo(() => buildModel(shown.ops, shown.edges), [shown]);
  const [answer, setAnswer] = useState<GraphAnswer | null>(null);
  const [asked, setAsked] = useState(false);
  const [many, setMany] = useState<{ open: string[]; boxes: number } | null>(null);
  const worker = useRef<LayoutWorker | null>(null);
  const anchor = useRef<string>("");
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
    worker.current?.ask({ graph: { ...shown, openAll }, open: null, show: chosen || found });
  }, [shown]);
  const show = (key: string): void => {
    if (answer && key && model.items.has(key) && !answer.layout.boxes.some((box) => box.key === key)) worker.current?.ask({ open: answer.open, show: key });
  };
  useEffect(() => {
    // Chosen elsewhere, by the search, the path or the other picture: its scopes open.
    show(chosen);
  }, [chosen]);
  useEffect(() => {
    if (!chosen) show(found); // the finding came after the graph
  }, [found]);
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
    const boxes = countBoxes(model.root, open);
    if (all && boxes > MANY) setMany({ open: [...open], boxes });
    else setOpen([...open], key);
  };
  const openMany = (): void => {
    if (many) setOpen(many.open, "");
    setMany(null);
  };
  return { model, answer, anchor, slow: useSlow(asked, 400), many: many && many.boxes, toggle, openMany };
}

function scopesIn(item: Item): Item[] {
  return item.op ? [] : [item, ...item.children.flatMap(scopesIn)];
}
