// Lays graphs out beside the page's own thread. A graph is sent once; then only what is open in it.
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

addEventListener("message", ({ data }: MessageEvent<GraphRequest>) => {
  if (data.graph) {
    model = buildModel(data.graph.ops, data.graph.edges);
    cache = new LayoutCache();
  }
  let open = data.open;
  if (!open) {
    const all = data.graph?.openAll && data.graph.ops.length <= MOST_OPEN_PATH;
    open = all ? [...model.items.values()].filter((item) => !item.op).map((item) => item.key) : openAtFirst(model);
  }
  const shown = data.show ? model.items.get(data.show) : undefined;
  if (shown) open = [...new Set([...open, ...openedFor(shown)])];
  postMessage({ id: data.id, open, layout: layOut(model, new Set(open), cache) } satisfies GraphAnswer);
});
