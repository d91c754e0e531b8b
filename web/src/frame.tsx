// Around every screen: the rail, the bar, and the pane of the selected operator.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Hits } from "./api.ts";
import { keysOff, onKey, setKeysOff, useKeys } from "./keys.ts";
import type { Screen } from "./link.ts";
import { Palette, SCREENS_BY_NAME } from "./palette.tsx";
import { OpLink } from "./parts/op_name.tsx";
import { Await, baseName, Command, Select } from "./parts/ui.tsx";
import { useComparison } from "./screens/comparison.ts";
import { nextBad } from "./screens/ops.tsx";
import { Pane } from "./screens/pane.tsx";
import { ReportForm } from "./screens/report_form.tsx";
import { RequestChoice } from "./screens/requests.tsx";
import type { ReportContents } from "./source/source.ts";
import {
  announced, change, difference, dimensionsOf, dumpStatus, follow, go, graph, graphs, hasGraph, hasSources, hasTables, isUnread, linkTo, offeredSteps, overview, params, rank, ranks, report, route, setFollow, status, step, steps, useJson,
} from "./state.ts";
import { chooseLanguage, type Language, language, LANGUAGES, words } from "./words.ts";

const RAIL: readonly (readonly [Screen, string])[] = [
  ["overview", "M3 11l9-8 9 8v9a1 1 0 0 1-1 1h-5v-6H9v6H4a1 1 0 0 1-1-1z"],
  ["ops", "M3 5h18M3 12h18M3 19h18M9 5v14"],
  ["graph", "M5 3h6v5H5zM13 16h6v5h-6zM4 16h6v5H4zM8 8v8M8 12h8v4"],
  ["compare", "M4 4h6v16H4zM14 4h6v16h-6zM10 9h4M10 15h4"],
  ["watch", "M12 4l9 16H3zM12 10v5M12 17v1"],
  ["source", "M8 6l-5 6 5 6M16 6l5 6-5 6"],
  ["jobs", "M12 3a9 9 0 1 0 9 9M12 7v5l3 2"],
];

const SAID_MS = 1500;

