// A slice of a tensor as a picture. A cell knows the smallest, mean and largest of its elements and whether a bad one is among them:
// a NaN is never averaged away.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { blueOrange, css, type Rgb, viridis } from "../colours.ts";
import { formatNumber } from "../numbers.ts";
import type { Cells } from "../difference.ts";
import type { Table } from "../source/source.ts";
import { words } from "../words.ts";
import { useSize } from "./ui.tsx";

export type HeatKind = "mean" | "min" | "max";
export type Cursor = readonly [row: number, column: number] | null;

const MOST_HEIGHT = 420;

function cellsOf(table: Table, kind: HeatKind): Cells {
  let rows = 0;
  let columns = 0;
  for (let i = 0; i < table.rows; i += 1) {
    rows = Math.max(rows, Number(table.get("row", i)) + 1);
    columns = Math.max(columns, Number(table.get("column", i)) + 1);
  }
  const values = new Float64Array(rows * columns).fill(NaN);
  const bad = new Uint8Array(rows * columns);
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < table.rows; i += 1) {
    const at = Number(table.get("row", i)) * columns + Number(table.get("column", i));
    const value = table.get(kind, i);
    bad[at] = Number(table.get("bad", i));
    if (value === null || value === undefined) continue;
    values[at] = Number(value);
    low = Math.min(low, Number(value));
    high = Math.max(high, Number(value));
  }
  return { rows, columns, values, bad, low, high };
}

export function HeatMap({ table, kind, label }: { table: Table; kind: HeatKind; label: string }) {
  const cells = useMemo(() => cellsOf(table, kind), [table, kind]);
  const [cursor, setCursor] = useState<Cursor>(null);
  return <HeatPicture cells={cells} label={label} cursor={cursor} onCursor={setCursor} />;
}

// Several pictures may share a cursor.
export function HeatPicture({ cells, label, cursor, onCursor: setCursor, most = MOST_HEIGHT }: {
  cells: Cells; label: string; cursor: Cursor; onCursor: (to: Cursor) => void; most?: number;
}) {
  const [frame, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const scale = Math.min(size.width / Math.max(1, cells.columns), most / Math.max(1, cells.rows), 28);
  const width = Math.max(1, Math.floor(cells.columns * scale));
  const height = Math.max(1, Math.floor(cells.rows * scale));
  useEffect(() => {
    if (canvas.current && size.width) paint(canvas.current, cells, width, height, cursor);
  });
  const text = (row: number, column: number): string => {
    const at = row * cells.columns + column;
    const value = cells.values[at] as number;
    const shown = Number.isNaN(value) ? words.heat.onlyBad : formatNumber(value);
    return words.heat.cell(row, column, cells.bad[at] ? `${shown}, ${words.heat.bad}` : shown);
  };
  const key = (event: KeyboardEvent): void => {
    const [row, column] = cursor ?? [0, 0];
    const moves: Record<string, readonly [number, number]> = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    };
    const next = moves[event.key];
    if (!next) return;
    setCursor([Math.min(Math.max(next[0], 0), cells.rows - 1), Math.min(Math.max(next[1], 0), cells.columns - 1)]);
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="heat" ref={frame}>
      <canvas
        ref={canvas} tabIndex={0} role="application" aria-label={label} style={{ width: `${width}px`, height: `${height}px` }} onKeyDown={key}
        onMouseMove={(event) => {
          const box = event.currentTarget.getBoundingClientRect();
          const row = Math.floor(((event.clientY - box.top) / box.height) * cells.rows);
          const column = Math.floor(((event.clientX - box.left) / box.width) * cells.columns);
          setCursor(row >= 0 && row < cells.rows && column >= 0 && column < cells.columns ? [row, column] : null);
        }}
        onMouseLeave={() => setCursor(null)}
      />
      <p class="read-out">
        <span aria-live="polite">{cursor ? text(cursor[0], cursor[1]) : " "}</span>
        {cells.low <= cells.high && <Scale low={cells.low} high={cells.high} colour={colourOf} />}
      </p>
    </div>
  );
}

const signed = (low: number, high: number): boolean => low < 0 && high > 0;

function colourOf(value: number, low: number, high: number): Rgb {
  if (signed(low, high)) {
    const most = Math.max(-low, high);
    return blueOrange(0.5 + value / most / 2);
  }
  return sizeColour(value, low, high);
}

const sizeColour = (value: number, low: number, high: number): Rgb => viridis(high > low ? (value - low) / (high - low) : 0.5);

export function Scale({ low, high, colour = sizeColour, show = (value) => formatNumber(value, 4) }: {
  low: number; high: number; colour?: (value: number, low: number, high: number) => Rgb; show?: (value: number) => string;
}) {
  const stops = Array.from({ length: 24 }, (_, i) => css(colour(low + ((high - low) * i) / 23, low, high)));
  return (
    <span class="scale">
      {show(low)}
      <span class="scale-bar" aria-hidden="true">
        {stops.map((stop, i) => (
          <i key={i} style={{ background: stop }} />
        ))}
      </span>
      {show(high)}
    </span>
  );
}

function paint(canvas: HTMLCanvasElement, cells: Cells, width: number, height: number, cursor: Cursor): void {
  const ratio = devicePixelRatio;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const draw = canvas.getContext("2d") as CanvasRenderingContext2D;
  const picture = new ImageData(cells.columns, cells.rows);
  const style = getComputedStyle(canvas);
  const [nan, infinity] = [rgb(style.getPropertyValue("--nan-strong")), rgb(style.getPropertyValue("--infinity-cell"))];
  cells.values.forEach((value, at) => {
    const colour = cells.bad[at] ? (((cells.bad[at] as number) & 1) ? nan : infinity) : Number.isNaN(value) ? [128, 128, 128] : colourOf(value, cells.low, cells.high);
    picture.data.set([colour[0] as number, colour[1] as number, colour[2] as number, 255], at * 4);
  });
  const small = new OffscreenCanvas(cells.columns, cells.rows);
  (small.getContext("2d") as OffscreenCanvasRenderingContext2D).putImageData(picture, 0, 0);
  draw.imageSmoothingEnabled = false;
  draw.drawImage(small, 0, 0, canvas.width, canvas.height);
  const [w, h] = [canvas.width / cells.columns, canvas.height / cells.rows];
  if (w >= 12 * ratio) {
    draw.fillStyle = "#fff";
    draw.font = `${Math.floor(w * 0.5)}px sans-serif`;
    draw.textAlign = "center";
    draw.textBaseline = "middle";
    cells.bad.forEach((isBad, at) => {
      if (isBad) draw.fillText(isBad & 1 ? "✕" : "∞", ((at % cells.columns) + 0.5) * w, (Math.floor(at / cells.columns) + 0.5) * h);
    });
  }
  if (cursor) {
    draw.strokeStyle = getComputedStyle(canvas).getPropertyValue("--accent");
    draw.lineWidth = 2 * ratio;
    draw.strokeRect(cursor[1] * w, cursor[0] * h, w, h);
  }
}

function rgb(hex: string): number[] {
  const digits = /#([0-9a-f]{6})/i.exec(hex)?.[1] ?? "c62828";
  return [0, 2, 4].map((i) => parseInt(digits.slice(i, i + 2), 16));
}
