// Numbers of ranks.

// Whether the dump lacks ranks below its largest one, or of the program's processes (0: unknown); of a path that holds several dumps
// nobody knows.
export function lacksRanks(names: readonly string[], processes: number): boolean {
  const there = new Set(names.map(Number));
  return there.size > 0 && !there.has(NaN) && Math.max(...there, processes - 1) >= there.size;
}
