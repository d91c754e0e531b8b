// The state of the page: the address, what the server says of itself, and answers that were read already.
import { computed, effect, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Comparison, Finding, FirstBad } from "./answers.ts";
import type { Class, Overview, Status } from "./api.ts";
import { faultsOf, isThere, type Known, understood } from "./address.ts";
import { requestsOf } from "./requests.ts";
import { formatLink, parseLink, type Route, type Screen } from "./link.ts";
import type { Query, Source } from "./source/source.ts";
import { Refusal, Unreachable } from "./source/source.ts";
import { splitToken } from "./source/token.ts";

export const source = signal<Source | null>(null);
export const status = signal<Status | null>(null);
export const overview = signal<Overview | null>(null);
export const connected = signal(true);
export const tokenRefused = signal(false);
export const report = computed(() => source.value?.report ?? null);
const readAddress = (): Route => parseLink(splitToken(location.hash).rest); // no link has the token
export const route = signal<Route>(readAddress());
export const params = computed(() => understood(route.value.query));
export const generation = computed(() => status.value?.generation ?? 0);

addEventListener("hashchange", () => {
  if (splitToken(location.hash).token) location.reload(); // pasted, as after a new start of the server
  const next = readAddress();
  if (formatLink(next) !== formatLink(route.value) || next.unknown !== route.value.unknown) route.value = next;
});

export type Patch = Readonly<Record<string, string | number | undefined>>;

// What belongs to every screen stays when the screen changes; the rest belongs to one screen.
const KEPT = ["d", "r", "g", "s", "rq", "op", "t"];

export function linkTo(screen: Screen, patch: Patch = {}): string {
  const now = route.value.screen;
  const query = params.value;
  const next: Record<string, string> = {};
  for (const [name, value] of Object.entries(query)) if (screen === now || KEPT.includes(name)) next[name] = value;
  for (const [name, value] of Object.entries(patch)) next[name] = value === undefined ? "" : String(value);
  return formatLink({ screen, query: next });
}

export function go(screen: Screen, patch: Patch = {}, replace = false): void {
  const link = linkTo(screen, patch);
  if (link === location.hash) return;
  if (replace) history.replaceState(null, "", link);
  else location.hash = link;
  route.value = parseLink(link); // before the browser says so: the next key may come at once
}

export const change = (patch: Patch, replace = false): void => go(route.value.screen, patch, replace);

// A number of the address that no dump has is not asked for: `faults` names it.
export const dump = computed(() => {
  const asked = Number(params.value.d ?? 0);
  return status.value && !status.value.dumps.some((entry) => entry.dump === asked) ? 0 : asked;
});
export const dumpStatus = computed(() => status.value?.dumps.find((entry) => entry.dump === dump.value) ?? null);
// Nothing of the shown dump is known yet: a screen could only say that its questions have no answer.
export const isUnread = computed(() => overview.value?.dump !== dump.value && (status.value?.state === "indexing" || dumpStatus.value?.state === "indexing"));
// The regular expression of this name alone.
export const exactly = (name: string): string => `^${name.replace(/[.^$*+?()[\]{}|\\]/g, "\\$&")}$`;

