// What is wrong with an address that was typed, or made for another dump. The page leaves such a part out and says so.
import type { Route } from "./link.ts";
import { SCREENS } from "./link.ts";
import { words } from "./words.ts";

export interface Fault {
  name: string; // of the part: "s"; empty: the screen
  found: string;
  expected: string;
}

// What the shown dump has.
export interface Known {
  d: readonly string[];
  r: readonly string[];
  g: readonly string[];
  s: readonly string[];
  rq?: readonly string[]; // where an engine serves requests
}

type Form = readonly [right: RegExp, expected: string];
const oneOf = (names: readonly string[]): Form => [new RegExp(`^(${names.join("|")})$`), names.join(", ")];
const NUMBER: Form = [/^\d{1,15}$/, "0, 1, 2 …"];

// Parts that the server does not see, or would call by another name. It says itself what is wrong with a filter, a slice, an order.
const FORMS: ReadonlyMap<string, Form> = new Map(Object.entries<Form>({
  d: NUMBER,
  g: NUMBER,
  s: NUMBER,
  t: [/^[io]\d{1,6}$/, "i0, o0 …"],
  hm: [/^\d{1,15}-\d{1,15}$/, "0-10"],
  tab: oneOf(Object.keys(words.op.tabs)),
  path: oneOf(["cause", "effect"]),
  colour: oneOf(Object.keys(words.graph.colours)),
  scale: oneOf(["linear", "log", "symlog"]),
  k: oneOf(["tensors", "ops"]),
  view: oneOf(["table", "relations", "graphs"]),
}));

const isRight = (name: string, value: string): boolean => FORMS.get(name)?.[0].test(value) ?? true;

// The parts that mean something.
export function understood(query: Route["query"]): Route["query"] {
  return Object.fromEntries(Object.entries(query).filter(([name, value]) => isRight(name, value)));
}

// Whether the dump has it. Numbers may be written with zeros in front; a rank and a request are names.
export const isThere = (name: string, asked: string, there: readonly string[]): boolean => there.includes(name === "r" || name === "rq" ? asked : String(Number(asked)));

export function faultsOf({ unknown, query }: Route, known: Known | null): Fault[] {
  const faults: Fault[] = unknown === undefined ? [] : [{ name: "", found: unknown, expected: SCREENS.join(", ") }];
  for (const [name, found] of Object.entries(query)) {
    const has = known && Object.hasOwn(known, name) ? known[name as keyof Known] : undefined; // not "constructor"
    if (!isRight(name, found)) faults.push({ name, found, expected: has ? inWords(has) : (FORMS.get(name)?.[1] ?? "") });
    else if (has?.length && !isThere(name, found, has)) faults.push({ name, found, expected: inWords(has) });
  }
  return faults;
}

const MOST_NAMED = 12;

// "0-9, 20": numbers in a row are a range.
export function inWords(names: readonly string[]): string {
  const runs: string[][] = [];
  for (const name of names) {
    const last = runs.at(-1);
    if (last && /^\d+$/.test(name) && Number(name) === Number(last.at(-1)) + 1) last.push(name);
    else runs.push([name]);
  }
  const parts = runs.map((run) => (run.length > 1 ? `${run[0]}-${run.at(-1)}` : (run[0] as string)));
  return parts.length > MOST_NAMED ? `${parts.slice(0, MOST_NAMED).join(", ")} …` : parts.join(", ");
}
