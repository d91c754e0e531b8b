import assert from "node:assert/strict";
import test from "node:test";
import dagre from "@dagrejs/dagre";
import { layOut, LayoutCache, type Box, type Layout } from "../../src/graph/layout.ts";
import { buildModel, countBoxes, type GraphEdge, type GraphModel, type GraphOp, HEATS, heatShades, neighbourhood, openAtFirst, oddRank, openedFor, opKey, pinsOf, shadesOf } from "../../src/graph/model.ts";

// A chain of equal blocks in a network, as a transformer is.
function transformer(blocks: number, opsOfBlock: number): { ops: GraphOp[]; edges: GraphEdge[] } {
  const ops: GraphOp[] = [];
  const edges: GraphEdge[] = [];
  for (let block = 0; block < blocks; block += 1) {
    for (let i = 0; i < opsOfBlock; i += 1) {
      const scope = `Default/network-Net/blocks-ModuleList/${block}-Block`;
      const id = ops.length;
      ops.push({ id, name: `${scope}/linear-op${i}`, type: `kind${i}`, scope, phase: "forward", state: block === 5 && i === 2 ? "nan" : "fine", rank: block === 5 && i === 2 ? 6 : 2 });
      if (id > 0) edges.push({ from: id - 1, to: id });
      if (i > 1) edges.push({ from: id - 2, to: id });
    }
  }
  return { ops, edges };
}

const all = (model: GraphModel): Set<string> => new Set([...model.items.values()].filter((item) => !item.op).map((item) => item.key));

test("a box has the largest shade in it, and a fold one for each member", () => {
  const { ops, edges } = transformer(8, 3);
  const model = buildModel(ops, edges);
  const shades = shadesOf(model, (op) => (op.scope.includes("6-Block") ? { state: "introduced", rank: 6 } : { state: "identical", rank: 2 }));
  const fold = [...model.items.values()].find((item) => item.kind === "fold");
  assert.deepEqual(shades.get(fold?.key ?? "")?.cells, [...Array(6).fill("identical"), "introduced", "identical"]);
  assert.equal(shades.get("forward")?.state, "introduced");
  assert.equal(shades.get(opKey(ops[0]?.name ?? ""))?.state, "identical");
  const heat = heatShades(model, (op) => (op.id === 3 ? null : op.id));
  assert.deepEqual(heat.range, [0, 23]);
  assert.equal(heat.shades.get(opKey(ops[23]?.name ?? ""))?.state, `heat-${HEATS - 1}`);
  assert.equal(heat.shades.get(opKey(ops[0]?.name ?? ""))?.state, "heat-0");
  assert.equal(heat.shades.get(opKey(ops[3]?.name ?? ""))?.state, "");
  assert.equal(heatShades(model, () => NaN).range, null);
});

test("a value with more than 8 readers, and a parameter, are pins at their readers and have no lines", () => {
  const { ops } = transformer(1, 12);
  const edges = ops.slice(1).map((op) => ({ from: 0, to: op.id })); // of 11 readers
  edges.push({ from: 3, to: 4 });
  (ops[5] as GraphOp).parameters = ["network.blocks.0.weight"];
  const model = buildModel(ops, edges);
  const { pins, makers } = pinsOf(model);
  assert.deepEqual([...makers], [0]);
  assert.deepEqual(pins.get(5)?.map(({ label }) => label), ["weight", "linear-op0"]);
  const layout = layOut(model, all(model));
  assert.deepEqual(layout.lines.map(({ from, to }) => [from, to]), [[opKey(ops[3]?.name ?? ""), opKey(ops[4]?.name ?? "")]]);
  assert.equal(layout.boxes.filter((box) => box.pins.some(({ key }) => key === opKey(ops[0]?.name ?? ""))).length, 11);
  assert.equal(countBoxes(model.root, all(model)), layout.boxes.length);
});

test("the rank that differs: by its class alone, or by a norm that the others share", () => {
  const of = (...ranks: [badness: number, norm: number][]) => ranks.map(([badness, norm]) => ({ badness, norm }));
  assert.equal(oddRank(of([2, 1], [2, 1], [2, 1])), null);
  assert.equal(oddRank(of([2, 1], [6, NaN])), 1);
  assert.equal(oddRank(of([2, 1], [2, 3], [2, 1])), 1);
  assert.equal(oddRank(of([2, 1], [2, 3])), "all"); // of two nobody says which
  assert.equal(oddRank(of([2, 1], [2, 2], [2, 3])), "all");
  assert.equal(oddRank(of([6, NaN], [6, NaN])), null);
  assert.equal(oddRank([undefined, { badness: 2, norm: 1 }]), null);
});

test("equal blocks fold to one box that knows the worst of them", () => {
  const { ops, edges } = transformer(96, 10);
  const model = buildModel(ops, edges);
  const fold = [...model.items.values()].find((item) => item.kind === "fold");
  assert.equal(fold?.label, "Block × 96");
  assert.equal(fold?.children.length, 96);
  assert.equal(fold?.ops, 960);
  assert.equal(fold?.state, "nan");
  assert.equal(fold?.children.filter((child) => child.state === "nan").length, 1);
  assert.equal(openAtFirst(model).includes(fold?.key ?? ""), false); // one box at first, not 96
});

test("96 equal blocks, all open, are laid out once", () => {
  const { ops, edges } = transformer(96, 10);
  const model = buildModel(ops, edges);
  const cache = new LayoutCache();
  layOut(model, all(model), cache);
  // Root, lane, Default, network, list, fold, and a block with a short and one with a longer name ("9-Block", "10-Block").
  assert.ok(cache.made <= 8, `${cache.made} scopes were laid out`);
});

