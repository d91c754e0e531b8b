// Watchpoints: the conditions of MindSpore's debugger, over the tensors of the dump. The server judges.
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import type { Condition, WatchDocument } from "../answers.ts";
import type { Conditions, Job } from "../api.ts";
import { isOver, runJob } from "../jobs.ts";
import { formatNumber } from "../numbers.ts";
import { Await, baseName, Card, Empty, Problem, Select } from "../parts/ui.tsx";
import { dump, exactly, params, useJson } from "../state.ts";
import { words } from "../words.ts";
import { Headroom } from "./headroom.tsx";
import { Hits, sentenceOf } from "./watch_hits.tsx";

type Chosen = Record<string, Record<string, string>>;
const CATEGORIES = ["", "tensor", "weight", "gradient", "activation"] as const;
// The last check of each dump: it is there again when a person comes back from an operator.
const checks = signal<ReadonlyMap<number, Job>>(new Map());

export function Watch() {
  const conditions = useJson<Conditions>("conditions");
  const [chosen, setChosen] = useState<Chosen>({});
  const [recommended, setRecommended] = useState(true);
  const [op, setOp] = useState("");
  const [line, setLine] = useState(params.value.source ?? "");
  const [category, setCategory] = useState<(typeof CATEGORIES)[number]>("");
  const of = dump.value;
  const job = checks.value.get(of) ?? null;
  const setJob = (next: Job): void => void (checks.value = new Map([...checks.value, [of, next]]));
  const [error, setError] = useState<Error | null>(null);
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    setError(null);
    const names = Object.entries(chosen).map(([id, values]) => {
      const set = Object.entries(values).filter(([, value]) => value !== "");
      return set.length ? `${id}:${set.map(([name, value]) => `${name}=${value}`).join(",")}` : id;
    });
    if (!names.length && !recommended) {
      setError(new Error(words.watch.needed));
      return;
    }
    try {
      const done = await runJob("watch", { dump: of, conditions: names, recommended, ...(op ? { op } : {}), ...(line ? { source: line } : {}), ...(category ? { category } : {}) }, setJob);
      if (done.state === "failed") setError(new Error(done.error));
      else setTimeout(() => document.querySelector<HTMLElement>("#hits h2")?.focus()); // below the conditions on a narrow window
    } catch (problem) {
      setError(problem as Error);
    }
  };
  const result = job?.state === "done" ? (job.result as unknown as WatchDocument) : null;
  return (
    <div class="page">
      <h1 class="hidden">{words.watch.title}</h1>
      <div class="two-columns">
        <Card title={words.watch.conditions}>
          <form onSubmit={(event) => void run(event)}>
            <label class="check"><input type="checkbox" checked={recommended} onChange={(event) => setRecommended(event.currentTarget.checked)} /> {words.watch.recommended}</label>
            <div class="toolbar watch-foot">
              <label class="slice"><span>{words.watch.select}</span> <input value={op} placeholder={words.watch.selectHint} onInput={(event) => setOp(event.currentTarget.value)} spellcheck={false} /></label>
              {params.value.op && <button type="button" class="small" title={params.value.op} onClick={() => setOp(exactly(params.value.op ?? ""))}>{words.watch.selected(baseName(params.value.op))}</button>}
              <label class="slice"><span>{words.watch.source}</span> <input value={line} placeholder={words.watch.sourceHint} onInput={(event) => setLine(event.currentTarget.value)} spellcheck={false} /></label>
              <Select label={words.watch.category} value={category} onChange={setCategory} choices={CATEGORIES.map((name) => ({ value: name, label: name || words.watch.any }))} />
              <button type="submit" class="primary" disabled={job !== null && !isOver(job)}>{words.watch.run}</button>
            </div>
            <Await of={conditions}>
              {(value) => (
                <ul class="conditions">
                  {(value.conditions as unknown as readonly Condition[]).map((condition) => (
                    <ConditionRow key={condition.id} of={condition} values={chosen[condition.id]} onChange={(values) => {
                      const next = { ...chosen };
                      if (values) next[condition.id] = values;
                      else delete next[condition.id];
                      setChosen(next);
                    }} />
                  ))}
                </ul>
              )}
            </Await>
          </form>
        </Card>
        <div id="hits">
          {error && <Problem error={error} />}
          {job && !isOver(job) && <p class="empty" role="status">{words.watch.running}</p>}
          {!job && !error && <Empty>{words.watch.hint}</Empty>}
          {result && job && <Hits of={result} command={job.command} />}
        </div>
      </div>
      <Headroom />
    </div>
  );
}

function ConditionRow({ of, values, onChange }: { of: Condition; values: Record<string, string> | undefined; onChange: (values: Record<string, string> | null) => void }) {
  return (
    <li>
      <label class="check condition" title={of.summary}>
        <input type="checkbox" checked={values !== undefined} onChange={(event) => onChange(event.currentTarget.checked ? {} : null)} /> <span>{sentenceOf(of.id, of.summary)} <code>{of.id}</code></span>
      </label>
      {values && (
        <div class="parameters">
          {of.parameters.map((parameter) => (
            <label key={parameter.name}>
              {parameter.name}
              <input inputMode="decimal" value={values[parameter.name] ?? ""} placeholder={parameter.default_value === null ? parameter.values : formatNumber(parameter.default_value)}
                onInput={(event) => onChange({ ...values, [parameter.name]: event.currentTarget.value })} />
            </label>
          ))}
        </div>
      )}
    </li>
  );
}
