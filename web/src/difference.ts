// The differences of two tensors, element by element, as pictures. Only finite elements have a difference.
import { elementAt, type Npy } from "./npy.ts";

export interface Cells {
  rows: number;
  columns: number;
  values: Float64Array; // NaN: no finite element, or nothing to show
  bad: Uint8Array; // bit 0: a NaN is in the cell, bit 1: an infinity
  low: number;
  high: number;
}

export interface Differences {
  left: Cells;
  right: Cells;
  difference: Cells; // left - right; of several elements the largest by size
  beyond: number; // elements farther apart than the tolerance, NaN and infinities that are not equal included
  elements: number;
}

const MOST_CELLS_A_SIDE = 256;

function emptyCells(rows: number, columns: number): Cells {
  return { rows, columns, values: new Float64Array(rows * columns).fill(NaN), bad: new Uint8Array(rows * columns), low: Infinity, high: -Infinity };
}

function add(cells: Cells, at: number, value: number): void {
  if (Number.isNaN(value)) cells.bad[at] = (cells.bad[at] as number) | 1;
  else if (!Number.isFinite(value)) cells.bad[at] = (cells.bad[at] as number) | 2;
  else if (!(Math.abs(cells.values[at] as number) >= Math.abs(value))) cells.values[at] = value;
}

function finish(cells: Cells): Cells {
  for (const value of cells.values) {
    if (Number.isNaN(value)) continue;
    cells.low = Math.min(cells.low, value);
    cells.high = Math.max(cells.high, value);
  }
  return cells;
}

// `apart`: how far apart two elements may be, of the right one. The last axis has the columns, the others the rows.
export function differencesOf(left: Npy, right: Npy, apart: (right: number) => number): Differences {
  const elements = left.shape.reduce((product, size) => product * size, 1);
  const width = left.shape.at(-1) ?? 1;
  const height = width ? elements / width : 0;
  const rows = Math.min(height, MOST_CELLS_A_SIDE);
  const columns = Math.min(width, MOST_CELLS_A_SIDE);
  const [a, b, difference] = [emptyCells(rows, columns), emptyCells(rows, columns), emptyCells(rows, columns)];
  let beyond = 0;
  for (let i = 0; i < elements; i += 1) {
    const at = Math.floor((Math.floor(i / width) * rows) / height) * columns + Math.floor(((i % width) * columns) / width);
    const [x, y] = [elementAt(left, i), elementAt(right, i)];
    add(a, at, x);
    add(b, at, y);
    if (Number.isFinite(x) && Number.isFinite(y)) {
      if (Math.abs(x - y) > apart(y)) {
        beyond += 1;
        add(difference, at, x - y);
      }
    } else if (!Object.is(x, y)) {
      beyond += 1;
      add(difference, at, x - y);
    }
  }
  const [low, high] = [Math.min(finish(a).low, finish(b).low), Math.max(a.high, b.high)];
  // One scale for both, so that equal colours are equal values.
  return { left: { ...a, low, high }, right: { ...b, low, high }, difference: finish(difference), beyond, elements };
}

// Sizes of the differences, in parts of a bound.
export function over(difference: Cells, bound: number): Cells {
  return finish({ ...difference, values: difference.values.map((value) => Math.abs(value) / bound), low: Infinity, high: -Infinity });
}

export const sameShape = (a: Npy, b: Npy): boolean => a.shape.join() === b.shape.join();
