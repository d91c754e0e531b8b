// The losses of a step as one number.
import type { Loss } from "../answers.ts";
import { toNumber } from "../numbers.ts";

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
