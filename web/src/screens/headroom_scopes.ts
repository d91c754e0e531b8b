// What the headroom map shows: of each scope and each type what its tensors would lose, and the tensor that loses most.
import type { HeadroomOf, HeadroomTensor } from "../answers.ts";
import { type Num, toNumber } from "../numbers.ts";

// A part of the elements of a scope; `headroom`: the least of its tensors, in powers of two.
export interface Loss {
  overflows: boolean;
  headroom: number | null;
  elements: number; // those whose values were read
  overflow: number;
  underflow: number;
  subnormal: number;
  tensors: number;
  counted: number; // tensors whose elements are known; the others have statistics alone
  worst: HeadroomTensor;
}

export interface ScopeLine {
  kind: "all" | "scope" | "op" | "more"; // all: every tensor of the answer
  scope: string; // its full name
  name: string;
  depth: number;
  open: boolean;
  losses: ReadonlyMap<string, Loss>; // by type
}

const MOST_CHILDREN = 12; // of which a person sees the worst at once

interface Scope {
  name: string;
  tensors: HeadroomTensor[];
  inner: Map<string, Scope>; // in the order of the answer: those with the least headroom come first
}

function treeOf(tensors: readonly HeadroomTensor[]): Scope {
  const root: Scope = { name: "", tensors: [], inner: new Map() };
  for (const tensor of tensors) {
    let at = root;
    at.tensors.push(tensor);
    for (const part of tensor.op_name.split("/")) {
      const name = at.name ? `${at.name}/${part}` : part;
      const next = at.inner.get(part) ?? { name, tensors: [], inner: new Map<string, Scope>() };
      at.inner.set(part, next);
      next.tensors.push(tensor);
      at = next;
    }
  }
  return root;
}

const least = (a: number | null, b: Num | undefined): number | null => {
  const number = b === null || b === undefined ? NaN : toNumber(b);
  return Number.isNaN(number) ? a : Math.min(a ?? Infinity, number);
};

// The share that is lost, overflow before underflow, then the least headroom.
function isWorse(of: HeadroomOf, elements: number, than: HeadroomOf, thanElements: number): boolean {
  const share = (count: number | null | undefined, all: number): number => (count ?? 0) / Math.max(1, all);
  const pairs = [
    [Number(of.overflows), Number(than.overflows)],
    [share(of.overflow_count, elements), share(than.overflow_count, thanElements)],
    [share(of.underflow_count, elements), share(than.underflow_count, thanElements)],
    [-(least(null, of.headroom) ?? Infinity), -(least(null, than.headroom) ?? Infinity)],
  ] as const;
  const [mine = 0, other = 0] = pairs.find(([a, b]) => a !== b) ?? [];
  return mine > other;
}

function lossesOf(tensors: readonly HeadroomTensor[]): Map<string, Loss> {
  const losses = new Map<string, Loss>();
  const worst = new Map<string, HeadroomOf>();
  for (const tensor of tensors) {
    for (const of of tensor.as_dtypes) {
      const loss = losses.get(of.dtype) ?? { overflows: false, headroom: null, elements: 0, overflow: 0, underflow: 0, subnormal: 0, tensors: 0, counted: 0, worst: tensor };
      losses.set(of.dtype, loss);
      loss.tensors += 1;
      loss.overflows ||= of.overflows;
      loss.headroom = least(loss.headroom, of.headroom);
      if (typeof of.overflow_count === "number") {
        loss.counted += 1;
        loss.elements += tensor.elements;
        loss.overflow += of.overflow_count;
        loss.underflow += of.underflow_count ?? 0;
        loss.subnormal += of.subnormal_count ?? 0;
      }
      const known = worst.get(of.dtype);
      if (!known || isWorse(of, tensor.elements, known, loss.worst.elements)) {
        worst.set(of.dtype, of);
        loss.worst = tensor;
      }
    }
  }
  return losses;
}

// The rows of the map, the whole answer before its scopes. At first the roots are open; `toggled`: what a person opened or closed, `whole`: scopes of which all rows are shown.
export function scopeLines(tensors: readonly HeadroomTensor[], toggled: ReadonlyMap<string, boolean>, whole: ReadonlySet<string> = new Set()): ScopeLine[] {
  const lines: ScopeLine[] = [];
  const add = (scope: Scope, depth: number, label: string): void => {
    const [only] = scope.inner.values();
    if (only && scope.inner.size === 1 && only.inner.size) return add(only, depth, `${label}/${only.name.slice(scope.name.length + 1)}`); // a scope that has one scope only
    const open = scope.inner.size > 0 && (toggled.get(scope.name) ?? depth === 0);
    lines.push({ kind: scope.inner.size ? "scope" : "op", scope: scope.name, name: label, depth, open, losses: lossesOf(scope.tensors) });
    if (open) addInner(scope, depth + 1);
  };
  const addInner = (scope: Scope, depth: number): void => {
    const all = [...scope.inner.values()];
    const shown = whole.has(scope.name) ? all : all.slice(0, MOST_CHILDREN);
    for (const inner of shown) add(inner, depth, inner.name.slice(scope.name ? scope.name.length + 1 : 0));
    const rest = all.slice(shown.length);
    if (rest.length) lines.push({ kind: "more", scope: scope.name, name: String(rest.length), depth, open: false, losses: lossesOf(rest.flatMap((one) => one.tensors)) });
  };
  if (tensors.length) lines.push({ kind: "all", scope: "", name: "", depth: 0, open: false, losses: lossesOf(tensors) });
  addInner(treeOf(tensors), 0);
  return lines;
}
