// A picture of cells: rows with names, columns that are steps. The cursor moves by mouse and arrows, a note beside it says what is below
// it, and the same cells are there as a table.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { words } from "../words.ts";
import { useSize } from "./ui.tsx";

export interface MatrixCell {
  colour: string; // a CSS colour, or "hatch" for what nobody measured
  sign: string;
  text: string; // of the read-out
  dim?: boolean; // what only follows from something else
}

export interface MatrixProps {
  label: string;
  rows: readonly { name: string; title: string; opens?: boolean; open?: boolean; depth?: number }[];
  columns: readonly { name: string; title: string }[];
  cell: (row: number, column: number) => MatrixCell | null;
  onOpen?: (row: number, column: number) => void; // a cell
  onRow?: (row: number) => void; // its name
  marked?: number; // the column of the chosen step
  ring?: Place | null; // the cell that matters
  onZoom?: (by: number, column: number) => void; // larger or smaller about a column
  onRange?: (first: number, last: number) => void; // columns that were drawn over
  wide?: number; // the width of the names
  legend?: ComponentChildren; // below the picture
}

type Place = readonly [row: number, column: number];

const ROW = 24;
const MOST_SHOWN = 40; // rows in the window; the others are reached by scrolling, and painted then
const HEAD = 20;
const WIDEST = 100;
const LETTER = 7;
const INDENT = 14;
const DIM = 0.35;
const RING = 7; // half of its least width

const indent = (depth = 0, beside = false): { paddingLeft: string } => ({ paddingLeft: `${depth * INDENT + (beside ? INDENT : 0)}px` });

