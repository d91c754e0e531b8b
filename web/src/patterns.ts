// Which names match a regular expression of a user: in a worker, which is ended when it takes too long.
export interface Pattern {
  source: string;
  flags: string;
}

export interface PatternRequest {
  patterns: readonly Pattern[];
  names: readonly string[];
}

const MOST_MS = 3000;

// Of each pattern the places of the names that match.
export function answerPatterns({ patterns, names }: PatternRequest): number[][] {
  return patterns.map(({ source, flags }) => {
    const pattern = new RegExp(source, flags);
    return names.flatMap((name, i) => (pattern.test(name) ? [i] : []));
  });
}

// Of each pattern the names that match. Fails on a pattern that is none, and when it takes too long.
export async function matchNames(
  patterns: readonly Pattern[], names: readonly string[], open: () => Worker, slow: (seconds: number) => string,
): Promise<Set<string>[]> {
  for (const { source, flags } of patterns) new RegExp(source, flags);
  if (!patterns.length) return [];
  const worker = open();
  try {
    const found = await new Promise<number[][]>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(slow(MOST_MS / 1000))), MOST_MS);
      worker.onmessage = ({ data }: MessageEvent<number[][]>) => {
        clearTimeout(timer);
        resolve(data);
      };
      worker.postMessage({ patterns, names } satisfies PatternRequest);
    });
    return found.map((places) => new Set(places.map((place) => names[place] ?? "")));
  } finally {
    worker.terminate();
  }
}
