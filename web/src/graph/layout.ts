// Places the visible part of a graph. Every open scope is laid out by itself, so opening one moves nothing inside the others, and
// equal scopes are laid out once. The same input gives the same coordinates, in Node and in browsers.
import { shortName } from "../names.ts";
import dagre from "@dagrejs/dagre";
import { type GraphModel, hash, type Item, MOST_READERS, type Pin, pinsOf } from "./model.ts";

export interface Box {
  key: string;
  kind: Item["kind"];
  label: string;
  ops: number;
  state: string;
  open: boolean;
  depth: number;
  x: number;
  y: number;
  width: number;
  height: number;
  cells: string[]; // of a fold: the class of each member
  pins: readonly Pin[]; // of an operator: what it reads without a line
}

export interface Line {
  from: string;
  to: string;
  points: number[]; // x, y, x, y …
}

export interface Layout {
  width: number;
  height: number;
  boxes: Box[]; // parents before children
  lines: Line[];
}

interface Placed {
  width: number;
  height: number;
  at: { x: number; y: number }[]; // of each child
  lines: { from: number; to: number; points: number[] }[];
}

const LETTER = 7.6; // the width of a letter; measuring text would differ between machines
const PADDING = 14;
const TITLE = 24;
const OP_HEIGHT = 26;
const BETWEEN_LAYERS = 22;
const SCOPE_HEIGHT = 46; // with a strip of steps, or of the members of a fold
const MOST_FOR_DAGRE = 300; // above, dagre takes seconds

export class LayoutCache {
  readonly scopes = new Map<number, Placed>();
  made = 0; // how many scopes were laid out, for tests
}

export function layOut(model: GraphModel, open: ReadonlySet<string>, cache = new LayoutCache()): Layout {
  const sizes = new Map<Item, Placed>();
  const { pins, makers } = pinsOf(model);
  const lifted = liftEdges(model, open, makers);
  measure(model.root, open, lifted, sizes, cache, true);
  const boxes: Box[] = [];
  const lines: Line[] = [];
  place(model.root, 0, 0, 0, open, sizes, boxes, lines, pins);
  const { width, height } = sizes.get(model.root) as Placed;
  return { width, height, boxes, lines };
}

type Lifted = Map<Item, Map<string, [Item, Item]>>;

// Each edge between operators becomes one between two children of the innermost scope that contains both.
function liftEdges(model: GraphModel, open: ReadonlySet<string>, pinned: ReadonlySet<number>): Lifted {
  const lifted: Lifted = new Map();
  const paths = new Map<Item, Item[]>();
  const pathOf = (item: Item): Item[] => {
    const known = paths.get(item);
    if (known) return known;
    const path = item.parent ? [...pathOf(item.parent), item] : [item];
    paths.set(item, path);
    return path;
  };
  for (const { from, to } of model.edges) {
    const source = model.opItems.get(from);
    const target = model.opItems.get(to);
    if (!source || !target || source === target || pinned.has(from)) continue;
    const left = pathOf(source);
    const right = pathOf(target);
    let depth = 0;
    while (left[depth + 1] === right[depth + 1] && left[depth + 1]) depth += 1;
    const scope = left[depth] as Item;
    if (!scope.parent || !open.has(scope.key)) continue; // edges between lanes are not drawn
    const pair: [Item, Item] = [left[depth + 1] as Item, right[depth + 1] as Item];
    const edges = lifted.get(scope) ?? new Map<string, [Item, Item]>();
    edges.set(`${pair[0].key}\n${pair[1].key}`, pair);
    lifted.set(scope, edges);
  }
  return lifted;
}

function isOpen(item: Item, open: ReadonlySet<string>): boolean {
  return !item.op && open.has(item.key);
}

function closedSize(item: Item): { width: number; height: number } {
  const letters = shortName(item.label).length;
  if (item.op) return { width: Math.max(64, Math.round(letters * LETTER) + 40), height: OP_HEIGHT };
  const strip = item.kind === "fold" ? Math.min(item.children.length, 96) * 4 + 24 : 0;
  return {
    width: Math.max(110, Math.round(letters * LETTER * 1.12) + 58, strip),
    height: SCOPE_HEIGHT,
  };
}

