// Files that the browser saves: tables, reports.
import { useState } from "preact/hooks";
import type { Job } from "../api.ts";
import { formatCount } from "../numbers.ts";
import type { Query } from "../source/source.ts";
import { notice, report, source, status } from "../state.ts";
import { words } from "../words.ts";

const KEPT_MS = 60_000;

export function saveFile(name: string, parts: readonly ArrayBuffer[]): void {
  const url = URL.createObjectURL(new Blob([...parts], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}

export async function saveJobFile(job: Job): Promise<void> {
  const bytes = await source.value?.bytes(`jobs/${job.job}/file`);
  if (bytes) saveFile(job.file, [bytes]);
}

export function Save({ label, title, run, primary = false }: { label: string; title?: string; run: () => Promise<void>; primary?: boolean }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const save = async (): Promise<void> => {
    setBusy(true);
    setError("");
    try {
      await run();
    } catch (problem) {
      notice(problem);
      setError((problem as Error).message);
    }
    setBusy(false);
  };
  return (
    <>
      <button type="button" class={primary ? "primary" : "small"} title={title} disabled={busy} onClick={() => void save()}>{label}</button>
      {error && <span class="problem" role="alert">{error}</span>}
    </>
  );
}

const TYPES = { csv: "text/csv", arrow: "application/vnd.apache.arrow.stream" } as const;

// A table of the server, with its filter and its order. CSV has all rows; a stream of Arrow as many as the server gives at once.
export function SaveTable({ path, query, count }: { path: string; query: Query; count: number }) {
  const most = status.value?.limits.exported_rows ?? 0;
  if (report.value || !most) return null;
  const save = async (kind: keyof typeof TYPES): Promise<void> => {
    const parts: ArrayBuffer[] = [];
    for (let offset = 0; offset === 0 || (kind === "csv" && offset < count); offset += most) {
      const part = await source.value?.bytes(path, { ...query, offset, limit: most }, undefined, TYPES[kind]);
      if (part) parts.push(offset ? withoutHead(part) : part);
    }
    saveFile(`${path}.${kind}`, parts);
  };
  return (
    <span class="buttons">
      <Save label={words.save.csv} title={words.save.csvHint} run={() => save("csv")} />
      <Save label={words.save.arrow} title={count > most ? words.save.part(formatCount(most)) : words.save.arrowHint} run={() => save("arrow")} />
    </span>
  );
}

// The names of the columns are in the first part alone.
function withoutHead(part: ArrayBuffer): ArrayBuffer {
  return part.slice(new Uint8Array(part).indexOf(10) + 1);
}
