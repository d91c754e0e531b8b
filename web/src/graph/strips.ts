// Of each closed scope in a picture the class of every step: the rows of the health map, read scope by scope.
import { useEffect, useState } from "preact/hooks";
import type { Class } from "../api.ts";
import { WORSE } from "../parts/ui.tsx";
import type { Query } from "../source/source.ts";
import { generation, source } from "../state.ts";
import type { GraphAnswer } from "./layout_answer.ts";

export type Strips = ReadonlyMap<string, readonly Class[]>; // by the path of a scope: a class for each cell

const MOST_CELLS = 48; // of a strip, which is as wide as a box
const MOST_ROWS = 100; // of one question, as the health map asks
const MOST_PAGES = 10;
const MOST_SCOPES = 40; // open ones, of one picture
const MOST_KEPT = 400;
const rows = new Map<string, Promise<Strips>>();

// Of the scopes below one.
async function read(query: Query): Promise<Strips> {
  const cells = new Map<string, Class[]>();
  for (let page = 0, all = 1; page < MOST_PAGES && page * MOST_ROWS < all; page += 1) {
    const table = await source.value?.table("health", { ...query, first_row: page * MOST_ROWS, rows: MOST_ROWS });
    for (let i = 0; table && i < table.rows; i += 1) {
      all = Number(table.get("row_count", i));
      const name = String(table.get("row", i));
      const strip = cells.get(name) ?? [];
      strip[Number(table.get("column", i))] = String(table.get("class", i)) as Class;
      cells.set(name, strip);
    }
  }
  const width = Math.max(0, ...[...cells.values()].map((strip) => strip.length));
  return new Map([...cells].map(([name, strip]) => [name, narrowed(Array.from({ length: width }, (_, i) => strip[i] ?? "not_recorded"))]));
}

// At most MOST_CELLS cells: each has the worst of those in it.
export function narrowed(strip: readonly Class[]): Class[] {
  const each = Math.ceil(strip.length / MOST_CELLS);
  return Array.from({ length: Math.ceil(strip.length / each) }, (_, i) =>
    strip.slice(i * each, (i + 1) * each).reduce((worst, state) => (WORSE[state] > WORSE[worst] ? state : worst)));
}

function rowsOf(query: Query): Promise<Strips> {
  const key = JSON.stringify([generation.value, query]);
  const known = rows.get(key);
  if (known) return known;
  const asked = read(query).catch((): Strips => new Map()); // a report has not all of them, and a lost server says so itself
  rows.set(key, asked);
  const oldest = rows.keys().next();
  if (rows.size > MOST_KEPT && !oldest.done) rows.delete(oldest.value);
  return asked;
}

// "backward:Gradients/Default/net" is a scope in its lane.
export const scopePath = (key: string): string => key.slice(key.indexOf(":") + 1);

// `query`: of the health map.
export function useStrips(answer: GraphAnswer | null, query: Query): Strips {
  const [strips, setStrips] = useState<Strips>(new Map());
  const closed = answer?.layout.boxes.filter((box) => box.kind === "scope" && !box.open).map((box) => scopePath(box.key)) ?? [];
  const above = [...new Set(closed.map((path) => path.slice(0, Math.max(0, path.lastIndexOf("/")))))].slice(0, MOST_SCOPES);
  const key = JSON.stringify([query, above, generation.value]);
  useEffect(() => {
    let left = false;
    void Promise.all(above.map((under) => rowsOf({ ...query, under }))).then((found) => !left && setStrips(new Map(found.flatMap((part) => [...part]))));
    return () => {
      left = true;
    };
  }, [key]);
  return strips;
}
