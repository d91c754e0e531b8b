// Reads NumPy's .npy, versions 1 to 3, of the types that the server sends.
export interface Npy {
  dtype: string;
  shape: number[];
  values: ArrayLike<number | bigint>;
  bytes: Uint8Array; // of the elements
}

const READERS: Readonly<Record<string, (bytes: ArrayBuffer) => ArrayLike<number | bigint>>> = {
  "<f8": (bytes) => new Float64Array(bytes),
  "<f4": (bytes) => new Float32Array(bytes),
  "<f2": halves,
  "<i8": (bytes) => new BigInt64Array(bytes),
  "<u8": (bytes) => new BigUint64Array(bytes),
  "<i4": (bytes) => new Int32Array(bytes),
  "<u4": (bytes) => new Uint32Array(bytes),
  "<i2": (bytes) => new Int16Array(bytes),
  "<u2": (bytes) => new Uint16Array(bytes),
  "|i1": (bytes) => new Int8Array(bytes),
  "|u1": (bytes) => new Uint8Array(bytes),
  "|b1": (bytes) => new Uint8Array(bytes),
  "<c8": (bytes) => new Float32Array(bytes),
  "<c16": (bytes) => new Float64Array(bytes),
};

export function readNpy(bytes: ArrayBuffer): Npy {
  const view = new DataView(bytes);
  if (bytes.byteLength < 10 || view.getUint32(0) !== 0x934e554d || view.getUint16(4) !== 0x5059) {
    throw new Error("these bytes are no .npy file: the first six are not \\x93NUMPY");
  }
  const long = view.getUint8(6) >= 2;
  const start = long ? 12 : 10;
  const length = long ? view.getUint32(8, true) : view.getUint16(8, true);
  const header = new TextDecoder().decode(new Uint8Array(bytes, start, Math.min(length, bytes.byteLength - start)));
  const dtype = /'descr':\s*'([^']+)'/.exec(header)?.[1] ?? "";
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header)?.[1];
  const read = READERS[dtype];
  if (!read || shape === undefined) throw new Error(`the header of this .npy file is not understood: ${header.trim()}`);
  const sizes = shape.split(",").filter((part) => part.trim() !== "").map(Number);
  const elements = bytes.slice(start + length);
  return { dtype, shape: sizes, values: read(elements), bytes: new Uint8Array(elements) };
}

function halves(bytes: ArrayBuffer): Float32Array {
  return Float32Array.from(new Uint16Array(bytes), (bits) => {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  });
}

// One element as text: complex ones have two numbers, booleans words.
export function elementAt({ dtype, values }: Npy, index: number): number {
  return Number(dtype.startsWith("<c") ? values[index * 2] : values[index]);
}

// The bits of one element in hexadecimal digits, the highest first; of a complex one those of both numbers.
export function bitsOf({ dtype, bytes }: Npy, index: number): string {
  const size = Number(/\d+$/.exec(dtype)?.[0] ?? 1);
  const part = dtype.startsWith("<c") ? size / 2 : size;
  const words: string[] = [];
  for (let at = index * size; at < (index + 1) * size; at += part) {
    words.push([...bytes.subarray(at, at + part)].reverse().map((byte) => byte.toString(16).padStart(2, "0")).join(""));
  }
  return words.join(" ");
}
