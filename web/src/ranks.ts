// Numbers of ranks.

// Whether the dump lacks ranks below its largest one; of a path that holds several dumps nobody knows.
export function lacksRanks(names: readonly string[]): boolean {
  const there = new Set(names.map(Number));
  return there.size > 0 && !there.has(NaN) && Math.max(...there) >= there.size;
}
