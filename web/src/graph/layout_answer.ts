// What the worker does for a graph: it is sent once; then only what is open in it.
import { buildModel, openAtFirst, openedFor, type GraphEdge, type GraphModel, type GraphOp } from "./model.ts";
import { layOut, LayoutCache, type Layout } from "./layout.ts";

export interface GraphRequest {
  id: number;
  graph?: { ops: GraphOp[]; edges: GraphEdge[]; openAll: boolean };
  open: string[] | null; // null: what is open at first
  show?: string; // a key that must be visible
}

export interface GraphAnswer {
  id: number;
  open: string[];
  layout: Layout;
}

const MOST_OPEN_PATH = 400;
let model: GraphModel = buildModel([], []);
let cache = new LayoutCache();

export function answerGraph(request: GraphRequest): GraphAnswer {
  if (request.graph) {
    model = buildModel(request.graph.ops, request.graph.edges);
    cache = new LayoutCache();
  }
  let open = request.open;
  if (!open) {
    const all = request.graph?.openAll && request.graph.ops.length <= MOST_OPEN_PATH;
    open = all ? [...model.items.values()].filter((item) => !item.op).map((item) => item.key) : openAtFirst(model);
  }
  const shown = request.show ? model.items.get(request.show) : undefined;
  if (shown) open = [...new Set([...open, ...openedFor(shown)])];
  return { id: request.id, open, layout: layOut(model, new Set(open), cache) };
}