function measure(
  item: Item, open: ReadonlySet<string>, lifted: Lifted, sizes: Map<Item, Placed>, cache: LayoutCache, isRoot = false,
): { width: number; height: number } {
  if (!isRoot && !isOpen(item, open)) return closedSize(item);
  const children = item.children.map((child) => measure(child, open, lifted, sizes, cache));
  const index = new Map(item.children.map((child, i) => [child, i]));
  const edges = [...(lifted.get(item)?.values() ?? [])]
    .map(([a, b]): [number, number] => [index.get(a) ?? -1, index.get(b) ?? -1])
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const key = hash(`${item.kind === "lane" && isRoot}|${shortName(item.label).length}|${JSON.stringify(children)}|${JSON.stringify(edges)}`);
  let placed = cache.scopes.get(key);
  if (!placed) {
    placed = isRoot ? sideBySide(children) : layers(children, withoutPins(edges), shortName(item.label).length);
    cache.scopes.set(key, placed);
    cache.made += 1;
  }
  sizes.set(item, placed);
  return placed;
}

// A scope that many others read from would tie the picture together too.
function withoutPins(edges: [number, number][]): [number, number][] {
  const readers = new Map<number, number>();
  for (const [from] of edges) readers.set(from, (readers.get(from) ?? 0) + 1);
  return edges.filter(([from]) => (readers.get(from) ?? 0) <= MOST_READERS);
}

// Lanes stand beside each other.
function sideBySide(children: { width: number; height: number }[]): Placed {
  let x = 0;
  const at = children.map(({ width }) => {
    const place = { x, y: 0 };
    x += width + 2 * PADDING;
    return place;
  });
  return { width: Math.max(0, x - 2 * PADDING), height: Math.max(0, ...children.map((child) => child.height)), at, lines: [] };
}

function layers(children: { width: number; height: number }[], edges: [number, number][], letters: number): Placed {
  const placed = isChain(children, edges) ? asChain(children) : children.length > MOST_FOR_DAGRE ? byLongestPath(children, edges) : byDagre(children, edges);
  const least = Math.round(letters * LETTER * 1.12) + 90;
  const shift = Math.max(0, (least - placed.width) / 2) + PADDING;
  for (const place of placed.at) {
    place.x += shift;
    place.y += TITLE + PADDING;
  }
  for (const line of placed.lines) {
    line.points = line.points.map((value, i) => value + (i % 2 ? TITLE + PADDING : shift));
  }
  return {
    ...placed,
    width: Math.max(placed.width, least) + 2 * PADDING,
    height: placed.height + TITLE + 2 * PADDING,
  };
}

// Each child is read by the next one alone, as the blocks of a fold mostly are.
function isChain(children: readonly unknown[], edges: [number, number][]): boolean {
  return edges.length === children.length - 1 && edges.every(([from, to], i) => from === i && to === i + 1);
}

// What dagre gives for a chain, which takes it 100 ms for 300 boxes.
function asChain(children: { width: number; height: number }[]): Placed {
  const middle = Math.max(0, ...children.map(({ width }) => width)) / 2;
  let y = 0;
  const at = children.map(({ width, height }) => {
    const place = { x: middle - width / 2, y };
    y += height + BETWEEN_LAYERS;
    return place;
  });
  const lines = at.slice(1).map((below, from) => ({
    from, to: from + 1, points: [middle, below.y - BETWEEN_LAYERS, middle, below.y - BETWEEN_LAYERS / 2, middle, below.y],
  }));
  return { ...extent(children, at), at, lines };
}