export function Frame({ children }: { children: ComponentChildren }) {
  const [dialog, setDialog] = useState<"search" | "keys" | "report" | null>(null);
  const [said, setSaid] = useState("");
  useLayoutEffect(() => {
    const palette = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      setDialog("search");
    };
    addEventListener("keydown", onKey);
    addEventListener("keydown", palette);
    return () => {
      removeEventListener("keydown", onKey);
      removeEventListener("keydown", palette);
    };
  }, []);
  useKeys({
    "/": () => setDialog("search"),
    "?": () => setDialog("keys"),
    "g o": () => go("overview"), "g t": () => go("ops"), "g g": () => go("graph"), "g c": () => go("compare"),
    "g w": () => go("watch"), "g s": () => go("source"), "g j": () => go("jobs"),
    "[": () => moveStep(-1), "]": () => moveStep(1), "{": () => moveRank(-1), "}": () => moveRank(1),
    n: () => void nextBad(1), N: () => void nextBad(-1), p: () => params.value.op && go("graph", { path: "cause" }),
    v: () => document.querySelector<HTMLElement>("main [role=tab][aria-selected=true]")?.focus(),
    c: () => copyCommand(),
    y: () => copyLink(),
    ".": () => setFollow(!follow.value),
    Enter: () => (params.value.op ? go("op") : openFinding()),
    Escape: () => route.value.screen !== "op" && change({ op: undefined, t: undefined }),
  });
  // A dialog says that it is closed a moment later, when a key may have opened another one.
  const close = (name: typeof dialog) => (): void => setDialog((now) => (now === name ? null : now));
  const copied = (text: string, note: string): void => {
    if (!text) return;
    void navigator.clipboard.writeText(text).then(() => {
      setSaid(note);
      setTimeout(() => setSaid(""), SAID_MS);
    });
  };
  const copyCommand = (): void => copied(document.querySelector("main .command code")?.textContent ?? "", words.keys.copiedCommand);
  const copyLink = (): void => copied(location.href, words.keys.copiedLink);
  const actions = [
    { name: words.search.nextBad, run: () => void nextBad(1) }, { name: words.search.previousBad, run: () => void nextBad(-1) },
    { name: words.search.copyCommand, run: copyCommand }, { name: words.search.copyLink, run: copyLink },
    ...(report.value ? [] : [{ name: words.save.report, run: () => setDialog("report") }]), { name: words.search.print, run: () => print() }, { name: words.keys.title, run: () => setDialog("keys") },
  ];
  const screen = route.value.screen;
  const compared = useComparison((status.value?.dumps.length ?? 0) > 1 && !isUnread.value).value;
  useLayoutEffect(() => void (difference.value = compared?.findings[0] ?? null), [compared]);
  useHeadingFocus(screen);
  // A path and two graphs need the room, and say themselves what is chosen.
  const isWide = (screen === "graph" && params.value.path) || (screen === "compare" && params.value.view === "graphs");
  const hasPane = screen !== "op" && params.value.op && !isWide;
  return (
    <div class={`frame${hasPane ? " with-pane" : ""}`}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>{words.skip}</a>
      <nav class="rail" aria-label={words.rail}>
        <a class="brand" href={linkTo("overview")} aria-hidden="true" tabIndex={-1}>{words.product}</a>
        <ul>
          {RAIL.filter(([name]) => hasScreen(name)).map(([name, path]) => (
            <li key={name}>
              <a href={linkTo(name)} aria-current={name === screen || (name === "ops" && screen === "op") ? "page" : undefined}>
                <svg viewBox="0 0 24 24" aria-hidden="true"><path d={path} /></svg>
                <span>{words.screens[name]}</span>
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <Bar onReport={() => setDialog("report")} onSearch={() => setDialog("search")} onKeys={() => setDialog("keys")} />
      <main id="main" tabIndex={-1} class={`screen-${screen}`}>{children}</main>
      {hasPane && <Pane />}
      <p class={`toast${said ? "" : " hidden"}`} role="status">{said}</p>
      <p class="hidden announced" role="status">{announced.value}</p>
      {dialog === "search" && <Palette screens={SCREENS_BY_NAME.filter(hasScreen)} actions={actions} onClose={close("search")} />}
      {dialog === "report" && (
        <Dialog title={words.save.report} onClose={close("report")}>
          <h2 tabIndex={-1}>{words.save.report}</h2>
          <p class="soft">{words.save.reportHint}</p>
          <ReportForm />
          <div class="buttons"><button type="button" onClick={close("report")}>{words.keys.close}</button></div>
        </Dialog>
      )}
      {dialog === "keys" && <Keys onClose={close("keys")} />}
    </div>
  );
}

const HEADING_TRIES = 20;
const HEADING_MS = 100;

// After a change of the screen its heading has the focus, as soon as it is there: the next Tab begins in the new screen.
function useHeadingFocus(screen: Screen): void {
  const shown = useRef(screen);
  useEffect(() => {
    if (shown.current === screen) return undefined;
    shown.current = screen;
    let tries = 0;
    const main = document.getElementById("main");
    main?.focus({ preventScroll: true });
    const timer = setInterval(() => {
      const heading = main?.querySelector<HTMLElement>("h1") ?? null;
      tries += 1;
      if (document.activeElement !== main && document.activeElement !== document.body) clearInterval(timer); // a person has gone elsewhere
      else if (heading) {
        heading.tabIndex = -1;
        heading.focus({ preventScroll: true });
        clearInterval(timer);
      } else if (tries >= HEADING_TRIES) clearInterval(timer);
    }, HEADING_MS);
    return () => clearInterval(timer);
  }, [screen]);
}

// A report starts no job and has some screens only; one dump is compared with nothing.
function hasScreen(name: Screen): boolean {
  if (name === "compare") return (status.value?.dumps.length ?? 0) > 1;
  if (name === "graph") return hasGraph();
  if (name === "ops") return hasTables();
  if (name === "source") return hasSources();
  return !report.value || (name !== "watch" && name !== "jobs");
}

function moveStep(by: number): void {
  const all = offeredSteps.value;
  const next = all[by < 0 ? all.findLastIndex((number) => number < step.value) : all.findIndex((number) => number > step.value)];
  if (next !== undefined) change({ s: next });
}

function moveRank(by: number): void {
  const next = ranks.value[ranks.value.indexOf(rank.value) + by];
  if (next !== undefined) change({ r: next });
}

// Of several ranks those that have not ended the recording themselves.
function cutRanks(): string {
  const cut = overview.value?.ranks.filter(({ runs }) => runs.at(-1)?.finished === false).map((one) => one.rank) ?? [];
  return ranks.value.length > 1 && cut.length > 0 && cut.length < ranks.value.length ? words.bar.cutRanks(cut.slice(0, MOST_NAMED).join(", ") + (cut.length > MOST_NAMED ? ", …" : "")) : "";
}

const MOST_NAMED = 3;

function Bar({ onReport, onSearch, onKeys }: { onReport: () => void; onSearch: () => void; onKeys: () => void }) {
  const dumps = status.value?.dumps ?? [];
  const now = dumpStatus.value;
  return (
    <header class="bar">
      {dumps.length > 1 ? (
        <Select label={words.bar.dump} hideLabel value={String(now?.dump ?? 0)} onChange={(d) => change({ d, s: undefined, op: undefined })}
          choices={dumps.map((dump) => ({ value: String(dump.dump), label: `${dump.role}: ${dump.name}` }))} />
      ) : (
        <strong class="dump-name" title={now?.path}>{now?.name ?? words.product}</strong>
      )}
      {now?.state === "live" && (
        <span class="badge live">
          {words.bar.live(steps.value.at(-1) ?? "–")}
          <label><input type="checkbox" checked={follow.value} onChange={(event) => setFollow(event.currentTarget.checked)} /> {words.bar.follow}</label>
        </span>
      )}
      {now?.first_nan && !steps.value.includes(now.first_nan.step) && (
        <span class="badge killed" title={words.bar.firstNan(now.first_nan.step, now.first_nan.op_name)}>
          {words.bar.firstNan(now.first_nan.step, now.first_nan.op_name.slice(now.first_nan.op_name.lastIndexOf("/") + 1))}
        </span>
      )}
      {(now?.ended === "killed" || now?.ended === "stopped") && <span class="badge killed">{[cutRanks(), words.bar.ended[now.ended]].filter(Boolean).join(" ")}</span>}
      {ranks.value.length > 1 && (
        <Select label={words.bar.rank} value={rank.value} choices={ranks.value.map((value) => ({ value, label: [value, dimensionsOf(value)].filter(Boolean).join(" · ") }))} onChange={(r) => change({ r })} />
      )}
      {graphs.value.length > 1 && (
        <Select label={words.bar.graph} value={String(graph.value)} onChange={(g) => change({ g, s: undefined })}
          choices={graphs.value.map((value) => ({ value: String(value), label: value === 0 ? words.bar.training : `${value} ${words.bar.evaluation}` }))} />
      )}
      <RequestChoice />
      {steps.value.length > 0 && (
        <span class="stepper">
          <button type="button" aria-label={words.bar.previousStep} disabled={!offeredSteps.value.some((number) => number < step.value)} onClick={() => moveStep(-1)}>‹</button>
          <Select label={words.bar.step} value={String(step.value)} onChange={(s) => change({ s })}
            choices={(offeredSteps.value.includes(step.value) ? offeredSteps.value : [...offeredSteps.value, step.value].sort((a, b) => a - b)).map((value) => ({ value: String(value), label: String(value) }))} />
          <button type="button" aria-label={words.bar.nextStep} disabled={!offeredSteps.value.some((number) => number > step.value)} onClick={() => moveStep(1)}>›</button>
        </span>
      )}
      {report.value && <ReportBadge of={report.value} />}
      <span class="spring" />
      {!report.value && now && now.state !== "indexing" && <button type="button" class="bar-report" onClick={onReport} title={words.save.reportHint}>{words.report.badge}</button>}
      <button type="button" class="search-button" onClick={onSearch}>{words.bar.search} <kbd>/</kbd></button>
      <button type="button" aria-label={words.bar.keys} onClick={onKeys}><kbd>?</kbd></button>
    </header>
  );
}

function ReportBadge({ of }: { of: ReportContents }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="small" onClick={() => setOpen(true)}>{words.report.badge}</button>
      {open && (
        <Dialog title={words.report.about} onClose={() => setOpen(false)}>
          <h2 tabIndex={-1}>{words.report.about}</h2>
          <ReportFacts of={of} />
          <div class="buttons"><button type="button" onClick={() => setOpen(false)}>{words.keys.close}</button></div>
        </Dialog>
      )}
    </>
  );
}

// What a report has, and what it lacks: also on its overview, and so on paper.
export function ReportFacts({ of }: { of: ReportContents }) {
  return (
    <>
      <p>{words.report.steps}: {of.steps.join(", ")}</p>
      {of.is_redacted && <p>{words.report.redacted}</p>}
      {of.left_out.length > 0 && (
        <>
          <p>{words.report.leftOut}:</p>
          <ul class="plain-list">{of.left_out.map(({ what, count }) => <li key={what}>{what}: {count}</li>)}</ul>
        </>
      )}
      <p>{words.report.never}</p>
      <p>{words.report.more}</p>
      <Command text={of.command} />
    </>
  );
}

export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  // Before the next key is read: the first letters of a search belong to its field.
  useLayoutEffect(() => {
    ref.current?.showModal();
    if (!document.activeElement?.closest("input")) ref.current?.querySelector("h2")?.focus(); // its beginning, not its first button
  }, []);
  return (
    <dialog ref={ref} aria-label={title} onClose={onClose} onClick={(event) => event.target === ref.current && ref.current?.close()}>
      <div class="dialog">{children}</div>
    </dialog>
  );
}