test("the same graph has the same coordinates, from any thread and cache", () => {
  const { ops, edges } = transformer(8, 12);
  const first = layOut(buildModel(ops, edges), all(buildModel(ops, edges)));
  const cache = new LayoutCache();
  const model = buildModel(ops, edges);
  layOut(model, new Set(openAtFirst(model)), cache);
  const again = layOut(model, all(model), cache);
  assert.deepEqual(again, first);
  assert.ok(first.boxes.length > 100);
});

test("cycles of in-place writes are laid out", () => {
  const ops = ["a", "b", "c"].map((name, id): GraphOp => ({ id, name: `Default/${name}`, type: name, scope: "Default", phase: "forward", state: "fine", rank: 2 }));
  const model = buildModel(ops, [{ from: 0, to: 1 }, { from: 1, to: 2 }, { from: 2, to: 0 }, { from: 1, to: 1 }]);
  const layout = layOut(model, all(model));
  assert.equal(layout.boxes.filter((box) => box.kind === "op").length, 3);
  assert.equal(layout.lines.length, 3);
});

// Children lie inside their parent, and siblings beside each other.
function assertNested(layout: Layout, model: GraphModel): void {
  const boxes = new Map(layout.boxes.map((box) => [box.key, box]));
  for (const box of layout.boxes) {
    const parent = boxes.get(model.items.get(box.key)?.parent?.key ?? "");
    if (parent) assert.ok(box.x >= parent.x && box.y >= parent.y && box.x + box.width <= parent.x + parent.width + 0.01 && box.y + box.height <= parent.y + parent.height + 0.01, box.key);
    for (const other of layout.boxes) {
      if (other.key === box.key || model.items.get(other.key)?.parent !== model.items.get(box.key)?.parent) continue;
      assert.ok(box.x + box.width <= other.x + 0.01 || other.x + other.width <= box.x + 0.01 || box.y + box.height <= other.y + 0.01 || other.y + other.height <= box.y + 0.01, `${box.key} and ${other.key} overlap`);
    }
  }
}

test("boxes are inside their scopes and do not overlap, also in a scope with very many", () => {
  const small = transformer(6, 9);
  const model = buildModel(small.ops, small.edges);
  assertNested(layOut(model, all(model)), model);
  const flat = transformer(1, 700);
  const large = buildModel(flat.ops, flat.edges);
  assertNested(layOut(large, all(large)), large);
});

test("a chain lies where dagre puts it", () => {
  const { ops } = transformer(1, 12);
  const edges = ops.slice(1).map(({ id }) => ({ from: id - 1, to: id }));
  const model = buildModel(ops, edges);
  const layout = layOut(model, all(model));
  const boxes = ops.map(({ name }) => layout.boxes.find(({ key }) => key === opKey(name)) as Box);
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 22, edgesep: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  boxes.forEach(({ width, height }, i) => graph.setNode(String(i), { width, height }));
  for (const { from, to } of edges) graph.setEdge(String(from), String(to));
  dagre.layout(graph);
  const from = [boxes[0]!.x + boxes[0]!.width / 2 - graph.node("0").x, boxes[0]!.y + boxes[0]!.height / 2 - graph.node("0").y] as const;
  boxes.forEach(({ x, y, width, height }, i) => {
    assert.deepEqual([x + width / 2 - from[0], y + height / 2 - from[1]], [graph.node(String(i)).x, graph.node(String(i)).y]);
  });
  layout.lines.forEach(({ points }, i) => {
    const wanted = (graph.edge(String(i), String(i + 1)) as { points: { x: number; y: number }[] }).points;
    assert.deepEqual(points, wanted.flatMap(({ x, y }) => [x + from[0], y + from[1]]));
  });
  assert.equal(layout.lines.length, 11);
});

test("opening a scope leaves the inside of the others as it is", () => {
  const { ops, edges } = transformer(2, 6);
  const model = buildModel(ops, edges);
  const scopes = [...all(model)];
  const closed = scopes.filter((key) => !key.endsWith("1-Block"));
  const [before, after] = [layOut(model, new Set(closed)), layOut(model, new Set(scopes))];
  const inside = (layout: Layout): number[][] => {
    const parent = layout.boxes.find((box) => box.key.endsWith("0-Block"));
    return layout.boxes.filter((box) => box.key.includes("0-Block/linear")).map((box) => [box.x - (parent?.x ?? 0), box.y - (parent?.y ?? 0)]);
  };
  assert.deepEqual(inside(after), inside(before));
});

test("a graph of 10,000 operators: at first, and opened, within the target", () => {
  const { ops, edges } = transformer(500, 20);
  let started = performance.now();
  const model = buildModel(ops, edges);
  const cache = new LayoutCache();
  layOut(model, new Set(openAtFirst(model)), cache);
  const first = performance.now() - started;
  started = performance.now();
  const target = model.items.get(opKey(ops[5000]?.name ?? ""));
  assert.ok(target);
  layOut(model, new Set([...openAtFirst(model), ...openedFor(target)]), cache);
  const open = performance.now() - started;
  assert.ok(first < 2000 && open < 2000, `${first.toFixed(0)} and ${open.toFixed(0)} ms`);
});

test("path mode keeps the operators of the path and their neighbours", () => {
  const { ops, edges } = transformer(3, 6);
  const names = new Set([ops[4]?.name ?? "", ops[5]?.name ?? ""]);
  const near = neighbourhood(ops, edges, names);
  assert.deepEqual(near.ops.map((op) => op.id), [2, 3, 4, 5, 6]);
  assert.ok(near.edges.every((edge) => [4, 5].includes(edge.from) || [4, 5].includes(edge.to)));
});
