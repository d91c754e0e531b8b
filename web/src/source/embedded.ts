// The data of a report: answers inside this file, in compressed pieces that are read when they are needed. What it does not
// contain is a refusal that names the command of the server.
import { words } from "../words.ts";
import { arrowTable, type RowDocument, rowTable } from "./http.ts";
import { filterRows, sortRows } from "./rows.ts";
import type { Query, ReportContents, ServerEvent, Source, Table } from "./source.ts";
import { Lacking } from "./source.ts";

const CONTENTS = "sonde-contents";
const MOST_PIECES = 12;

interface Contents {
  about: ReportContents;
  piece_bytes: number;
  answers: Record<string, [type: string, offset: number, length: number]>;
}

export class EmbeddedSource implements Source {
  readonly report: ReportContents;
  private readonly pieces = new Map<number, Promise<Uint8Array>>();

  private constructor(private readonly contents: Contents) {
    this.report = contents.about;
  }

  // Null: the page is not a report.
  static async find(): Promise<EmbeddedSource | null> {
    if (!document.getElementById(CONTENTS)) return null;
    return new EmbeddedSource(JSON.parse(new TextDecoder().decode(await unpack(CONTENTS))) as Contents);
  }

  has(path: string, query: Query): boolean {
    return Object.hasOwn(this.contents.answers, answerKey(path, query));
  }

  async json<T>(path: string, query: Query = {}): Promise<T> {
    if (path === "ops" || path === "tensors") return (await this.rows(path, query)) as T;
    if (path === "search") return (await this.search(query)) as T;
    return (await this.document(path, query)) as T;
  }

  async table(path: string, query: Query = {}): Promise<Table> {
    const type = this.contents.answers[answerKey(path, query)]?.[0] ?? "";
    if (type.includes("arrow")) return arrowTable(await this.bytes(path, query), NaN, 1);
    return rowTable(await this.json<RowDocument>(path, query));
  }

  async bytes(path: string, query: Query = {}): Promise<ArrayBuffer> {
    const found = this.contents.answers[answerKey(path, query)];
    if (!found) throw this.lacks();
    const [, offset, length] = found;
    const size = this.contents.piece_bytes;
    const out = new Uint8Array(length);
    for (let at = 0; at < length; ) {
      const place = offset + at;
      const piece = await this.piece(Math.floor(place / size));
      const part = piece.subarray(place % size, (place % size) + length - at);
      out.set(part, at);
      at += part.length;
    }
    return out.buffer;
  }

  // The file has the job that names the next configuration, and no other one can be started.
  async send<T>(method: "POST" | "DELETE", path: string, body?: unknown): Promise<T> {
    const kind = (body as { kind?: string } | undefined)?.kind;
    if (method === "POST" && path === "jobs" && kind) return (await this.document(`jobs/${kind}`, {})) as T;
    throw this.lacks();
  }

  // Nothing happens to a file.
  events(_after: number | null, _seen: (event: ServerEvent, id: number) => void, signal: AbortSignal): Promise<void> {
    return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
  }

  lacks(): Lacking {
    return new Lacking(this.report.command, words.report.lacks(this.report.command));
  }

  private async document(path: string, query: Query): Promise<unknown> {
    return JSON.parse(new TextDecoder().decode(await this.bytes(path, query)));
  }

  private piece(number: number): Promise<Uint8Array> {
    const known = this.pieces.get(number);
    if (known) return known;
    const read = unpack(`sonde-piece-${number}`);
    this.pieces.set(number, read);
    const oldest = this.pieces.keys().next();
    if (this.pieces.size > MOST_PIECES && !oldest.done) this.pieces.delete(oldest.value);
    return read;
  }

  // A page of a table: all rows of a step are in the file, and the page sorts and filters them itself.
  private async rows(path: string, query: Query): Promise<RowDocument> {
    const { filter, sort, offset, limit, columns: _columns, ...place } = query;
    const all = (await this.document(path, place)) as RowDocument;
    const chosen = filterRows(all.rows, String(filter ?? ""));
    if (!chosen) throw this.lacks();
    const sorted = sortRows(chosen, String(sort ?? ""));
    const first = Number(offset ?? 0);
    const plain = !filter && !sort ? (all.command ?? "") : "";
    return { ...all, command: plain, count: sorted.length, rows: sorted.slice(first, first + Number(limit ?? 200)) };
  }

  // Operators of the steps that the file has.
  private async search(query: Query): Promise<unknown> {
    const text = String(query.q ?? "").toLowerCase();
    const limit = Number(query.limit ?? 50);
    const hits = new Map<string, { kind: "op"; name: string; count: number; step: number }>();
    for (const key of Object.keys(this.contents.answers)) {
      if (!key.startsWith("ops?")) continue;
      const { rows } = (await this.document("ops", queryOf(key))) as RowDocument;
      for (const row of rows) {
        const name = String(row.op_name);
        if (!name.toLowerCase().includes(text)) continue;
        const hit = hits.get(name);
        if (hit) hit.count += 1;
        else hits.set(name, { kind: "op", name, count: 1, step: Number(row.step) });
      }
    }
    return { generation: 1, hits: [...hits.values()].slice(0, limit), truncated: hits.size > limit };
  }
}

// As answer_key in src/face/server/html_file.cpp.
export function answerKey(path: string, query: Query): string {
  const parts = Object.entries(query)
    .filter(([name, value]) => value !== undefined && value !== "" && !(name === "dump" && Number(value) === 0))
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return `${path}?${parts.sort().join("&")}`;
}

function queryOf(key: string): Query {
  return Object.fromEntries(new URLSearchParams(key.slice(key.indexOf("?") + 1).replaceAll("+", "%2B")));
}

async function unpack(id: string): Promise<Uint8Array> {
  const text = atob(document.getElementById(id)?.textContent ?? "");
  const packed = Uint8Array.from(text, (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
