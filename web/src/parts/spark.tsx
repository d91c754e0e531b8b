// A small curve in a row of a table: a statistic of the row's tensor over the steps. Rows are asked for in blocks, each once.
import { useEffect, useState } from "preact/hooks";
import type { Class } from "../api.ts";
import { formatNumber, type Num, toNumber } from "../numbers.ts";
import type { Query } from "../source/source.ts";
import { generation, source } from "../state.ts";
import { words } from "../words.ts";
import { BAD } from "./ui.tsx";

interface Point {
  step: number;
  value: number; // NaN: bad, or not known
  state: Class;
}

const BLOCK = 50;
const MOST_BLOCKS = 60;
const WAIT_MS = 60; // a row that only passes by is not asked for
const [WIDTH, HEIGHT] = [84, 18];
const blocks = new Map<string, Promise<Map<number, Point[]>>>();

async function read(query: Query, offset: number): Promise<Map<number, Point[]>> {
  const curves = new Map<number, Point[]>();
  const table = await source.value?.table("curves", { ...query, w: WIDTH / 2, offset, limit: BLOCK });
  for (let i = 0; table && i < table.rows; i += 1) {
    const row = Number(table.get("row", i));
    const points = curves.get(row) ?? [];
    points.push({ step: Number(table.get("first_step", i)), value: toNumber(table.get("value", i) as Num), state: String(table.get("class", i)) as Class });
    curves.set(row, points);
  }
  return curves;
}

function block(query: Query, offset: number): Promise<Map<number, Point[]>> {
  const key = JSON.stringify([generation.value, query, offset]);
  const known = blocks.get(key);
  if (known) return known;
  const asked = read(query, offset);
  asked.catch(() => blocks.delete(key));
  blocks.set(key, asked);
  const oldest = blocks.keys().next();
  if (blocks.size > MOST_BLOCKS && !oldest.done) blocks.delete(oldest.value);
  return asked;
}

// `query`: that of the table, with `of` and `column`.
export function Spark({ query, row, step }: { query: Query; row: number; step: number | undefined }) {
  const [points, setPoints] = useState<Point[] | null>(null);
  const key = JSON.stringify([query, row, generation.value]);
  useEffect(() => {
    let left = false;
    setPoints(null);
    const timer = setTimeout(() => {
      block(query, Math.floor(row / BLOCK) * BLOCK).then(
        (curves) => !left && setPoints(curves.get(row) ?? []),
        () => undefined, // the table itself says what is wrong
      );
    }, WAIT_MS);
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [key]);
  if (!points || points.length < 2) return null;
  return <Curve of={points} step={step} />;
}

function Curve({ of, step }: { of: readonly Point[]; step: number | undefined }) {
  const finite = of.map(({ value }) => value).filter((value) => Number.isFinite(value));
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const [first, last] = [of[0]?.step ?? 0, of.at(-1)?.step ?? 1];
  const x = (at: Point): number => 2 + ((at.step - first) / (last - first || 1)) * (WIDTH - 4);
  const y = (at: Point): number => (high > low ? HEIGHT - 3 - ((at.value - low) / (high - low)) * (HEIGHT - 6) : HEIGHT / 2);
  const parts: string[] = [];
  of.forEach((at, i) => {
    if (Number.isFinite(at.value)) parts.push(`${i > 0 && Number.isFinite(of[i - 1]?.value) ? "L" : "M"}${x(at).toFixed(1)} ${y(at).toFixed(1)}`);
  });
  // Of bad steps in a row: a cross at the first, a line to the last.
  const bad: [number, number][] = [];
  of.forEach((at, i) => {
    const isBad = (point: Point | undefined): boolean => point !== undefined && BAD.includes(point.state) && !Number.isFinite(point.value);
    if (!isBad(at)) return;
    if (isBad(of[i - 1])) (bad.at(-1) as [number, number])[1] = x(at);
    else bad.push([x(at), x(at)]);
  });
  const now = of.findLast((at) => step !== undefined && at.step <= step);
  return (
    <svg class="spark" width={WIDTH} height={HEIGHT} role="img" aria-label={words.table.curveOf(of.slice(0, 20).map((at) => `${at.step}: ${formatNumber(at.value, 4)}`).join(", "))}>
      <path d={parts.join("")} />
      {now && Number.isFinite(now.value) && <circle cx={x(now)} cy={y(now)} r="2.5" />}
      {bad.map(([begin, end]) => <path key={begin} class="bad" d={`M${begin - 2.5} 2.5l5 5m0-5l-5 5${end > begin ? `m2.5-2.5H${end}` : ""}`} />)}
    </svg>
  );
}
