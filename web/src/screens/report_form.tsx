// Makes the report in one file, as a job of the server, and saves it.
import { useState } from "preact/hooks";
import type { Job } from "../api.ts";
import { isOver, runJob } from "../jobs.ts";
import { formatBytes } from "../numbers.ts";
import { saveJobFile } from "../parts/save.tsx";
import { baseName, Command, useSeconds } from "../parts/ui.tsx";
import { dump, graph, notice, params, rank, source, status, step } from "../state.ts";
import { words } from "../words.ts";

// What the screen shows: its step, and the operator that is chosen, with its values.
function seen(): Record<string, unknown> {
  const of = params.value.op;
  const numbered = /^\d+$/.test(rank.value) ? { rank: Number(rank.value) } : {};
  return { steps: String(step.value), graph: graph.value, ...numbered, ...(of ? { select: [of], values: "selected" } : {}) };
}

export function ReportForm() {
  const [job, setJob] = useState<Job | null>(null);
  const [redact, setRedact] = useState(false);
  const [golden, setGolden] = useState(true);
  const [onScreen, setOnScreen] = useState(true);
  const [failed, setFailed] = useState("");
  const runs = job !== null && !isOver(job);
  const seconds = useSeconds(runs);
  const two = (status.value?.dumps.length ?? 0) > 1;
  const make = async (): Promise<void> => {
    setFailed("");
    try {
      const done = await runJob("report", { dump: dump.value, ...(onScreen ? seen() : {}), ...(redact ? { redact } : {}), ...(two && golden ? { golden } : {}) }, setJob);
      if (done.state === "done") await saveJobFile(done);
      else if (done.state === "failed") setFailed(done.error);
    } catch (error) {
      notice(error);
      setFailed((error as Error).message);
    }
  };
  const bytes = (job?.result as { bytes?: number } | null)?.bytes;
  return (
    <>
      <p class="buttons">
        <label class="check"><input type="checkbox" checked={onScreen} onChange={(event) => setOnScreen(event.currentTarget.checked)} /> {words.save.seen(step.value, params.value.op ? baseName(params.value.op) : "")}</label>
        <label class="check"><input type="checkbox" checked={redact} onChange={(event) => setRedact(event.currentTarget.checked)} /> {words.save.redact}</label>
        {two && <label class="check"><input type="checkbox" checked={golden} onChange={(event) => setGolden(event.currentTarget.checked)} /> {words.save.golden}</label>}
      </p>
      <p class="buttons">
        <button type="button" class="primary" disabled={runs} onClick={() => void make()}>{words.save.make}</button>
        {runs && <span class="soft" role="status">{words.save.making(seconds)}</span>}
        {runs && <button type="button" class="small" onClick={() => void source.value?.send("DELETE", `jobs/${job.job}`)}>{words.jobs.cancel}</button>}
        {job?.state === "done" && bytes !== undefined && <span class="soft" role="status">{words.save.made(job.file, formatBytes(bytes))}</span>}
      </p>
      {failed && <p class="problem" role="alert">{failed}</p>}
      <Command text={job?.state === "done" ? job.command : ""} />
    </>
  );
}
