// The cells of a picture over the steps: a table with row_number and column, however many of them are there.
import type { Table } from "../source/source.ts";
import { step } from "../state.ts";
import { words } from "../words.ts";

export interface Column {
  number: number; // of the answer: levels of one map may lack different ones
  first: number;
  last: number;
}

export interface Cells<Cell> {
  rows: string[];
  columns: Column[];
  at: (row: number, column: number) => Cell | undefined; // row: a place in `rows`; column: a number
}

export function arrange<Cell>(tables: readonly Table[], name: string, cell: (table: Table, i: number) => Cell): Cells<Cell> {
  const rows = new Map<number, string>();
  const columns = new Map<number, Column>();
  const cells = new Map<string, Cell>();
  for (const table of tables) {
    for (let i = 0; i < table.rows; i += 1) {
      const [row, number] = [Number(table.get("row_number", i)), Number(table.get("column", i))];
      rows.set(row, String(table.get(name, i)));
      columns.set(number, { number, first: Number(table.get("first_step", i)), last: Number(table.get("last_step", i)) });
      cells.set(`${row} ${number}`, cell(table, i));
    }
  }
  const numbers = [...rows.keys()].sort((a, b) => a - b);
  return {
    rows: numbers.map((number) => rows.get(number) as string),
    columns: [...columns.values()].sort((a, b) => a.number - b.number),
    at: (row, column) => cells.get(`${numbers[row]} ${column}`),
  };
}

export const columnOf = (columns: readonly Column[], number: number): number => columns.findIndex(({ first, last }) => first <= number && number <= last);

// A column of several steps has the name of the chosen one, if that is in it.
export const columnNames = (columns: readonly Column[]): { name: string; title: string }[] =>
  columns.map(({ first, last }) => ({ name: String(first <= step.value && step.value <= last ? step.value : first), title: words.map.steps(first, last) }));
