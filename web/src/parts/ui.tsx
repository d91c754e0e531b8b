// Small parts that every screen uses.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Class } from "../api.ts";
import { Lacking } from "../source/source.ts";
import type { Loaded } from "../state.ts";
import { words } from "../words.ts";

export const SIGNS: Readonly<Record<Class, string>> = {
  fine: "·", healthy_infinity: "◦", unjudged_infinity: "∞", infinity: "∞", nan: "✕", not_measured: "▨", not_recorded: "",
};

// The larger is the worse.
export const WORSE: Readonly<Record<Class, number>> = {
  not_recorded: 0, not_measured: 1, fine: 2, healthy_infinity: 3, unjudged_infinity: 4, infinity: 5, nan: 6,
};

export const BAD: readonly Class[] = ["nan", "infinity", "unjudged_infinity"];

// `later`: what is bad began elsewhere.
export function ClassMark({ state, word = false, later = false }: { state: Class; word?: boolean; later?: boolean }) {
  if (!(state in SIGNS)) return null;
  const said = later ? words.laterBad(words.classes[state]) : words.classes[state];
  return (
    <span class={`mark ${state}${later ? " later" : ""}`} title={said}>
      <span aria-hidden="true">{SIGNS[state]}</span>
      {word ? <span class="word">{said}</span> : <span class="hidden">{said}</span>}
    </span>
  );
}

export function Copy({ text, label = words.copy.copy, small = false }: { text: string; label?: string; small?: boolean }) {
  const [done, setDone] = useState(false);
  const copy = (): void => {
    void navigator.clipboard.writeText(text).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    });
  };
  return (
    <button type="button" class={small ? "small" : ""} onClick={copy}>
      {done ? words.copy.copied : label}
    </button>
  );
}

// The command that gives the same numbers.
export function Command({ text }: { text: string }) {
  if (!text) return null;
  return (
    <p class="command">
      <code>{text}</code> <Copy text={text} small />
    </p>
  );
}

export function Card({ title, hint, children, class: kind = "", extra }: {
  title?: string; hint?: string; children: ComponentChildren; class?: string; extra?: ComponentChildren;
}) {
  return (
    <section class={`card ${kind}`} aria-label={title}>
      {title && (
        <header>
          <h2 title={hint} tabIndex={-1}>{title}</h2>
          {extra}
        </header>
      )}
      {children}
    </section>
  );
}

export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>;

export function Problem({ error }: { error: Error }) {
  if (error instanceof Lacking) {
    return (
      <div class="problem lacking" role="status">
        <p>{words.report.lacks("").trim()}</p>
        <Command text={error.command} />
      </div>
    );
  }
  return (
    <p class="problem" role="alert">
      {error.message}
    </p>
  );
}

// What was loaded, an error, or after a moment a word that it is being read.
export function Await<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  const slow = useSlow(of.loading && of.value === undefined);
  if (of.error) return <Problem error={of.error} />;
  if (of.value === undefined) return slow ? <Empty>{words.states.loading}</Empty> : null;
  return <div class={of.loading ? "stale" : ""}>{children(of.value)}</div>;
}

export function useSlow(waiting: boolean, after = 250): boolean {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    if (!waiting) {
      setSlow(false);
      return undefined;
    }
    const timer = setTimeout(() => setSlow(true), after);
    return () => clearTimeout(timer);
  }, [waiting]);
  return slow;
}

// Whole seconds since `running` became true.
export function useSeconds(running: boolean): number {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    setSeconds(0);
    if (!running) return undefined;
    const timer = setInterval(() => setSeconds((now) => now + 1), 1000);
    return () => clearInterval(timer);
  }, [running]);
  return seconds;
}

export function useSize<E extends HTMLElement>(): [preact.RefObject<E | null>, { width: number; height: number }] {
  const ref = useRef<E>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  useEffect(() => {
    if (!ref.current) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      if (entry) setSize({ width: Math.floor(entry.contentRect.width), height: Math.floor(entry.contentRect.height) });
    });
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return [ref, size];
}

export interface Choice<T extends string> {
  value: T;
  label: string;
}

export function Select<T extends string>({ label, value, choices, onChange, hideLabel = false }: {
  label: string; value: T; choices: readonly Choice<T>[]; onChange: (value: T) => void; hideLabel?: boolean;
}) {
  return (
    <label class="select">
      <span class={hideLabel ? "hidden" : ""}>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value as T)}>
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value} selected={choice.value === value}>
            {choice.label}
          </option>
        ))}
      </select>
    </label>
  );
}

// A row of tabs, by the pattern of WAI-ARIA: arrows move, one of them is in the order of Tab.
export function Tabs<T extends string>({ label, value, choices, onChange }: {
  label: string; value: T; choices: readonly Choice<T>[]; onChange: (value: T) => void;
}) {
  const move = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    const at = choices.findIndex((choice) => choice.value === value);
    const next = choices[(at + by + choices.length) % choices.length];
    if (next) onChange(next.value);
    const list = event.currentTarget as HTMLElement;
    requestAnimationFrame(() => list.querySelector<HTMLElement>("[aria-selected=true]")?.focus());
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {choices.map((choice) => (
        <button
          key={choice.value} type="button" role="tab" aria-selected={choice.value === value} tabIndex={choice.value === value ? 0 : -1}
          onClick={() => onChange(choice.value)}
        >
          {choice.label}
        </button>
      ))}
    </div>
  );
}

// In the column of a table: a long name loses its beginning, never the number.
export function LineCell({ file, line }: { file: string; line: number }) {
  if (!file) return null;
  return <span class="line-cell" title={`${file}:${line}`}><bdi dir="ltr">{lineOf(file, line)}</bdi></span>;
}

// "train.py" of a path, and the end of an op's name.
export const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
export const lineOf = (file: string, line: number): string => (file ? `${baseName(file)}:${line}` : "");

// "backward only" of backward_only.
export const plainTag = (tag: string): string => tag.replaceAll("_", " ");
type TagWords = Readonly<Record<string, { readonly word: string; readonly hint: string }>>;

// The further properties of a finding, as words beside its headline.
export function Tags({ of }: { of: readonly string[] }) {
  const known = words.tags as TagWords;
  return <>{of.map((tag) => <span key={tag} class={`tag ${tag}`} title={known[tag]?.hint}>{known[tag]?.word ?? plainTag(tag)}</span>)}</>;
}
