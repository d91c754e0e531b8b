// Where the page's data come from: a server, or chunks in one file. Paths and queries are those of openapi.json.
export type Query = Readonly<Record<string, string | number | undefined>>;

// A table of the server, by columns.
export interface Table {
  count: number; // of all pages
  rows: number;
  generation: number;
  command: string;
  get(column: string, row: number): unknown;
  row<Row>(row: number): Row; // of the columns that are there
}

export interface ServerEvent {
  event: string;
  data: Record<string, unknown>;
}

// Of a report: what it contains, and the command that shows the rest.
export interface ReportContents {
  command: string;
  is_redacted: boolean;
  steps: readonly number[];
  left_out: readonly { what: string; count: number }[];
  slices: Readonly<Record<string, string>>; // of tensors with values: the part that the file has
}

export interface Source {
  readonly report?: ReportContents; // absent: a server answers
  has?(path: string, query: Query): boolean; // absent: a server has everything
  json<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T>;
  table(path: string, query?: Query, signal?: AbortSignal): Promise<Table>;
  bytes(path: string, query?: Query, signal?: AbortSignal, accept?: string): Promise<ArrayBuffer>;
  send<T>(method: "POST" | "DELETE", path: string, body?: unknown): Promise<T>;
  // Ends with the signal, or by an error when the connection is lost.
  events(after: number | null, seen: (event: ServerEvent, id: number) => void, signal: AbortSignal): Promise<void>;
}

// An answer of the server that is an error: its words are the engine's.
export class Refusal extends Error {
  constructor(
    readonly status: number,
    detail: string,
  ) {
    super(detail);
  }
}

// What a report does not contain, and the command that shows it.
export class Lacking extends Refusal {
  constructor(
    readonly command: string,
    detail: string,
  ) {
    super(404, detail);
  }
}

// No answer at all.
export class Unreachable extends Error {}
