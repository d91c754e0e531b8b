// Numbers as the command prints them: six significant digits, as C's %g.
// JSON has no infinities; the server sends "nan", "inf" and "-inf" instead.
export type Num = number | "nan" | "inf" | "-inf" | null | undefined;

export function toNumber(value: Num): number {
  if (typeof value === "number") return value;
  if (value === "inf") return Infinity;
  if (value === "-inf") return -Infinity;
  return NaN;
}

export function formatNumber(value: Num, digits = 6): string {
  if (value === null || value === undefined) return "";
  const number = toNumber(value);
  if (Number.isNaN(number)) return "nan";
  if (!Number.isFinite(number)) return number > 0 ? "inf" : "-inf";
  if (number === 0) return Object.is(number, -0) ? "-0" : "0";
  const exponent = Number(number.toExponential(digits - 1).split("e")[1]);
  if (exponent < -4 || exponent >= digits) {
    const [mantissa = "", power = "0"] = number.toExponential(digits - 1).split("e");
    const sign = power.startsWith("-") ? "-" : "+";
    return `${trimZeros(mantissa)}e${sign}${power.replace(/^[+-]/, "").padStart(2, "0")}`;
  }
  return trimZeros(number.toFixed(Math.max(0, digits - 1 - exponent)));
}

function trimZeros(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

export function formatCount(value: number): string {
  return value.toLocaleString("en-US");
}

export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  let size = bytes;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(size < 10 ? 1 : 0)} ${units[unit]}`;
}

export function formatShape(shape: readonly number[] | null | undefined): string {
  return shape ? `(${shape.join(",")})` : "?";
}
