// Jobs of the server: start one, wait for its end.
import type { Job, JobRequest } from "./api.ts";
import type { Source } from "./source/source.ts";
import { source } from "./state.ts";

const FIRST_MS = 60;
const MOST_MS = 1000;

export const isOver = (job: Pick<Job, "state">): boolean => job.state !== "waiting" && job.state !== "running";

export async function runJob(kind: JobRequest["kind"], jobArguments: Record<string, unknown>, seen: (job: Job) => void): Promise<Job> {
  const from = source.value;
  if (!from) throw new Error("no server");
  return followJob(from, await from.send<Job>("POST", "jobs", { kind, arguments: jobArguments }), seen);
}

// Also of a job that another page has started.
export async function followJob(from: Source, job: Job, seen: (job: Job) => void = () => undefined): Promise<Job> {
  seen(job);
  for (let wait = FIRST_MS; !isOver(job); wait = Math.min(wait * 1.4, MOST_MS)) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    job = await from.json<Job>(`jobs/${job.job}`);
    seen(job);
  }
  return job;
}
