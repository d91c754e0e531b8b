// The data of a server. Addresses are relative, so the page works behind a proxy below any path.
import { tableFromIPC } from "@uwdata/flechette";
import type { Query, ServerEvent, Source, Table } from "./source.ts";
import { Refusal, Unreachable } from "./source.ts";

const ARROW = "application/vnd.apache.arrow.stream";

export class HttpSource implements Source {
  constructor(
    private readonly token: string,
    private readonly base = "api/v1/",
  ) {}

  async json<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
    return (await this.ask("GET", path, query, signal)).json() as Promise<T>;
  }

  async table(path: string, query?: Query, signal?: AbortSignal): Promise<Table> {
    const answer = await this.ask("GET", path, query, signal, ARROW);
    if (answer.headers.get("Content-Type")?.startsWith(ARROW)) {
      return arrowTable(
        await answer.arrayBuffer(),
        Number(answer.headers.get("Sonde-Count") ?? NaN),
        Number(answer.headers.get("Sonde-Generation") ?? 0),
      );
    }
    return rowTable((await answer.json()) as RowDocument);
  }

  async bytes(path: string, query?: Query, signal?: AbortSignal, accept = "*/*"): Promise<ArrayBuffer> {
    return (await this.ask("GET", path, query, signal, accept)).arrayBuffer();
  }

  async send<T>(method: "POST" | "DELETE", path: string, body?: unknown): Promise<T> {
    return (await this.ask(method, path, undefined, undefined, "application/json", body)).json() as Promise<T>;
  }

  async events(after: number | null, seen: (event: ServerEvent, id: number) => void, signal: AbortSignal): Promise<void> {
    const answer = await this.ask("GET", "events", after === null ? {} : { after }, signal, "text/event-stream");
    const reader = (answer.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value.replaceAll("\r", "")).split("\n\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const parsed = parseEvent(part);
        if (parsed) seen(parsed.event, parsed.id);
      }
    }
  }

  private async ask(
    method: string, path: string, query: Query | undefined, signal: AbortSignal | undefined, accept = "application/json", body?: unknown,
  ): Promise<Response> {
    const headers: Record<string, string> = { Accept: accept, Authorization: `Bearer ${this.token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let answer: Response;
    try {
      answer = await fetch(`${this.base}${path}${formatQuery(query)}`, {
        method, headers, signal: signal ?? null, body: body === undefined ? null : JSON.stringify(body), cache: "no-store", credentials: "omit",
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new Unreachable(String(error));
    }
    if (answer.ok) return answer;
    const problem = (await answer.json().catch(() => null)) as { title?: string; detail?: string } | null;
    throw new Refusal(answer.status, problem?.detail || problem?.title || `${answer.status} ${answer.statusText}`);
  }
}

export function formatQuery(query: Query | undefined): string {
  const values = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== "") values.set(name, String(value));
  }
  const text = values.toString();
  return text && `?${text}`;
}

export function parseEvent(text: string): { event: ServerEvent; id: number } | null {
  let event = "message";
  let id = 0;
  let data = "";
  for (const line of text.split("\n")) {
    const [name = "", value = ""] = [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()];
    if (name === "event") event = value;
    else if (name === "id") id = Number(value);
    else if (name === "data") data += value;
  }
  if (!data) return null;
  return { event: { event, data: JSON.parse(data) as Record<string, unknown> }, id };
}

export interface RowDocument {
  count: number;
  generation: number;
  command?: string;
  rows: readonly Record<string, unknown>[];
}

export function rowTable({ count, generation, command = "", rows }: RowDocument): Table {
  return { count, generation, command, rows: rows.length, get: (column, row) => rows[row]?.[column], row: <Row>(row: number) => rows[row] as Row };
}

export function arrowTable(bytes: ArrayBuffer, count: number, generation: number): Table {
  const table = tableFromIPC(new Uint8Array(bytes), { useBigInt: false });
  const columns = new Map(table.names.map((name) => [String(name), table.getChild(name)]));
  return {
    count: Number.isNaN(count) ? table.numRows : count,
    generation,
    command: "",
    rows: table.numRows,
    get: (column, row) => columns.get(column)?.at(row),
    row: <Row>(row: number) => Object.fromEntries([...columns].map(([name, column]) => [name, column?.at(row)])) as Row,
  };
}