// The path of the shown dump as a word of a command.
export function dumpWord(): string {
  const path = dumpStatus.value?.path ?? "DUMP";
  return /^[\w./:=,+@%-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
export const ranks = computed(() => overview.value?.ranks.map((entry) => entry.rank) ?? []);
// "dp 0 tp 1": the place of a rank in the work that ranks share; empty: the dump does not show it.
export const dimensionsOf = (name: string): string =>
  (overview.value?.ranks.find((entry) => entry.rank === name)?.dimensions ?? []).filter(({ dimension }) => dimension).map(({ dimension, place: at }) => `${dimension} ${at}`).join(" ");
interface Place {
  rank: number;
  dump?: string;
}
// As the server names ranks: "0", or "0 of run7" where the path holds several dumps.
export const rankName = ({ rank, dump }: Place): string => (dump ? `${rank} of ${dump}` : String(rank));
// What a card says: the page's reader of the screen hears it when it comes.
export const announced = signal("");

export function useAnnounced(text: string): void {
  useEffect(() => void (announced.value = text), [text]);
}

// Of two dumps the first difference, once they are compared.
export const difference = signal<Difference | null>(null);
type Difference = Comparison["findings"][number];
export const shownDifference = computed(() => (difference.value && difference.value.in_golden === (dump.value === 1) ? difference.value : null));
// What the first card of the overview is about.
const first = computed((): { rank: number; dump?: string; graph: number; step: number } | null => shownDifference.value ?? (overview.value?.finding as FirstBad | null)?.first ?? null);
const findingRank = computed(() => ranks.value.find((name) => first.value !== null && name === rankName(first.value)));
// Until the overview of a dump has come, everything that the address names may be there.
const chosen = (name: "r" | "g" | "s", there: readonly (string | number)[]): string | undefined => {
  const asked = params.value[name];
  const isKnown = overview.value?.dump === dump.value && there.length > 0;
  return asked !== undefined && isKnown && !isThere(name, asked, there.map(String)) ? undefined : asked;
};
// The chosen rank; without a choice that of the finding.
export const rank = computed(() => chosen("r", ranks.value) ?? findingRank.value ?? ranks.value[0] ?? "0");
export const graphs = computed(() => [...new Set(overview.value?.steps.map((step) => step.graph) ?? [])].sort((a, b) => a - b));
const findingGraph = computed(() => graphs.value.find((number) => number === first.value?.graph));
export const graph = computed(() => Number(chosen("g", graphs.value) ?? findingGraph.value ?? graphs.value[0] ?? 0));
// Of a serving engine: its requests, and the chosen one.
export const requests = computed(() => requestsOf(overview.value?.steps ?? [], rank.value, graph.value));
export const request = computed(() => requests.value.find((one) => one.request === params.value.rq) ?? null);
// Of a chosen request those that worked on it.
export const steps = computed(() =>
  [...new Set((overview.value?.steps ?? []).filter((step) => step.rank === rank.value && step.graph === graph.value).map((step) => step.step))]
    .filter((number) => !request.value || request.value.steps.includes(number))
    .sort((a, b) => a - b),
);
// Those to go to: of a report the ones that it has.
export const offeredSteps = computed(() => steps.value.filter((number) => report.value?.steps.includes(number) ?? true));
export const findingStep = computed(() => {
  const found = first.value?.step;
  return found !== undefined && steps.value.includes(found) ? found : null;
});
// The chosen step; without a choice that of the finding, else the last one of a live run, else the first.
export const step = computed(() => {
  const asked = chosen("s", steps.value);
  if (asked !== undefined) return Number(asked);
  if (dumpStatus.value?.state === "live" && follow.value) return steps.value.at(-1) ?? 0;
  return findingStep.value ?? steps.value[0] ?? 0;
});

// What recorded the shown rank: "mindspore 2.7.0, …"; empty: the dump does not say.
export const recorder = computed(() => overview.value?.ranks.find((entry) => entry.rank === rank.value)?.runs.at(-1)?.host.toLowerCase() ?? "");

// The whole answer of first-bad, once it is known.
export const firstBad = computed((): FirstBad | null => (overview.value?.finding as unknown as FirstBad | null) ?? null);
// The finding of the shown rank and graph.
export const finding = computed((): Finding | null => {
  const { first: answer = null, by_rank: others = [] } = (overview.value?.finding as FirstBad | null) ?? {};
  return [answer, ...others].find((one) => one !== null && rankName(one) === rank.value && one.graph === graph.value) ?? null;
});

export interface Pointed {
  name: string; // of an operator, or a parameter
  step: number;
  isBad: boolean; // what is bad after it may follow from it
}

// What the maps and the graph point at: of two dumps the first difference, else the finding.
export const pointed = computed((): Pointed | null => {
  const bad = finding.value;
  const nameOf = (of: Finding): string => of.op_name || of.tensor.parameter;
  const apart = shownDifference.value;
  if (apart?.op_name && String(apart.rank) === rank.value && apart.graph === graph.value) {
    return { name: apart.op_name, step: apart.step, isBad: bad !== null && nameOf(bad) === apart.op_name && bad.step === apart.step };
  }
  return bad && { name: nameOf(bad), step: bad.step, isBad: true };
});

// Whether a bad value only comes after what is to blame: in a later step, or in the same one on a rank that made nothing bad by itself,
// or in a gradient that is not what was found. An uncertain finding blames nobody for sure.
export function isLaterBad(at: { rank: string; step: number; gradient?: string }): boolean {
  const { first: answer, by_rank: others = [], findings = [] } = firstBad.value ?? {};
  if (!answer || answer.tags.includes("uncertain") || answer.graph !== graph.value) return false;
  const own = [answer, ...others].find((one) => rankName(one) === at.rank) ?? answer;
  return at.step > own.step || (at.step === own.step && (rankName(own) !== at.rank || (at.gradient !== undefined && ![own, ...findings].some(({ op_name: name, tensor }) => [name, tensor.parameter].includes(at.gradient ?? "")))));
}

// What the path backwards from an operator shows. Null: it leads nowhere, since the operator is to blame and read nothing bad.
export function wayBack(state: Class, name: string, of: number): "cause" | "makers" | null {
  if (!BAD_CLASSES.includes(state)) return "makers";
  const found = [firstBad.value?.first, ...(firstBad.value?.findings ?? []), ...(firstBad.value?.by_rank ?? [])].find((one) => one?.op_name === name && one.step === of);
  return !found || (found.before?.length ?? 0) > 0 ? "cause" : null;
}
const BAD_CLASSES: readonly Class[] = ["nan", "infinity", "unjudged_infinity"];

// What the address asks for and nobody has.
export const faults = computed(() => {
  const isKnown = status.value && overview.value?.dump === dump.value;
  const texts = (numbers: readonly number[]): string[] => numbers.map(String);
  const known: Known | null = isKnown
    ? { d: texts(status.value?.dumps.map((entry) => entry.dump) ?? []), r: ranks.value, g: texts(graphs.value), s: texts(steps.value), rq: requests.value.map((one) => one.request) } : null;
  return faultsOf(route.value, known);
});
// The same address without them.
export const linkWithoutFaults = computed(() => linkTo(route.value.screen, Object.fromEntries(faults.value.map(({ name }) => [name, undefined]))));

// A live run is followed until a step is chosen, by whatever link or key.
export const follow = signal(false);
effect(() => {
  if (params.value.s !== undefined) follow.value = false;
});
export function setFollow(on: boolean): void {
  if (on) change({ s: undefined }, true);
  follow.value = on;
}

export const place = computed((): Query => ({ dump: dump.value || undefined, rank: rank.value, graph: graph.value, step: step.value }));

// Whether the page can show what a link leads to: a report has only some.
const has = (path: string, query: Query): boolean => source.value?.has?.(path, query) ?? true;
const placeAt = ({ d, r, g, s }: Patch): Query => ({ dump: d ?? dump.value, rank: r ?? rank.value, graph: g ?? graph.value, step: s ?? step.value });
export const hasOp = (name: string, at: Patch = {}): boolean => has("op", { ...placeAt(at), name });
export const hasGraph = (at: Patch = {}): boolean => has("graph", { ...placeAt(at), part: "nodes" });
export function hasPath(direction: "cause" | "effect", at: Patch = {}): boolean {
  const slot = "t" in at ? at.t : params.value.t;
  return hasGraph(at) && has("path", { ...placeAt(at), name: at.op ?? params.value.op, ...(slot === undefined ? {} : parseSlot(String(slot))), direction });
}
export const hasTables = (): boolean => has("tensors", place.value) || has("ops", place.value);
export const hasSources = (): boolean => has("source", { dump: dump.value || undefined, rank: rank.value });

export interface Slot {
  side: "input" | "output";
  slot: number;
}

export function parseSlot(text: string | undefined): Slot {
  const found = /^([io])(\d+)$/.exec(text ?? "");
  return { side: found?.[1] === "i" ? "input" : "output", slot: Number(found?.[2] ?? 0) };
}

export const formatSlot = ({ side, slot }: { side: string; slot: number | null }): string => `${side === "input" ? "i" : "o"}${slot ?? 0}`;

// What the server says of itself, and what the dump holds.
export async function refresh(): Promise<void> {
  if (!source.value) return;
  try {
    const now = await source.value.json<Status>("status");
    connected.value = true;
    status.value = now;
    if (now.state !== "indexing") overview.value = await source.value.json<Overview>("overview", { dump: dump.value || undefined });
  } catch (error) {
    notice(error);
  }
}

export interface Loaded<T> {
  value: T | undefined;
  error: Error | undefined;
  loading: boolean;
}

const MOST_KEPT = 300;
const kept = new Map<string, unknown>();
effect(() => {
  void generation.value;
  kept.clear();
});

// After a job the same question may have another answer: a verdict, for example.
const epoch = signal(0);
export function forget(): void {
  kept.clear();
  epoch.value += 1;
}

// Loads what `key` names, and again when it changes; the old value stays until the new one is there. Null: nothing.
export function useData<T>(key: string | null, load: (from: Source, signal: AbortSignal) => Promise<T>): Loaded<T> {
  const known = key === null ? undefined : (kept.get(key) as T | undefined);
  const [state, setState] = useState<{ key: string | null; value?: T; error?: Error }>({ key: null });
  const from = source.value;
  const now = generation.value;
  const online = connected.value;
  const times = epoch.value;
  useEffect(() => {
    if (key === null || !from) return undefined;
    if (kept.has(key)) {
      // Another part of the page has kept it between this one's picture and its effect.
      if (known === undefined) setState({ key, value: kept.get(key) as T });
      return undefined;
    }
    const abort = new AbortController();
    load(from, abort.signal).then(
      (value) => {
        // An answer from before a job or a growth is not kept: the question is asked again in a moment.
        if (epoch.peek() === times && generation.peek() === now) keep(key, value);
        if (!abort.signal.aborted) setState({ key, value });
      },
      (error: Error) => {
        if (abort.signal.aborted) return;
        notice(error);
        setState((old) => ({ key, error, ...(old.value === undefined ? {} : { value: old.value }) }));
      },
    );
    return () => abort.abort();
  }, [key, from, now, online, times]);
  if (known !== undefined) return { value: known, error: undefined, loading: false };
  const current = state.key === key;
  return { value: key === null ? undefined : state.value, error: current ? state.error : undefined, loading: key !== null && !(current && state.error) };
}

function keep(key: string, value: unknown): void {
  kept.set(key, value);
  const oldest = kept.keys().next();
  if (kept.size > MOST_KEPT && !oldest.done) kept.delete(oldest.value);
}

// A lost connection or a refused token is one state of the whole page, whoever noticed it.
export function notice(error: unknown): void {
  if (error instanceof Unreachable) connected.value = false;
  if (error instanceof Refusal && error.status === 401) tokenRefused.value = true;
}

export const keyOf = (path: string, query: Query): string => `${path}?${JSON.stringify(query)}`;

export function useJson<T>(path: string | null, query: Query = {}): Loaded<T> {
  return useData(path && keyOf(path, query), (from, signal) => from.json<T>(path as string, query, signal));
}
