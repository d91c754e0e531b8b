// Curves over the steps, by uPlot.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatNumber } from "../numbers.ts";
import { words } from "../words.ts";
import type { Curve } from "./curves.ts";
import { tickTexts, xRange, yRange } from "./ranges.ts";
import { useSize } from "./ui.tsx";

const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
const SAMPLES = ["solid", "dashed", "dotted", "dashed"]; // of the legend
const DIGIT = 6.6; // px, of an axis
export const INKS = ["--curve-1", "--curve-2", "--curve-3", "--curve-4"];

export function Plot({ label, x, curves, height = 180, log = false, dots = false, mark, at, atLabel = "", onPick, xLabel, yLabel }: {
  label: string; x: readonly number[]; curves: readonly Curve[]; height?: number; log?: boolean; dots?: boolean; mark?: number; at?: number;
  atLabel?: string; // what `at` is; it stands beside its line
  onPick?: (x: number) => void; xLabel?: string; yLabel?: string;
}) {
  const [frame, size] = useSize<HTMLDivElement>();
  const place = useRef<HTMLDivElement>(null);
  const [edges, setEdges] = useState(0);
  const pick = useRef(onPick);
  pick.current = onPick;
  const key = JSON.stringify([x, curves, log, mark, at]);
  useEffect(() => {
    if (!place.current || size.width < 60 || !x.length) return undefined;
    const style = getComputedStyle(place.current);
    const colour = (name: string): string => style.getPropertyValue(name);
    const axis = { stroke: colour("--ink-soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, font: `11px ${style.fontFamily}` };
    const plot = new uPlot(
      {
        width: size.width,
        height,
        legend: { show: false },
        cursor: { points: { size: 7 } },
        scales: { x: { time: false, range: (_plot, low, high) => xRange(x, low, high) }, y: log ? { distr: 3 } : { range: (_plot, low, high) => yRange(curves.flatMap((curve) => curve.values), low, high) } },
        axes: [
          { ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000], label: xLabel ?? "", labelSize: xLabel ? 16 : 0, size: 28, labelFont: `11px ${style.fontFamily}` },
          { ...axis, label: yLabel ?? "", labelSize: yLabel ? 18 : 0, labelFont: `11px ${style.fontFamily}`, ...(log ? { filter: decades, grid: { ...axis.grid, filter: decades }, ticks: { ...axis.ticks, filter: decades } } : {}), size: (_plot, texts) => Math.max(64, 18 + DIGIT * Math.max(0, ...(texts ?? []).map((text) => text.length))), values: (_plot, ticks) => tickTexts(ticks) },
        ],
        series: [
          {},
          ...curves.map((curve, i) => ({
            label: curve.label, stroke: colour(INKS[i % INKS.length] as string), width: 2, dash: DASHES[i % DASHES.length] ?? [], spanGaps: false,
            points: { show: dots || x.length < 60, size: dots ? 4 : 6, fill: dots ? colour(INKS[i % INKS.length] as string) : undefined },
            ...(dots ? { paths: () => null } : {}),
          })),
        ],
        hooks: {
          draw: [
            (drawn: uPlot) => {
              drawMarks(drawn, colour("--accent"), mark, at, atLabel, axis.font);
              setEdges(drawEdges(drawn, x, curves, colour("--nan-text"), colour("--ink-soft")));
            },
          ],
          ready: [
            (made: uPlot) =>
              made.over.addEventListener("click", () => {
                const index = made.cursor.idx;
                if (index !== null && index !== undefined) pick.current?.(x[index] as number);
              }),
          ],
        },
      },
      [x as number[], ...curves.map((curve) => curve.values.map((value) => (value === null || !Number.isFinite(value) || (log && value <= 0) ? null : value)))],
      place.current,
    );
    return () => plot.destroy();
  }, [key, size.width, height]);
  return (
    <div class="plot" ref={frame}>
      <div ref={place} role="img" aria-label={`${label}${xLabel && yLabel ? ` (${xLabel}; ${yLabel})` : ""}: ${at !== undefined && atLabel ? `${atLabel}: ${at}; ` : ""}${summary(x, curves)}`} />
      {edges > 0 && <p class="soft edges">{words.trend.edges(edges)}</p>}
      {curves.length > 1 && (
        <ul class="legend">
          {curves.map((curve, i) => (
            <li key={curve.label}>
              <span class="line-sample" style={{ borderColor: `var(${INKS[i % INKS.length]})`, borderTopStyle: dots ? "solid" : SAMPLES[i % SAMPLES.length] }} aria-hidden="true" /> {curve.label}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

// Of a logarithmic axis the powers of ten alone: all lines would be a carpet.
function decades(_plot: uPlot, ticks: number[]): (number | null)[] {
  const powers = ticks.map((tick) => Math.round(Math.log10(tick) * 1e6) / 1e6);
  const whole = powers.filter(Number.isInteger);
  const every = Math.ceil(whole.length / 5);
  return ticks.map((tick, i) => (Number.isInteger(powers[i]) && (powers[i] as number) % every === 0 ? tick : null));
}

function drawMarks(plot: uPlot, colour: string, mark: number | undefined, at: number | undefined, atLabel: string, font: string): void {
  const { ctx: draw, bbox } = plot;
  draw.save();
  draw.strokeStyle = colour;
  draw.lineWidth = devicePixelRatio;
  draw.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  const line = (x0: number, y0: number, x1: number, y1: number): void => {
    draw.beginPath();
    draw.moveTo(x0, y0);
    draw.lineTo(x1, y1);
    draw.stroke();
  };
  if (mark !== undefined) {
    const y = plot.valToPos(mark, "y", true);
    if (y >= bbox.top && y <= bbox.top + bbox.height) line(bbox.left, y, bbox.left + bbox.width, y);
  }
  if (at !== undefined) {
    const x = plot.valToPos(at, "x", true);
    line(x, bbox.top, x, bbox.top + bbox.height);
    draw.font = font.replace(/^\d+/, (size) => String(Number(size) * devicePixelRatio));
    draw.fillStyle = colour;
    draw.textBaseline = "top";
    const isLeft = x < bbox.left + bbox.width / 2;
    draw.textAlign = isLeft ? "left" : "right";
    draw.fillText(atLabel, x + (isLeft ? 5 : -5) * devicePixelRatio, bbox.top + 2 * devicePixelRatio);
  }
  draw.restore();
}

// What has no place in the picture is marked at its edge: NaN and infinities as ✕, numbers outside of the range as triangles.
function drawEdges(plot: uPlot, x: readonly number[], curves: readonly Curve[], bad: string, outside: string): number {
  const { ctx: draw, bbox } = plot;
  const [left, right] = [plot.scales.x?.min ?? -Infinity, plot.scales.x?.max ?? Infinity];
  const [low, high] = [plot.scales.y?.min ?? -Infinity, plot.scales.y?.max ?? Infinity];
  let count = 0;
  draw.save();
  draw.font = `${11 * devicePixelRatio}px sans-serif`;
  draw.textAlign = "center";
  for (const { values } of curves) {
    let before = { sign: "", at: 0 }; // of several in a row the first has the sign, and a line goes to the last
    values.forEach((value, i) => {
      const at = x[i] as number;
      const sign = value === null || at < left || at > right || (value >= low && value <= high) ? "" : Number.isNaN(value) ? "✕" : value < low ? "▾" : Number.isFinite(value) ? "▴" : "∞";
      const place = plot.valToPos(at, "x", true);
      if (sign) {
        count += 1;
        const isLow = sign === "▾";
        draw.fillStyle = sign === "▾" || sign === "▴" ? outside : bad;
        draw.textBaseline = isLow ? "bottom" : "top";
        const y = isLow ? bbox.top + bbox.height : bbox.top;
        if (sign !== before.sign) draw.fillText(sign, place, y);
        else draw.fillRect(before.at, y + (isLow ? -5 : 4) * devicePixelRatio, place - before.at, devicePixelRatio);
      }
      before = { sign, at: place };
    });
  }
  draw.restore();
  return count;
}

function summary(x: readonly number[], curves: readonly Curve[]): string {
  return curves.map((curve) => `${curve.label} ${x.slice(0, 50).map((at, i) => `${at}: ${formatNumber(curve.values[i] ?? null)}`).join(", ")}`).join("; ");
}
