// The palette: operators, scopes, parameters and lines by parts of their names, and the screens and actions of the page.
import { useEffect, useState } from "preact/hooks";
import type { Hits } from "./api.ts";
import { Dialog } from "./frame.tsx";
import { SCREENS, type Screen } from "./link.ts";
import { shortName } from "./names.ts";
import { splitName } from "./parts/op_name.tsx";
import { Await, Empty } from "./parts/ui.tsx";
import { dumpStatus, finding, go, keyOf, rankName, step, steps, useData } from "./state.ts";
import { words } from "./words.ts";

type Hit = Hits["hits"][number];

interface Entry {
  kind: string;
  name: string;
  note: string;
  run: () => void;
}

export interface Action {
  name: string;
  run: () => void;
}

const MOST_SHOWN = 50;
const MOST_ASKED = 1000; // of several words one is asked for, and the others choose among its hits
const WAIT_MS = 120;

const wordsOf = (text: string): string[] => text.toLowerCase().split(/\s+/).filter(Boolean);
const hasAll = (name: string, parts: readonly string[]): boolean => parts.every((part) => name.toLowerCase().includes(part));

function followHit(hit: Hit): void {
  const has = steps.value.includes(step.value) ? {} : { s: hit.step };
  if (hit.kind === "op") go("op", { op: hit.name, t: undefined, ...has });
  else if (hit.kind === "scope") go("ops", { f: `${hit.name}/**`, op: undefined });
  else if (hit.kind === "parameter") go("ops", { f: `parameter:${hit.name}`, op: undefined });
  else go("ops", { f: `source:${hit.name}`, op: undefined });
}

// Screens and actions whose title has all the words: before the operators where it begins with them.
function ownEntries(text: string, screens: readonly Screen[], actions: readonly Action[]): { first: Entry[]; last: Entry[] } {
  const found = finding.value;
  const all: Entry[] = [
    ...screens.map((screen) => ({ kind: words.search.screen, name: words.screens[screen], note: "", run: () => go(screen) })),
    ...(found?.op_name ? [{ kind: words.search.action, name: words.search.finding, note: "", run: () => go("op", { op: found.op_name, r: rankName(found), g: found.graph, s: found.step, t: undefined }) }] : []),
    ...actions.map((action) => ({ kind: words.search.action, note: "", ...action })),
  ];
  const fits = all.filter(({ name }) => hasAll(name, wordsOf(text)));
  const isFirst = ({ name }: Entry): boolean => name.toLowerCase().startsWith(text.toLowerCase());
  return { first: fits.filter(isFirst), last: fits.filter((entry) => !isFirst(entry)) };
}

interface Found {
  hits: readonly Hit[];
  truncated: boolean;
}

function useHits(q: string): ReturnType<typeof useData<Found>> {
  const dump = dumpStatus.value?.dump || undefined;
  const parts = wordsOf(q);
  const [asked = ""] = [...parts].sort((a, b) => b.length - a.length);
  return useData(q ? keyOf("palette", { q, dump }) : null, async (from, signal) => {
    const answer = await from.json<Hits>("search", { q: parts.length > 1 ? asked : q, limit: parts.length > 1 ? MOST_ASKED : MOST_SHOWN, dump }, signal);
    const fitting = parts.length > 1 ? answer.hits.filter((hit) => hasAll(hit.name, parts)) : answer.hits;
    return { hits: fitting.slice(0, MOST_SHOWN), truncated: answer.truncated || fitting.length > MOST_SHOWN };
  });
}

export function Palette({ screens, actions, onClose }: { screens: readonly Screen[]; actions: readonly Action[]; onClose: () => void }) {
  const [text, setText] = useState("");
  const [q, setQ] = useState("");
  const [at, setAt] = useState(0);
  const [entered, setEntered] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setQ(text.trim()), WAIT_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const hits = useHits(q);
  const own = ownEntries(q, screens, actions);
  const found = q && hits.value ? hits.value.hits.map((hit): Entry => ({ kind: words.search.kinds[hit.kind], name: hit.name, note: String(hit.count), run: () => followHit(hit) })) : [];
  const entries = [...own.first, ...found, ...own.last];
  const chosen = Math.min(at, entries.length - 1);
  const open = (entry: Entry): void => {
    onClose();
    entry.run();
  };
  // Enter may come before the answer, while the hits of an older text are shown: it waits for those of its own.
  useEffect(() => {
    if (!entered || (q && hits.loading) || q !== text.trim()) return;
    setEntered(false);
    const entry = entries[chosen];
    if (entry) open(entry);
  }, [entered, hits.loading, q]);
  const key = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") setAt((chosen + (event.key === "ArrowDown" ? 1 : -1) + entries.length) % Math.max(1, entries.length));
    else if (event.key === "Escape") onClose();
    else if (event.key === "Enter") {
      setQ(text.trim());
      setEntered(true);
    } else return;
    event.preventDefault();
  };
  return (
    <Dialog title={words.search.title} onClose={onClose}>
      <input type="search" autoFocus value={text} placeholder={words.bar.searchHint} aria-label={words.bar.searchHint} aria-controls="palette" aria-activedescendant={entries.length ? `palette-${chosen}` : undefined}
        spellcheck={false} onKeyDown={key} onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
          setEntered(false);
        }} />
      {!q && <Empty>{words.search.hint}</Empty>}
      {q && <Await of={hits}>{() => (entries.length ? null : <Empty>{words.search.none}</Empty>)}</Await>}
      <ul class="hits" id="palette">
        {entries.map((entry, i) => (
          <li key={entry.kind + entry.name} id={`palette-${i}`} class={i === chosen ? "chosen" : ""} ref={i === chosen ? reveal : null}>
            <button type="button" class="plain" onClick={() => open(entry)}>
              <span class="kind">{entry.kind}</span> <span class="name" title={entry.name}><Name of={entry.name} /></span> <span class="count">{entry.note}</span>
            </button>
          </li>
        ))}
      </ul>
      {q && hits.value?.truncated && <Empty>{words.search.more}</Empty>}
    </Dialog>
  );
}

// The searched words may be in any part of it.
function Name({ of }: { of: string }) {
  const { own, scope } = splitName(of);
  return scope ? <>{shortName(own)} <small>{scope.split("/").map(shortName).join("/")}</small></> : <>{shortName(own)}</>;
}

const reveal = (element: HTMLElement | null): void => element?.scrollIntoView({ block: "nearest" });

// All screens that a person may go to by their name.
export const SCREENS_BY_NAME: readonly Screen[] = SCREENS.filter((screen) => screen !== "op");
