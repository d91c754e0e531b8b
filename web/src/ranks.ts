// Numbers of ranks.

// Those below the largest that the dump lacks, as "1, 4-6"; empty: none, or the path holds several dumps.
export function missingRanks(names: readonly string[]): string {
  const there = new Set(names.map(Number));
  if (there.has(NaN)) return "";
  const runs: [number, number][] = [];
  for (let rank = 0; rank < Math.max(...there); rank += 1) {
    const last = runs.at(-1);
    if (there.has(rank)) continue;
    if (last?.[1] === rank - 1) last[1] = rank;
    else runs.push([rank, rank]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(", ");
}
