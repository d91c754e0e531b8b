// A table of any number of rows: rows are fetched by pages, and only those on the screen are in the document.
import { signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useKeys } from "../keys.ts";
import { isPrinted, PAPER } from "../print.ts";
import { PAGE_ROWS, positionOf, ROW_HEIGHT, rowsAt, scrollHeight } from "../scroll.ts";
import { formatCount } from "../numbers.ts";
import { notice } from "../state.ts";
import { words } from "../words.ts";
import { Problem } from "./ui.tsx";

export interface Column<Row> {
  name: string;
  label: string;
  hint?: string;
  width: number; // px
  grows?: boolean | number; // takes the room that the others leave; a number: so large a part of it, beside 1 of the others
  right?: boolean;
  heat?: boolean; // where it sorts the table, the size of its numbers is behind them
  narrow?: boolean; // its title is for readers of the screen alone
  sortable?: boolean;
  show: (row: Row, at: number) => ComponentChildren; // at: the number of the row
  merged?: (row: Row) => number; // columns that this cell takes, with those after it
  background?: (row: Row) => string | undefined;
}

// Columns by the members of their rows, or by those of `Named`.
export function columnsOf<Row, Named = Row>(columns: { readonly [Name in keyof Named]?: Omit<Column<Row>, "name"> }): readonly Column<Row>[] {
  return Object.entries<Omit<Column<Row>, "name"> | undefined>(columns).flatMap(([name, column]) => (column ? [{ name, ...column }] : []));
}

export interface Page<Row> {
  count: number;
  rows: readonly Row[];
}

export interface GridProps<Row> {
  label: string;
  name: string; // of the query: another one begins at the top
  columns: readonly Column<Row>[];
  fetch: (offset: number, limit: number, signal: AbortSignal) => Promise<Page<Row>>;
  sort: string; // "-nan_count": the largest first
  onSort: (sort: string) => void;
  onOpen: (row: Row) => void;
  onSelect?: (row: Row) => void;
  onCount?: (count: number) => void;
  onRows?: (rows: readonly Row[]) => void;
  selected?: (row: Row) => boolean;
  empty: ComponentChildren;
}

const [GAP, MARGIN] = [6, 10]; // of .grid-row
// Paper has no scroll bar: there the rows that were read are printed from the first on, and how many are left out is said.
const MOST_PRINTED = 500;

const LEAST_WIDTH = 24;
const KEY_STEP = 16; // of Shift with an arrow, on the title of a column

// Widths that a person has drawn, by table and column; they stay while the page is open.
const chosenWidths = signal<ReadonlyMap<string, number>>(new Map());
const widthKey = (table: string, column: string): string => `${table} ${column}`;