function byDagre(children: { width: number; height: number }[], edges: [number, number][]): Placed {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: BETWEEN_LAYERS, edgesep: 8, marginx: 0, marginy: 0 });
  graph.setDefaultEdgeLabel(() => ({}));
  children.forEach(({ width, height }, i) => graph.setNode(String(i), { width, height }));
  for (const [from, to] of edges) graph.setEdge(String(from), String(to));
  dagre.layout(graph);
  const at = children.map(({ width, height }, i) => {
    const node = graph.node(String(i));
    return { x: node.x - width / 2, y: node.y - height / 2 };
  });
  const lines = edges.map(([from, to]) => {
    const { points = [] } = graph.edge(String(from), String(to)) as { points?: { x: number; y: number }[] };
    return { from, to, points: points.flatMap(({ x, y }) => [x, y]) };
  });
  return { ...extent(children, at), at, lines };
}

// Layers by the longest path in the order of the run, each in that order: linear, for scopes with very many children.
function byLongestPath(children: { width: number; height: number }[], edges: [number, number][]): Placed {
  const layer = new Array<number>(children.length).fill(0);
  for (const [from, to] of edges) {
    if (from < to) layer[to] = Math.max(layer[to] ?? 0, (layer[from] ?? 0) + 1);
  }
  const rows: number[][] = [];
  layer.forEach((row, child) => (rows[row] ??= []).push(child));
  const at = children.map(() => ({ x: 0, y: 0 }));
  let y = 0;
  for (const row of rows.filter(Boolean)) {
    // A layer of thousands becomes several lines of it.
    for (let start = 0; start < row.length; start += 40) {
      let x = 0;
      let height = 0;
      for (const child of row.slice(start, start + 40)) {
        const size = children[child] as { width: number; height: number };
        at[child] = { x, y };
        x += size.width + 18;
        height = Math.max(height, size.height);
      }
      y += height + BETWEEN_LAYERS;
    }
  }
  centre(children, at);
  const lines = edges.map(([from, to]) => {
    const [a, b] = [at[from], at[to]] as { x: number; y: number }[];
    const [sa, sb] = [children[from], children[to]] as { width: number; height: number }[];
    return { from, to, points: [a!.x + sa!.width / 2, a!.y + sa!.height, b!.x + sb!.width / 2, b!.y] };
  });
  return { ...extent(children, at), at, lines };
}

// Moves every line of boxes to the middle.
function centre(children: { width: number; height: number }[], at: { x: number; y: number }[]): void {
  const ends = new Map<number, number>();
  at.forEach(({ x, y }, i) => ends.set(y, Math.max(ends.get(y) ?? 0, x + (children[i]?.width ?? 0))));
  const widest = Math.max(0, ...ends.values());
  for (const place of at) place.x += (widest - (ends.get(place.y) ?? 0)) / 2;
}

function extent(children: { width: number; height: number }[], at: { x: number; y: number }[]): { width: number; height: number } {
  let width = 0;
  let height = 0;
  children.forEach((child, i) => {
    width = Math.max(width, (at[i]?.x ?? 0) + child.width);
    height = Math.max(height, (at[i]?.y ?? 0) + child.height);
  });
  return { width, height };
}

function place(
  item: Item, x: number, y: number, depth: number, open: ReadonlySet<string>, sizes: Map<Item, Placed>, boxes: Box[], lines: Line[],
  pins: ReadonlyMap<number, Pin[]>,
): void {
  const placed = sizes.get(item) as Placed;
  for (const line of placed.lines) {
    lines.push({
      from: item.children[line.from]?.key ?? "",
      to: item.children[line.to]?.key ?? "",
      points: line.points.map((value, i) => value + (i % 2 ? y : x)),
    });
  }
  item.children.forEach((child, i) => {
    const opened = isOpen(child, open);
    const { width, height } = opened ? (sizes.get(child) as Placed) : closedSize(child);
    const at = placed.at[i] as { x: number; y: number };
    boxes.push({
      key: child.key, kind: child.kind, label: shortName(child.label), ops: child.ops, state: child.state, open: opened, depth,
      x: x + at.x, y: y + at.y, width, height,
      cells: child.kind === "fold" ? child.children.map((member) => member.state) : [],
      pins: (child.op && pins.get(child.op.id)) ?? [],
    });
    if (opened) place(child, x + at.x, y + at.y, depth + 1, open, sizes, boxes, lines, pins);
  });
}
