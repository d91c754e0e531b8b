// The distribution of a tensor: bars, and bars of their own for what has no place on the axis.
import { useState } from "preact/hooks";
import type { Histogram } from "../api.ts";
import { formatCount, formatNumber, toNumber } from "../numbers.ts";
import { words } from "../words.ts";
import { useSize } from "./ui.tsx";

const HEIGHT = 190;
const FOOT = 34;
const SIDE = 46;

export function HistogramPicture({ of, ghost }: { of: Histogram; ghost?: Histogram | undefined }) {
  const [frame, size] = useSize<HTMLDivElement>();
  const [under, setUnder] = useState("");
  const extra = [
    { name: words.histogram.minus, count: of.negative_inf_count, kind: "infinity" },
    { name: words.histogram.zero, count: of.zero_count, kind: "zero" },
    { name: words.histogram.plus, count: of.positive_inf_count, kind: "infinity" },
    { name: words.histogram.nan, count: of.nan_count, kind: "nan" },
  ].filter((bar) => bar.count > 0);
  const width = Math.max(0, size.width);
  const room = Math.max(10, width - extra.length * SIDE - 10);
  const most = Math.max(1, ...of.counts, ...(ghost?.counts ?? []));
  const mostExtra = Math.max(1, ...extra.map((bar) => bar.count));
  const low = toNumber(of.edges[0]);
  const high = toNumber(of.edges.at(-1));
  const bar = room / Math.max(1, of.counts.length);
  const all = of.counts.reduce((sum, count) => sum + count, 0);
  const text = (i: number): string => words.histogram.bar(formatNumber(of.edges[i] ?? null), formatNumber(of.edges[i + 1] ?? null), formatCount(of.counts[i] ?? 0));
  return (
    <div class="histogram" ref={frame}>
      <svg width={width} height={HEIGHT + FOOT} role="img" aria-label={words.histogram.text(of.counts.length, formatCount(all))}>
        {ghost && ghost.counts.length === of.counts.length && ghost.counts.map((count, i) => (
          <rect key={i} class="ghost" x={i * bar} width={bar} y={HEIGHT - (count / most) * (HEIGHT - 8)} height={(count / most) * (HEIGHT - 8)} />
        ))}
        {of.counts.map((count, i) => {
          const height = count ? Math.max(1, (count / most) * (HEIGHT - 8)) : 0;
          return (
            <g key={i} onMouseEnter={() => setUnder(text(i))} onMouseLeave={() => setUnder("")}>
              <rect class="catch" x={i * bar} width={bar} y={0} height={HEIGHT} />
              <rect class="bar" x={i * bar + (bar > 4 ? 0.5 : 0)} width={Math.max(0.5, bar - (bar > 4 ? 1 : 0))} y={HEIGHT - height} height={height} />
            </g>
          );
        })}
        <line class="axis" x1={0} x2={room} y1={HEIGHT} y2={HEIGHT} />
        {all > 0 && <text x={0} y={HEIGHT + 15}>{formatNumber(low, 4)}</text>}
        {all > 0 && <text x={room} y={HEIGHT + 15} text-anchor="end">{formatNumber(high, 4)}</text>}
        {low < 0 && high > 0 && of.scale === "linear" && (
          <text x={(-low / (high - low)) * room} y={HEIGHT + 15} text-anchor="middle">0</text>
        )}
        {extra.map((side, i) => {
          const x = room + 14 + i * SIDE;
          const height = Math.max(2, (side.count / mostExtra) * (HEIGHT - 30));
          return (
            <g key={side.name}>
              <rect class={side.kind} x={x} width={SIDE - 16} y={HEIGHT - height} height={height} />
              <text x={x + (SIDE - 16) / 2} y={HEIGHT - height - 5} text-anchor="middle">{short(side.count)}</text>
              <text x={x + (SIDE - 16) / 2} y={HEIGHT + 15} text-anchor="middle">{side.name}</text>
            </g>
          );
        })}
      </svg>
      <p class="read-out"><span>{under || (!all ? words.histogram.nothing : low === high ? words.histogram.constant : " ")}</span></p>
    </div>
  );
}

function short(count: number): string {
  return count < 10_000 ? String(count) : formatNumber(count, 2);
}
