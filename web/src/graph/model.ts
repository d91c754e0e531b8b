// The graph of a step as a tree: lanes (phases), scopes in scopes, operators. Equal neighbours among the scopes fold to one box.
export interface GraphOp {
  id: number;
  name: string; // with its scope
  type: string;
  scope: string;
  phase: string;
  state: string; // its class, as in the health map
  rank: number; // of the class: the larger is the worse
  norm?: number; // of its first output; NaN: the dump does not say
  parameters?: string[]; // that it reads
}

export interface GraphEdge {
  from: number;
  to: number;
}

export interface Item {
  key: string;
  kind: "lane" | "scope" | "fold" | "op";
  label: string;
  parent: Item | null;
  children: Item[];
  order: number; // of its first operator in the run
  ops: number;
  state: string; // the worst class in it
  stateRank: number;
  shape: number; // equal for scopes with equal content
  op: GraphOp | null;
}

export interface GraphModel {
  root: Item;
  items: Map<string, Item>;
  opItems: Map<number, Item>;
  edges: readonly GraphEdge[];
}

const LANES = ["forward", "recompute", "backward", "optimizer", "outside"];
const LEAST_FOLD = 3;

export function opKey(name: string): string {
  return `op:${name}`;
}

export function buildModel(ops: readonly GraphOp[], edges: readonly GraphEdge[]): GraphModel {
  const items = new Map<string, Item>();
  const opItems = new Map<number, Item>();
  const make = (key: string, kind: Item["kind"], label: string, parent: Item | null, order: number): Item => {
    const item: Item = {
      key, kind, label, parent, order, children: [], ops: 0, state: "", stateRank: -1, shape: 0, op: null,
    };
    items.set(key, item);
    parent?.children.push(item);
    return item;
  };
  const root = make("", "lane", "", null, 0);
  ops.forEach((op, order) => {
    let at = items.get(op.phase) ?? make(op.phase, "lane", op.phase, root, order);
    let path = "";
    for (const part of op.scope ? op.scope.split("/") : []) {
      path = path ? `${path}/${part}` : part;
      const key = `${op.phase}:${path}`;
      at = items.get(key) ?? make(key, "scope", part, at, order);
    }
    const label = op.name.startsWith(`${op.scope}/`) ? op.name.slice(op.scope.length + 1) : op.name;
    const item = make(opKey(op.name), "op", label, at, order);
    item.op = op;
    opItems.set(op.id, item);
  });
  root.children.sort((a, b) => laneRank(a.key) - laneRank(b.key));
  finish(root, items);
  return { root, items, opItems, edges };
}

function laneRank(phase: string): number {
  const rank = LANES.indexOf(phase);
  return rank < 0 ? LANES.length : rank;
}

// A value with more readers than these is a pin at each of them: its lines would tie the picture together.
export const MOST_READERS = 8;

export interface Pin {
  key: string; // of the operator that made it; empty: a parameter
  label: string;
}

// Parameters, and values with many readers, by the operator that reads them.
export function pinsOf(model: GraphModel): { pins: ReadonlyMap<number, Pin[]>; makers: ReadonlySet<number> } {
  const readers = new Map<number, Set<number>>();
  for (const { from, to } of model.edges) readers.set(from, (readers.get(from) ?? new Set()).add(to));
  const makers = new Set([...readers].filter(([, of]) => of.size > MOST_READERS).map(([from]) => from));
  const pins = new Map<number, Pin[]>();
  const add = (reader: number, pin: Pin): void => void pins.set(reader, [...(pins.get(reader) ?? []), pin]);
  for (const [id, { op }] of model.opItems) for (const name of op?.parameters ?? []) add(id, { key: "", label: name.slice(name.lastIndexOf(".") + 1) });
  for (const maker of makers) {
    const item = model.opItems.get(maker);
    if (item) for (const reader of readers.get(maker) ?? []) add(reader, { key: item.key, label: item.label });
  }
  return { pins, makers };
}

// The boxes that a picture with these open scopes has.
export function countBoxes(item: Item, open: ReadonlySet<string>): number {
  return item.children.reduce((sum, child) => sum + 1 + (child.op || !open.has(child.key) ? 0 : countBoxes(child, open)), 0);
}

// Counts, the worst class and the shape from below; then equal neighbours are folded. Scopes are at most a few hundred deep.
function finish(item: Item, items: Map<string, Item>): void {
  if (item.op) {
    item.ops = 1;
    item.state = item.op.state;
    item.stateRank = item.op.rank;
    item.shape = hash(item.op.type);
    return;
  }
  let shape = hash(className(item.label));
  for (const child of item.children) {
    finish(child, items);
    absorb(item, child);
    shape = hash(String(child.shape), shape);
  }
  item.shape = shape;
  fold(item, items);
}

function absorb(item: Item, child: Item): void {
  item.ops += child.ops;
  if (child.stateRank > item.stateRank) {
    item.stateRank = child.stateRank;
    item.state = child.state;
  }
}

function fold(item: Item, items: Map<string, Item>): void {
  const folded: Item[] = [];
  for (let i = 0; i < item.children.length; ) {
    const first = item.children[i] as Item;
    let end = i + 1;
    while (first.kind === "scope" && item.children[end]?.kind === "scope" && item.children[end]?.shape === first.shape) end += 1;
    const run = item.children.slice(i, end);
    if (run.length >= LEAST_FOLD && run.length < item.children.length + (item.kind === "lane" ? 0 : 1)) {
      folded.push(foldOf(item, run, items));
    } else folded.push(...run);
    i = end;
  }
  item.children = folded;
}

