// Rows of a table in a report, filtered and sorted without a server: the words of src/face/server/filter.cpp that need no pattern.
import { TEXT_COLUMNS } from "../answers.ts";
import { toNumber, type Num } from "../numbers.ts";

export type Row = Readonly<Record<string, unknown>>;

const NUMBER = /^([a-z0-9_]+)(<=|>=|!=|==?|<|>)(.+)$/;
const KINDS: Readonly<Record<string, (row: Row, value: string) => boolean>> = {
  class: (row, value) => row.class === value,
  phase: (row, value) => row.phase === value,
  side: (row, value) => row.side === value,
  dtype: (row, value) => row.dtype === value,
  parameter: (row, value) => row.parameter === value,
  type: (row, value) => String(row.op_type).toLowerCase() === value.toLowerCase(),
  source: (row, value) => {
    const { file, line } = /^(?<file>.*?)(?::(?<line>\d+))?$/.exec(value)?.groups ?? {};
    const path = String(row.source_file);
    return (path === file || path.endsWith(`/${file}`)) && (line === undefined || Number(line) === row.source_line);
  },
};

type Condition = (row: Row) => boolean;

// Null: the filter has words that only a server understands. `other` knows further words.
export function filterRows(rows: readonly Row[], filter: string, other: (word: string) => Condition | null = () => null): readonly Row[] | null {
  const words = filter.split(" ").filter(Boolean);
  const conditions = words.map((word) => other(word) ?? conditionOf(word));
  if (conditions.some((condition) => condition === null)) return null;
  return rows.filter((row) => conditions.every((condition) => condition?.(row)));
}

function conditionOf(word: string): Condition | null {
  if (word.includes('"')) return null;
  const colon = word.indexOf(":");
  const kind = colon > 0 ? KINDS[word.slice(0, colon)] : undefined;
  if (kind) return (row) => kind(row, word.slice(colon + 1));
  const [, column, sign, text] = NUMBER.exec(word) ?? [];
  const number = Number(text);
  if (!column || !sign || Number.isNaN(number)) return null;
  return (row) => typeof row[column] !== "undefined" && row[column] !== null && holds(toNumber(row[column] as Num), sign, number);
}

function holds(value: number, sign: string, number: number): boolean {
  switch (sign) {
    case "<": return value < number;
    case "<=": return value <= number;
    case ">": return value > number;
    case ">=": return value >= number;
    case "!=": return value !== number;
    default: return value === number;
  }
}

const CLASSES = ["not_recorded", "fine", "not_measured", "healthy_infinity", "unjudged_infinity", "infinity", "nan"];
const NOT_NUMBERS = new Set([...TEXT_COLUMNS, "verdict", "target", "relation"]); // the last three are of comparisons

// "-max": the largest first. Rows without a value are the last.
export function sortRows(rows: readonly Row[], sort: string): readonly Row[] {
  if (!sort) return rows;
  const column = sort.replace(/^-/, "");
  const direction = sort.startsWith("-") ? -1 : 1;
  const of = (row: Row): number | string | null => {
    const value = row[column];
    if (value === undefined || value === null) return null;
    if (column === "class") return CLASSES.indexOf(String(value));
    return NOT_NUMBERS.has(column) ? String(value) : toNumber(value as Num);
  };
  return rows.map((row) => ({ row, key: of(row) })).sort((a, b) => compare(a.key, b.key, direction)).map(({ row }) => row);
}

function compare(a: number | string | null, b: number | string | null, direction: number): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  if (typeof a === "string" || typeof b === "string") return direction * (a < b ? -1 : a > b ? 1 : 0);
  return direction * (Number.isNaN(a) || Number.isNaN(b) ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) : a - b);
}