export function Grid<Row>(props: GridProps<Row>) {
  const { columns } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const scrollTop = useSignal(0);
  const height = useSignal(400);
  const active = useSignal(0);
  const { count, error, rowAt, want } = usePages(props);
  // The row that Enter asked for while its page was on the way; it opens when it is there.
  const awaited = useRef<number | null>(null);
  useEffect(() => {
    const row = awaited.current === null ? undefined : rowAt(awaited.current);
    if (row === undefined) return;
    awaited.current = null;
    props.onOpen(row);
  });
  useEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => (height.value = element.clientHeight - ROW_HEIGHT));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    scroller.current?.scrollTo({ top: 0 });
    active.value = 0;
    awaited.current = null;
  }, [props.name]);
  const total = count ?? 0;
  const view = isPrinted.value ? { first: 0, count: printedRows(total, rowAt), top: 0 } : rowsAt(scrollTop.value, height.value, total);
  if (!isPrinted.value) want(view.first, view.count);
  const widths = columns.map((column) => chosenWidths.value.get(widthKey(props.label, column.name)) ?? column.width);
  const template = columns.map((column, i) => (column.grows && !chosenWidths.value.has(widthKey(props.label, column.name)) ? `minmax(${widths[i]}px, ${Number(column.grows)}fr)` : `${widths[i]}px`)).join(" ");
  const least = widths.reduce((sum, width) => sum + width + GAP, 2 * MARGIN - GAP);

  const moveTo = (row: number): void => {
    active.value = Math.min(Math.max(row, 0), total - 1);
    awaited.current = null;
    const element = scroller.current;
    if (!element || !total) return;
    element.scrollTop = positionOf(active.value, element.scrollTop, height.value, total);
    const known = rowAt(active.value);
    if (known) props.onSelect?.(known);
  };
  const key = (event: KeyboardEvent): void => {
    const page = Math.floor(height.value / ROW_HEIGHT);
    const moves: Record<string, number> = {
      ArrowDown: active.value + 1, ArrowUp: active.value - 1, j: active.value + 1, k: active.value - 1, PageDown: active.value + page,
      PageUp: active.value - page, Home: 0, End: total - 1,
    };
    const next = moves[event.key];
    if (next !== undefined) moveTo(next);
    else if (event.key === "Enter") {
      const row = rowAt(active.value);
      if (row) props.onOpen(row);
      else awaited.current = active.value;
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  // From then on the arrows and Enter are those of the table.
  const moveFrom = (by: number) => (): void => {
    scroller.current?.focus();
    moveTo(active.value + by);
  };
  useKeys({ j: moveFrom(1), k: moveFrom(-1) });
  if (error) return <Problem error={error} />;
  const rows: ComponentChildren[] = [];
  for (let i = view.first; i < view.first + view.count; i += 1) {
    const row = rowAt(i);
    const chosen = row !== undefined && (props.selected?.(row) ?? false);
    rows.push(
      <div
        key={i} role="row" aria-rowindex={i + 2} aria-selected={chosen} id={`row-${i}`}
        class={`grid-row${i === active.value ? " active" : ""}${chosen ? " chosen" : ""}`} style={{ gridTemplateColumns: template }}
        onClick={() => {
          active.value = i;
          if (row) props.onSelect?.(row);
        }}
        onDblClick={() => row && props.onOpen(row)}
      >
        {columns.filter((_, at) => row === undefined || !columns.some((before, from) => from < at && at < from + (before.merged?.(row) ?? 1))).map((column) => {
          const wide = (row !== undefined && column.merged?.(row)) || 1;
          const content = row === undefined ? "…" : column.show(row, i);
          return (
            <div
              key={column.name} role="gridcell" class={alignment(columns, column, wide)} aria-colspan={wide > 1 ? wide : undefined}
              title={typeof content === "string" && content ? content : undefined}
              style={{ background: (row && column.background?.(row)) || "", gridColumn: wide > 1 ? `span ${wide}` : "" }}
            >
              {content}
            </div>
          );
        })}
      </div>,
    );
  }
  return (
    <div
      class="grid" ref={scroller} role="grid" aria-label={props.label} aria-rowcount={total + 1} tabIndex={0}
      aria-activedescendant={total ? `row-${active.value}` : undefined} onKeyDown={key}
      onScroll={(event) => (scrollTop.value = event.currentTarget.scrollTop)}
    >
      <div class="grid-wide" style={{ minWidth: `${least}px`, zoom: isPrinted.value ? Math.min(1, PAPER / least) : undefined }}>
        <div role="row" class="grid-head" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
          {columns.map((column) => (
            <Head key={column.name} table={props.label} column={column} align={alignment(columns, column, 1)} sort={props.sort} onSort={props.onSort} />
          ))}
        </div>
        {count === 0 && <div role="row"><div role="gridcell">{props.empty}</div></div>}
        <div role="presentation" style={isPrinted.value ? {} : { height: `${scrollHeight(total)}px`, position: "relative" }}>
          <div role="presentation" style={isPrinted.value ? {} : { position: "absolute", insetInline: "0", top: `${view.top}px` }}>{rows}</div>
        </div>
        {isPrinted.value && view.count < total && <div role="row"><div role="gridcell">{words.map.more(formatCount(total - view.count))}</div></div>}
      </div>
    </div>
  );
}

function printedRows(total: number, rowAt: (row: number) => unknown): number {
  let count = 0;
  while (count < Math.min(total, MOST_PRINTED) && rowAt(count) !== undefined) count += 1;
  return count;
}

// Numbers are at the right; what comes after them keeps away.
function alignment<Row>(columns: readonly Column<Row>[], column: Column<Row>, wide: number): string {
  if (column.right && wide === 1) return "right";
  return columns[columns.indexOf(column) - 1]?.right ? "after-number" : "";
}

function Head<Row>({ table, column, align, sort, onSort }: { table: string; column: Column<Row>; align: string; sort: string; onSort: (sort: string) => void }) {
  const down = sort === `-${column.name}`;
  const up = sort === column.name;
  const cell = useRef<HTMLDivElement>(null);
  const setWidth = (width: number | null): void => {
    const next = new Map(chosenWidths.value);
    if (width === null) next.delete(widthKey(table, column.name));
    else next.set(widthKey(table, column.name), Math.max(LEAST_WIDTH, Math.round(width)));
    chosenWidths.value = next;
  };
  const widthNow = (): number => cell.current?.getBoundingClientRect().width ?? column.width;
  const key = (event: KeyboardEvent): void => {
    if (!event.shiftKey || (event.key !== "ArrowLeft" && event.key !== "ArrowRight")) return;
    setWidth(widthNow() + (event.key === "ArrowRight" ? KEY_STEP : -KEY_STEP));
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div role="columnheader" ref={cell} aria-sort={down ? "descending" : up ? "ascending" : "none"} class={align} onKeyDown={key}>
      {column.sortable ? (
        <button type="button" class="plain head" title={column.label} onClick={() => onSort(down ? column.name : up ? "" : `-${column.name}`)}>
          <span class={column.narrow ? "hidden" : ""}>{column.label}</span>
          <span aria-hidden="true">{down ? " ↓" : up ? " ↑" : column.narrow ? "◦" : ""}</span>
        </button>
      ) : (
        <span class="head" title={column.hint}>{column.label}</span>
      )}
      <span class="resize" aria-hidden="true" title={words.table.resize} onDblClick={() => setWidth(null)}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          event.preventDefault();
        }}
        onPointerMove={(event) => event.buttons === 1 && setWidth(event.clientX - (cell.current?.getBoundingClientRect().left ?? 0) - GAP / 2)} />
    </div>
  );
}