function foldOf(parent: Item, run: Item[], items: Map<string, Item>): Item {
  const first = run[0] as Item;
  const group: Item = {
    ...first,
    key: `${first.key}*`,
    kind: "fold",
    label: `${className(first.label)} × ${run.length}`,
    parent,
    children: run,
    ops: 0,
    stateRank: -1,
    state: "",
  };
  for (const member of run) {
    member.parent = group;
    absorb(group, member);
  }
  items.set(group.key, group);
  return group;
}

// Another colour of each box than its class: of a scope the one with the largest rank in it.
export interface Shade {
  state: string; // a name of graph/looks.ts
  rank: number;
  cells?: string[]; // of a fold: the state of each member
}

export type Shades = ReadonlyMap<string, Shade>;

export function shadesOf(model: GraphModel, of: (op: GraphOp) => Shade | undefined): Shades {
  const shades = new Map<string, Shade>();
  const visit = (item: Item): Shade => {
    if (item.op) return of(item.op) ?? { state: "", rank: -1 };
    const inner = item.children.map((child) => {
      const shade = visit(child);
      shades.set(child.key, shade);
      return shade;
    });
    const worst = inner.reduce((most, shade) => (shade.rank > most.rank ? shade : most), { state: "", rank: -1 });
    return { state: worst.state, rank: worst.rank, ...(item.kind === "fold" ? { cells: inner.map((shade) => shade.state) } : {}) };
  };
  visit(model.root);
  return shades;
}

// Of an operator on several ranks the one that differs: its class alone is the worst, or most of the others have one norm that it has
// not. "all": they differ, and no rank alone. Null: they are equal, or fewer than two ranks have it.
export function oddRank(of: readonly ({ badness: number; norm: number } | undefined)[]): number | "all" | null {
  const known = of.flatMap((op, rank) => (op ? [{ rank, ...op }] : []));
  if (known.length < 2) return null;
  const worst = Math.max(...known.map(({ badness }) => badness));
  const bad = known.filter(({ badness }) => badness === worst);
  if (bad.length < known.length) return bad.length === 1 ? (bad[0]?.rank ?? null) : "all";
  const groups = new Map<string, number[]>();
  for (const { rank, norm } of known) groups.set(String(norm), [...(groups.get(String(norm)) ?? []), rank]);
  if (groups.size === 1) return null;
  const [least] = [...groups.values()].filter((ranks) => ranks.length === 1);
  return groups.size === 2 && known.length > 2 && least ? (least[0] ?? null) : "all";
}

export const HEATS = 12;
export type Range = readonly [number, number] | null; // null: no number

// As many colours as HEATS from the smallest to the largest number; null and NaN have none.
export function heatShades(model: GraphModel, of: (op: GraphOp) => number | null): { shades: Shades; range: Range } {
  let [low, high] = [Infinity, -Infinity];
  const values = new Map<string, number>();
  for (const item of model.opItems.values()) {
    const value = item.op && of(item.op);
    if (!item.op || value === null || !Number.isFinite(value)) continue;
    values.set(item.op.name, value);
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const shades = shadesOf(model, (op) => {
    const value = values.get(op.name);
    if (value === undefined) return undefined;
    const heat = high > low ? Math.min(HEATS - 1, Math.floor(((value - low) / (high - low)) * HEATS)) : 0;
    return { state: `heat-${heat}`, rank: value - low };
  });
  return { shades, range: low <= high ? [low, high] : null };
}

// "Block" of "3-Block": MindSpore's names of scopes are the attribute and the class.
export function className(label: string): string {
  return label.slice(label.indexOf("-") + 1);
}

// FNV-1a of 32 bits.
export function hash(text: string, seed = 0x811c9dc5): number {
  let value = seed;
  for (let i = 0; i < text.length; i += 1) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value >>> 0;
}

// The keys that must be open so that `item` is visible.
export function openedFor(item: Item): string[] {
  const keys: string[] = [];
  for (let at = item.parent; at && at.key; at = at.parent) keys.push(at.key);
  return keys;
}

// Opens lanes and only children until there is a choice, or equal blocks.
export function openAtFirst(model: GraphModel): string[] {
  const keys: string[] = [];
  for (const lane of model.root.children) {
    if (model.root.children.length > 1 && lane.key !== "forward") continue;
    let at: Item | undefined = lane;
    while (at && !at.op) {
      keys.push(at.key);
      const inner: Item[] = at.children.filter((child) => !child.op);
      at = inner.length === 1 && inner[0]?.kind !== "fold" ? inner[0] : undefined;
    }
  }
  return keys;
}

// The operators of a path and their neighbours in the same lanes, as a graph of their own.
export function neighbourhood(
  ops: readonly GraphOp[],
  edges: readonly GraphEdge[],
  names: ReadonlySet<string>,
): { ops: GraphOp[]; edges: GraphEdge[] } {
  const on = new Set(ops.filter((op) => names.has(op.name)).map((op) => op.id));
  const phases = new Set(ops.filter((op) => on.has(op.id)).map((op) => op.phase));
  const near = new Set(ops.filter((op) => phases.has(op.phase)).map((op) => op.id));
  const kept = new Set(on);
  for (const { from, to } of edges) {
    if (on.has(from) && near.has(to)) kept.add(to);
    if (on.has(to) && near.has(from)) kept.add(from);
  }
  return {
    ops: ops.filter((op) => kept.has(op.id)),
    edges: edges.filter(({ from, to }) => kept.has(from) && kept.has(to) && (on.has(from) || on.has(to))),
  };
}
