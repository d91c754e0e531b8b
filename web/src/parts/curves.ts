// Numbers of steps as curves of ranks, and the losses of a step as one number.
import type { Loss } from "../answers.ts";
import { toNumber } from "../numbers.ts";
import { words } from "../words.ts";

const MOST_CURVES = 8; // more of them are nobody's to tell apart

export interface Curve {
  label: string;
  values: readonly (number | null)[];
}

export interface Point {
  rank: string;
  step: number;
  y: number | null; // null: nobody knows it
}

// Of each rank and step the mean loss of the parts of its batch: NaN if one of them is. A part whose value was not recorded,
// as in a trial run, does not count.
export function meanLosses(losses: readonly Loss[]): Point[] {
  const known = losses.filter((loss) => loss.value !== null);
  const sums = new Map<string, Point & { parts: number }>();
  for (const { rank, step, value } of known) {
    const key = `${step} ${rank}`;
    const sum = sums.get(key) ?? { rank, step, y: 0, parts: 0 };
    sums.set(key, { ...sum, y: (sum.y ?? 0) + toNumber(value), parts: sum.parts + 1 });
  }
  return [...sums.values()].map(({ rank, step, y, parts }) => ({ rank, step, y: (y ?? 0) / parts }));
}

// The curve of each rank over the steps; of many ranks that of the chosen one, between the lowest and the highest of all.
export function curvesByRank(points: readonly Point[], name: string, chosen: string): { x: number[]; curves: Curve[] } {
  const x = [...new Set(points.map((point) => point.step))].sort((a, b) => a - b);
  const ranks = [...new Set(points.map((point) => point.rank))];
  const at = new Map<string, number | null>();
  for (const { rank, step, y } of points) if (!at.has(`${step} ${rank}`)) at.set(`${step} ${rank}`, y);
  const of = (rank: string): Curve => ({
    label: ranks.length > 1 ? `${words.bar.rank} ${rank}` : name, values: x.map((step) => at.get(`${step} ${rank}`) ?? null),
  });
  if (ranks.length <= MOST_CURVES) return { x, curves: ranks.map(of) };
  const known = (step: number): number[] => ranks.map((rank) => at.get(`${step} ${rank}`) ?? null).filter((y) => y !== null);
  const bound = (label: string, pick: (numbers: readonly number[]) => number): Curve => ({
    label, values: x.map(known).map((numbers) => (numbers.length ? pick(numbers) : null)),
  });
  const finite = (numbers: readonly number[]): number[] => numbers.filter((y) => !Number.isNaN(y));
  return {
    x,
    curves: [
      ...(ranks.includes(chosen) ? [of(chosen)] : []),
      bound(words.trend.lowest(ranks.length), (numbers) => (finite(numbers).length ? Math.min(...finite(numbers)) : NaN)),
      bound(words.trend.highest(ranks.length), (numbers) => (finite(numbers).length < numbers.length ? NaN : Math.max(...numbers))),
    ],
  };
}

// The same with the curve of another run: of the chosen rank, or of its first one, at the steps that both have.
export function besideOther(own: { x: number[]; curves: Curve[] }, other: readonly Point[], chosen: string, label: string): { x: number[]; curves: Curve[] } {
  const ranks = [...new Set(other.map((point) => point.rank))];
  const rank = ranks.includes(chosen) ? chosen : ranks[0];
  const at = new Map(other.filter((point) => point.rank === rank).map((point) => [point.step, point.y]));
  if (!own.x.some((step) => at.has(step))) return own;
  return { x: own.x, curves: [...own.curves, { label, values: own.x.map((step) => at.get(step) ?? null) }] };
}