export function Matrix(props: MatrixProps) {
  const { label, rows, columns, wide = 260 } = props;
  const [frame, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [cursor, setCursor] = useState<Place | null>(null);
  const [asTable, setAsTable] = useState(false);
  const [top, setTop] = useState(0); // pixels above the shown part
  const scroller = useRef<HTMLDivElement>(null);
  const pressed = useRef<number | null>(null); // the column at which the mouse was pressed
  const shownRows = Math.min(rows.length, MOST_SHOWN);
  const longest = Math.max(0, ...rows.map((row) => row.name.length * LETTER + (row.depth ?? 0) * INDENT + 34));
  const names = Math.min(wide, longest, Math.round(size.width * 0.45));
  const cellWidth = columns.length ? Math.min(WIDEST, (size.width - names) / columns.length) : 0;
  const width = Math.max(0, Math.floor(cellWidth * columns.length));
  useEffect(() => {
    if (canvas.current && width) paint(canvas.current, props, { cellWidth, width, cursor, top, shown: shownRows });
  });
  const at = (event: MouseEvent): Place | null => {
    const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    const row = event.clientY < box.top + HEAD ? -1 : Math.floor((event.clientY - box.top - HEAD + top) / ROW);
    const column = Math.floor((event.clientX - box.left) / cellWidth);
    return row >= 0 && row < rows.length && column >= 0 && column < columns.length ? [row, column] : null;
  };
  const reveal = (row: number): void => {
    const element = scroller.current;
    if (!element) return;
    const least = (row + 1 - shownRows) * ROW;
    element.scrollTop = Math.min(Math.max(element.scrollTop, least), row * ROW);
  };
  const ring = props.ring ? props.ring.join() : undefined;
  useEffect(() => {
    if (props.ring) reveal(Math.min(props.ring[0] + 2, rows.length - 1)); // with what is below it
  }, [ring]);
  const key = (event: KeyboardEvent): void => {
    const [row, column] = cursor ?? [0, 0];
    const moves: Record<string, Place> = {
      PageUp: [row - shownRows, column], PageDown: [row + shownRows, column],
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [row, 0], End: [row, columns.length - 1],
    };
    const next = moves[event.key];
    if (next) {
      const row = clamp(next[0], rows.length);
      setCursor([row, clamp(next[1], columns.length)]);
      reveal(row);
      const { above, below } = placeOf(canvas.current, [row, 0], cellWidth, scroller.current?.scrollTop ?? 0);
      const main = document.getElementById("main");
      const { top: from = 0, bottom: to = 0 } = main?.getBoundingClientRect() ?? {};
      main?.scrollBy(0, Math.min(0, above - from - GAP) + Math.max(0, below - to + GAP));
    } else if ((event.key === "+" || event.key === "=" || event.key === "-") && props.onZoom) props.onZoom(event.key === "-" ? 0.5 : 2, column);
    else if (event.key === "Enter" && cursor) props.onOpen?.(cursor[0], cursor[1]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const under = cursor && props.cell(cursor[0], cursor[1]);
  const said = under ? words.map.cell(rows[cursor[0]]?.title ?? "", columns[cursor[1]]?.title ?? "", under.text) : "";
  if (asTable) return <div class="matrix" ref={frame}><MatrixTable {...props} onPicture={() => setAsTable(false)} /></div>;
  return (
    <div class="matrix" ref={frame}>
      <div class={`matrix-body${rows.length > shownRows ? " long" : ""}`} ref={scroller} style={{ maxHeight: `${HEAD + shownRows * ROW}px` }}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
        <ul class="matrix-names" style={{ width: `${names}px`, paddingTop: `${HEAD}px` }}>
          {rows.map((row, i) => (
            <li key={`${row.title} ${row.name}`} style={{ height: `${ROW}px` }} class={`${cursor?.[0] === i ? "under" : ""}${props.ring?.[0] === i ? " ringed" : ""}`}>
              {props.onRow && row.opens ? (
                <button type="button" class="plain" title={row.title} aria-expanded={row.open} style={indent(row.depth)} onClick={() => props.onRow?.(i)}>
                  {row.open !== undefined && <span class={`arrow${row.open ? " open" : ""}`} aria-hidden="true">›</span>}
                  {row.name}
                </button>
              ) : (
                <span title={row.title} style={indent(row.depth, props.rows.some((other) => other.open !== undefined))}>{row.name}</span>
              )}
            </li>
          ))}
        </ul>
        <canvas
          ref={canvas} tabIndex={0} role="application" aria-label={label} data-ring={ring}
          style={{ width: `${width}px`, height: `${HEAD + shownRows * ROW}px` }}
          onMouseMove={(event) => setCursor(at(event))}
          onPointerDown={(event) => (pressed.current = at(event)?.[1] ?? null)} onMouseLeave={() => setCursor(null)} onKeyDown={key} onFocus={() => setCursor(cursor ?? [0, 0])}
          onClick={(event) => {
            const cell = at(event);
            const from = pressed.current;
            if (cell && from !== null && from !== cell[1] && props.onRange) {
              props.onRange(Math.min(from, cell[1]), Math.max(from, cell[1]));
              return;
            }
            if (cell) props.onOpen?.(cell[0], cell[1]);
          }}
        />
      </div>
      {said && cursor && <Tip text={said} place={() => placeOf(canvas.current, cursor, cellWidth, top)} />}
      <p class="read-out">
        <span class="hidden" aria-live="polite">{said}</span>
        <span>{props.legend}</span>
        <button type="button" class="small" onClick={() => setAsTable(true)}>{words.map.table}</button>
      </p>
    </div>
  );
}

const clamp = (value: number, length: number): number => Math.min(Math.max(value, 0), length - 1);

// Of a cell on the screen: its middle, and the edges above and below.
function placeOf(canvas: HTMLCanvasElement | null, [row, column]: Place, cellWidth: number, top: number): { x: number; above: number; below: number } {
  const box = canvas?.getBoundingClientRect() ?? { left: 0, top: 0 };
  const above = box.top + HEAD + row * ROW - top;
  return { x: box.left + (column + 0.5) * cellWidth, above, below: above + ROW };
}

const GAP = 8;

// What the cell holds, beside it and always inside the window.
function Tip({ text, place }: { text: string; place: () => ReturnType<typeof placeOf> }) {
  const note = useRef<HTMLDivElement>(null);
  const put = (): void => {
    const element = note.current;
    if (!element) return;
    const { x, above, below } = place();
    const { width, height } = element.getBoundingClientRect();
    element.style.left = `${Math.max(GAP, Math.min(x + GAP, innerWidth - width - GAP))}px`;
    element.style.top = `${below + GAP + height > innerHeight ? Math.max(GAP, above - GAP - height) : below + GAP}px`;
  };
  const latest = useRef(put);
  latest.current = put;
  useLayoutEffect(put);
  useEffect(() => {
    const moved = (): void => latest.current();
    addEventListener("scroll", moved, true); // of whatever is around the picture
    return () => removeEventListener("scroll", moved, true);
  }, []);
  return <div class="tip" ref={note} aria-hidden="true">{text}</div>;
}

interface View {
  cellWidth: number;
  width: number;
  cursor: Place | null;
  top: number; // pixels of rows above the view
  shown: number; // rows
}

// The rows in the view; the names of the columns stay above them.
function paint(canvas: HTMLCanvasElement, { rows, columns, cell, marked, ring }: MatrixProps, { cellWidth, width, cursor, top, shown: shownRows }: View): void {
  const scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = (HEAD + shownRows * ROW) * scale;
  const draw = canvas.getContext("2d") as CanvasRenderingContext2D;
  const style = getComputedStyle(canvas);
  const ink = style.getPropertyValue("--ink-soft");
  draw.scale(scale, scale);
  draw.font = `11px ${style.fontFamily}`;
  draw.textAlign = "center";
  draw.textBaseline = "middle";
  const gap = cellWidth > 6 ? 1 : 0;
  const first = Math.floor(top / ROW);
  for (let row = first; row < Math.min(rows.length, first + shownRows + 1); row += 1) {
    for (let column = 0; column < columns.length; column += 1) {
      const shown = cell(row, column);
      if (!shown) continue;
      const [x, y, w, h] = [column * cellWidth, HEAD + row * ROW - top + 1, cellWidth - gap, ROW - 2];
      draw.globalAlpha = shown.dim ? DIM : 1;
      if (shown.colour === "hatch") hatch(draw, x, y, w, h, ink);
      else {
        draw.fillStyle = resolve(shown.colour, style);
        draw.fillRect(x, y, w, h);
      }
      if (shown.sign && cellWidth >= 12) {
        draw.fillStyle = resolve(shown.colour === "hatch" ? "--ink" : `${shown.colour}-ink`, style);
        draw.fillText(fitting(draw, shown.sign, w), x + w / 2, y + h / 2 + 0.5);
      }
    }
  }
  draw.globalAlpha = 1;
  if (ring) {
    // As wide as can be seen, also where a column is a pixel.
    const x = Math.min(Math.max((ring[1] + 0.5) * cellWidth, RING), width - RING);
    const half = Math.max(RING, (cellWidth - gap) / 2) - 1;
    for (const [colour, wide] of [["--panel", 6], ["--ink", 2.5]] as const) {
      draw.strokeStyle = style.getPropertyValue(colour);
      draw.lineWidth = wide;
      draw.strokeRect(x - half, HEAD + ring[0] * ROW - top + 1, 2 * half, ROW - 2);
    }
  }
  if (cursor) {
    draw.strokeStyle = style.getPropertyValue("--accent");
    draw.lineWidth = 2;
    draw.strokeRect(cursor[1] * cellWidth, HEAD + cursor[0] * ROW - top, cellWidth - gap, ROW);
  }
  draw.clearRect(0, 0, width, HEAD);
  const every = Math.ceil(34 / cellWidth);
  let end = -Infinity; // of the name before
  columns.forEach((column, i) => {
    const near = marked === undefined || Math.abs(i - marked) >= every;
    if (i !== marked && (i % every || !near)) return;
    const half = draw.measureText(column.name).width / 2;
    const middle = Math.min(Math.max((i + 0.5) * cellWidth, half), width - half);
    if (i !== marked && middle - half < end + 4) return;
    end = middle + half;
    draw.fillStyle = i === marked ? style.getPropertyValue("--accent") : ink;
    draw.fillText(column.name, middle, HEAD / 2);
  });
}

// Without its last words, where a cell is too narrow.
function fitting(draw: CanvasRenderingContext2D, text: string, width: number): string {
  const words = text.split(" ");
  while (words.length > 1 && draw.measureText(words.join(" ")).width > width) words.pop();
  return words.join(" ");
}

// "--nan" is a colour of the style sheet, which knows light and dark.
function resolve(colour: string, style: CSSStyleDeclaration): string {
  return colour.startsWith("--") ? style.getPropertyValue(colour) || style.color : colour;
}

function hatch(draw: CanvasRenderingContext2D, x: number, y: number, width: number, height: number, ink: string): void {
  draw.save();
  draw.beginPath();
  draw.rect(x, y, width, height);
  draw.clip();
  draw.strokeStyle = ink;
  draw.globalAlpha = 0.5;
  draw.beginPath();
  for (let at = -height; at < width; at += 5) {
    draw.moveTo(x + at, y + height);
    draw.lineTo(x + at + height, y);
  }
  draw.stroke();
  draw.restore();
}

function MatrixTable({ label, rows, columns, cell, onPicture }: MatrixProps & { onPicture: () => void }) {
  return (
    <>
      <div class="scroll-x" tabIndex={0} role="region" aria-label={label}>
        <table>
          <thead>
            <tr>
              <th scope="col">{words.map.row}</th>
              {columns.map((column) => (
                <th key={column.name} scope="col">{column.title}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, i) => (
              <tr key={row.title}>
                <th scope="row">{row.title}</th>
                {columns.map((column, j) => (
                  <td key={column.name}>{cell(i, j)?.text ?? words.states.notRecorded}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="read-out">
        <span />
        <button type="button" class="small" onClick={onPicture}>{words.map.picture}</button>
      </p>
    </>
  );
}