function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={words.keys.title} onClose={onClose}>
      <h2 tabIndex={-1}>{words.keys.title}</h2>
      <dl class="keys">
        {words.keys.list.map(([key, text]) => (
          <div key={key}><dt>{key.split(" ").map((part) => <kbd key={part}>{part}</kbd>)}</dt><dd>{text}</dd></div>
        ))}
      </dl>
      <div class="buttons">
        {(Object.keys(LANGUAGES) as Language[]).filter((name) => name !== language).map((name) => (
          <button key={name} type="button" lang={name} aria-label={`${words.keys.language}: ${LANGUAGES[name]}`} onClick={() => chooseLanguage(name)}>{LANGUAGES[name]}</button>
        ))}
        <button type="button" onClick={() => setKeysOff(!keysOff.value)}>{keysOff.value ? words.keys.on : words.keys.off}</button>
        <button type="button" onClick={onClose}>{words.keys.close}</button>
      </div>
    </Dialog>
  );
}

// What the first card of the overview, or of the comparison, leads to.
function openFinding(): void {
  document.querySelector<HTMLAnchorElement>("main .verdict .button.primary")?.click();
}

// For a name that the dump does not have: what it has of that name.
export function Suggestions({ name }: { name: string }) {
  const own = baseName(name).replace(/-op\d+$/, "");
  const hits = useJson<Hits>("search", { q: own, limit: 20 });
  return (
    <Await of={hits}>
      {(found) => (
        <ul class="plain-list">
          {found.hits.length === 0 && <li class="empty">{words.search.none}</li>}
          {found.hits.filter((hit) => hit.kind === "op").map((hit) => (
            <li key={hit.name}><OpLink name={hit.name} patch={{ s: hit.step }} /></li>
          ))}
        </ul>
      )}
    </Await>
  );
}
