// The ranges of a plot's axes.

import { formatNumber } from "../numbers.ts";

const [FEWEST_DIGITS, MOST_DIGITS] = [4, 15];

// The numbers of an axis, with as many digits as tell them apart.
export function tickTexts(ticks: readonly (number | null)[]): string[] {
  for (let digits = FEWEST_DIGITS; ; digits += 1) {
    const texts = ticks.map((tick) => (tick === null ? "" : formatNumber(tick, digits)));
    const shown = texts.filter(Boolean);
    if (digits >= MOST_DIGITS || new Set(shown).size === shown.length) return texts;
  }
}

// Of one step uPlot itself would show 0 to 100. A part that was chosen with the mouse stays.
export function xRange(x: readonly number[], low: number, high: number): [number, number] {
  const [first = 0] = x;
  return x.length < 2 || low === high ? [first - 1, first + 1] : [low, high];
}

// From the 1st to the 99th percentile, so that a few early steps do not spoil the rest.
export function yRange(all: readonly (number | null)[], low: number, high: number): [number, number] {
  const values = all.filter((value): value is number => value !== null && Number.isFinite(value));
  if (!values.length) return [0, 1];
  values.sort((a, b) => a - b);
  if (values.length >= 100) {
    low = values[Math.floor(values.length * 0.01)] as number;
    high = values[Math.floor(values.length * 0.99)] as number;
  }
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  return [low - room, high + room];
}
