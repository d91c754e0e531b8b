// Palettes that are safe for colour blindness: viridis for sizes, blue to orange for signed values.
export type Rgb = readonly [number, number, number];

const VIRIDIS: readonly Rgb[] = [
  [68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
  [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37],
];
const BLUE_ORANGE: readonly Rgb[] = [
  [8, 64, 129], [43, 120, 181], [120, 176, 214], [198, 219, 234], [244, 244, 242],
  [252, 217, 178], [246, 167, 96], [214, 108, 27], [143, 58, 4],
];

// On a dark page the middle, which says nothing, is dark.
const BLUE_ORANGE_DARK: readonly Rgb[] = [
  [122, 186, 245], [70, 140, 205], [44, 98, 152], [38, 66, 98], [44, 44, 48],
  [92, 64, 36], [150, 92, 36], [214, 124, 44], [255, 178, 102],
];

function mix(palette: readonly Rgb[], share: number): Rgb {
  const place = Math.min(Math.max(share, 0), 1) * (palette.length - 1);
  const low = palette[Math.floor(place)] ?? [0, 0, 0];
  const high = palette[Math.ceil(place)] ?? low;
  const part = place - Math.floor(place);
  return [0, 1, 2].map((i) => Math.round((low[i] ?? 0) * (1 - part) + (high[i] ?? 0) * part)) as unknown as Rgb;
}

export const viridis = (share: number): Rgb => mix(VIRIDIS, share);
export const blueOrange = (share: number, isDark = false): Rgb => mix(isDark ? BLUE_ORANGE_DARK : BLUE_ORANGE, share);
export const css = ([r, g, b]: Rgb): string => `rgb(${r} ${g} ${b})`;
