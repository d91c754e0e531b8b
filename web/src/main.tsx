// Starts the page: the token, the state of the server, and then its changes.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Job } from "./api.ts";
import { Frame } from "./frame.tsx";
import { isOver } from "./jobs.ts";
import { Card, Empty, useSlow } from "./parts/ui.tsx";
import { Compare } from "./screens/compare.tsx";
import { Graph } from "./screens/graph.tsx";
import { Jobs } from "./screens/jobs.tsx";
import { Op } from "./screens/op.tsx";
import { Ops } from "./screens/ops.tsx";
import { Overview, watchTitle } from "./screens/overview.tsx";
import { Source } from "./screens/source.tsx";
import { Watch } from "./screens/watch.tsx";
import { EmbeddedSource } from "./source/embedded.ts";
import { SharedEvents } from "./source/events.ts";
import { HttpSource } from "./source/http.ts";
import { answerOtherTabs, findToken, keepToken } from "./source/token.ts";
import { connected, dump, dumpStatus, faults, forget, isUnread, linkWithoutFaults, notice, refresh, route, source, status, tokenRefused } from "./state.ts";
import { language, words } from "./words.ts";
import { useWorker } from "./worker.ts";
import "./style.css";

const RETRY_MS = 2000;
const MOST_SHOWN = 80; // letters of a wrong word
const SCREENS = { overview: Overview, ops: Ops, op: Op, graph: Graph, compare: Compare, watch: Watch, source: Source, jobs: Jobs };

function App() {
  const slow = useSlow(!status.value && connected.value);
  if (tokenRefused.value) return <TokenForm />;
  if (!status.value) {
    if (!connected.value) return <div class="token"><h1>{words.states.lostTitle}</h1><p>{words.states.lost}</p></div>;
    return slow ? <div class="token"><Empty>{words.states.loading}</Empty></div> : null;
  }
  const Screen = SCREENS[route.value.screen];
  const failed = dumpStatus.value?.error;
  const reading = dumpStatus.value?.progress;
  return (
    <>
      <Frame>
        {failed && <div class="page failed"><Card title={words.states.failed}><p class="problem" role="alert">{failed}</p></Card></div>}
        {isUnread.value && <h1 class="hidden">{words.screens[route.value.screen]}</h1>}
        {(reading || isUnread.value) && <p class="page empty" role="status">{reading ? words.bar.reading(reading.work, reading.done, reading.all) : words.states.loading}</p>}
        {faults.value.length > 0 && <Faults />}
        {dumpStatus.value?.state !== "failed" && !isUnread.value && <Screen />}
      </Frame>
      {!connected.value && <p class="lost" role="alert">{words.states.lost}</p>}
    </>
  );
}

function Faults() {
  return (
    <div class="faults" role="alert">
      {faults.value.map(({ name, found, expected }) => (
        <p key={name} class="problem">{words.address.fault((words.address.parts as Readonly<Record<string, string>>)[name] ?? name, found.slice(0, MOST_SHOWN), expected)}</p>
      ))}
      <a class="button small" href={linkWithoutFaults.value}>{words.address.without}</a>
    </div>
  );
}

function TokenForm() {
  const [text, setText] = useState("");
  const [tried, setTried] = useState(false);
  useEffect(() => document.querySelector<HTMLInputElement>("#token")?.focus(), []);
  const open = async (event: Event): Promise<void> => {
    event.preventDefault();
    const token = text.trim();
    const from = new HttpSource(token);
    try {
      await from.json("status");
    } catch (error) {
      notice(error);
      setTried(true);
      return;
    }
    keepToken(token);
    answerOtherTabs(token);
    source.value = from;
    tokenRefused.value = false;
    await refresh();
  };
  return (
    <main class="token card">
      <h1>{words.token.title}</h1>
      <p>{words.token.text}</p>
      {tried && <p class="problem" role="alert">{words.token.wrong}</p>}
      <form onSubmit={(event) => void open(event)}>
        <input id="token" aria-label={words.token.label} value={text} autocomplete="off" spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} />
        <button type="submit" class="primary">{words.token.open}</button>
      </form>
    </main>
  );
}

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, RETRY_MS));

// Waits for events; a lost connection is tried again. While a dump is being read, the state is asked for.
async function listen(): Promise<void> {
  const events = new SharedEvents({
    seen: ({ event, data }) => {
      if (event === "job" && !isOver(data as Pick<Job, "state">)) return; // it has changed no answer yet
      if (event === "job") forget();
      void refresh();
    },
    connected: () => {
      if (!connected.value) void refresh();
    },
    lost: (error) => {
      if (error) notice(error);
      else void refresh(); // another tab has lost its connection: this one looks for itself
    },
  });
  void watchReading();
  for (;;) {
    await events.listen(() => (tokenRefused.value ? null : source.value), pause);
    await pause();
  }
}

async function watchReading(): Promise<void> {
  for (;;) {
    await pause();
    if (!tokenRefused.value && (!connected.value || status.value?.state === "indexing")) await refresh();
  }
}

async function useEmbeddedWorker(from: EmbeddedSource): Promise<void> {
  useWorker(URL.createObjectURL(new Blob([await from.bytes("worker.js")], { type: "text/javascript" })));
}

async function start(): Promise<void> {
  const embedded = await EmbeddedSource.find();
  if (embedded) await useEmbeddedWorker(embedded);
  const token = embedded ? "" : await findToken();
  source.value = embedded ?? new HttpSource(token);
  if (token) answerOtherTabs(token);
  document.documentElement.lang = language;
  watchTitle();
  dump.subscribe(() => void refresh());
  render(<App />, document.getElementById("page") as HTMLElement);
  if (!embedded) await listen();
}

void start();
