// Requests of a serving engine: in which steps each was worked on, and which of its tokens.
import type { OverviewStep } from "./answers.ts";

export interface Worked {
  request: string;
  steps: readonly number[];
  rows: number; // all of them, one for each token
  end: number; // the position after its last token
}

// In the order in which they came.
export function requestsOf(steps: readonly OverviewStep[], rank: string, graph: number): Worked[] {
  const found = new Map<string, { request: string; steps: number[]; rows: number; end: number }>();
  for (const step of steps) {
    if (step.rank !== rank || step.graph !== graph) continue;
    for (const one of step.requests ?? []) {
      const worked = found.get(one.request) ?? { request: one.request, steps: [], rows: 0, end: 0 };
      found.set(one.request, worked);
      if (worked.steps.at(-1) !== step.step) worked.steps.push(step.step);
      worked.rows += one.rows;
      worked.end = Math.max(worked.end, one.position + one.rows);
    }
  }
  return [...found.values()];
}

// "4" or "4 to 6": of so many numbers from the first on.
export const spanOf = (first: number, count: number): readonly [number, number] => [first, first + Math.max(1, count) - 1];