const MOST_PAGES = 40;

// Pages of the current query. A page that left the screen before it was asked for is not fetched.
function usePages<Row>({ name, fetch, onCount, onRows }: GridProps<Row>) {
  const state = useMemo(
    () => ({ pages: new Map<number, readonly Row[] | null>(), count: signal<number | null>(null), error: signal<Error | null>(null), version: signal(0), abort: new AbortController() }),
    [name],
  );
  useEffect(() => () => state.abort.abort(), [state]);
  const load = (page: number): void => {
    if (state.pages.has(page)) return;
    state.pages.set(page, null);
    fetch(page * PAGE_ROWS, PAGE_ROWS, state.abort.signal).then(
      (answer) => {
        if (state.abort.signal.aborted) return;
        if (state.pages.size > MOST_PAGES) state.pages.clear();
        state.pages.set(page, answer.rows);
        state.count.value = answer.count;
        state.version.value += 1;
        onCount?.(answer.count);
        onRows?.(answer.rows);
      },
      (error: Error) => {
        if (state.abort.signal.aborted) return;
        notice(error);
        state.error.value = error;
      },
    );
  };
  void state.version.value;
  const first = useRef<[number, number]>([0, 1]);
  useEffect(() => {
    // A moment later: a drag of the scroll bar passes over thousands of pages.
    const timer = setTimeout(() => {
      const [start, length] = first.current;
      for (let page = Math.floor(start / PAGE_ROWS); page <= Math.floor((start + Math.max(1, length) - 1) / PAGE_ROWS); page += 1) load(page);
    }, state.pages.size ? 40 : 0);
    return () => clearTimeout(timer);
  });
  return {
    count: state.count.value,
    error: state.error.value,
    rowAt: (row: number): Row | undefined => state.pages.get(Math.floor(row / PAGE_ROWS))?.[row % PAGE_ROWS],
    want: (start: number, length: number): void => {
      first.current = [start, length];
    },
  };
}
