// What the server works on: progress, the command that gives the same answer, the result.
import { useEffect, useState } from "preact/hooks";
import type { Job, Jobs as Document } from "../api.ts";
import { isOver } from "../jobs.ts";
import { Save, saveJobFile } from "../parts/save.tsx";
import { Card, Copy, Empty, Problem } from "../parts/ui.tsx";
import { notice, source } from "../state.ts";
import { words } from "../words.ts";

const EVERY_MS = 1000;

export function Jobs() {
  const [jobs, setJobs] = useState<readonly Job[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [shown, setShown] = useState<Job | null>(null);
  const read = async (): Promise<void> => {
    try {
      setJobs((await source.value?.json<Document>("jobs"))?.jobs ?? []);
      setError(null);
    } catch (problem) {
      notice(problem);
      setError(problem as Error);
    }
  };
  useEffect(() => {
    void read();
    const timer = setInterval(() => void read(), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <div class="page jobs">
      <h1>{words.jobs.title}</h1>
      {error && <Problem error={error} />}
      {jobs?.length === 0 && <Empty>{words.jobs.none}</Empty>}
      {jobs && jobs.length > 0 && (
        <Card>
          <div class="scroll-x" tabIndex={0} role="region" aria-label={words.jobs.title}>
          <table class="list-table">
            <thead><tr>{Object.entries(words.jobs.columns).map(([column, name]) => <th key={column} scope="col" class={column === "command" || column === "time" ? `${column}-cell` : ""}>{name}</th>)}<th scope="col"><span class="hidden">{words.jobs.result}</span></th></tr></thead>
            <tbody>
              {jobs.map((job) => (
                <tr key={job.job}>
                  <td>{job.job}</td>
                  <td>{job.kind}</td>
                  <td>{words.jobs.states[job.state]}{job.error && <p class="problem">{job.error}</p>}</td>
                  <td class="command-cell"><code>{job.command}</code></td>
                  <td class="right time-cell">{job.started_us ? (((job.ended_us || Date.now() * 1000) - job.started_us) / 1e6).toFixed(1) : ""}</td>
                  <td class="right">{job.exit_status ?? ""}</td>
                  <td>
                    <span class="buttons">
                      <button type="button" class="small" onClick={() => void source.value?.send("DELETE", `jobs/${job.job}`).then(read, setError)}>
                        {isOver(job) ? words.jobs.forget : words.jobs.cancel}
                      </button>
                      {job.file && <Save label={words.save.save} title={job.file} run={() => saveJobFile(job)} />}
                      {job.state === "done" && (
                        <button type="button" class="small" onClick={() => void source.value?.json<Job>(`jobs/${job.job}`).then(setShown, setError)}>{words.jobs.result}</button>
                      )}
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          </div>
        </Card>
      )}
      {shown && (
        <Card title={`${words.jobs.result} ${shown.job}`} extra={<Copy text={JSON.stringify(shown.result, null, 2)} small />}>
          <pre class="result" tabIndex={0}>{JSON.stringify(shown.result, null, 2)}</pre>
        </Card>
      )}
    </div>
  );
}
