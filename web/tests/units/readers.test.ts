// The files below were written by NumPy 2.4 and pyarrow 26.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { bitsOf, elementAt, readNpy } from "../../src/npy.ts";
import { arrowTable, parseEvent, rowTable } from "../../src/source/http.ts";

function file(name: string): ArrayBuffer {
  const bytes = readFileSync(`tests/units/files/${name}`);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
}

test("npy files of every type that the server sends", () => {
  for (const name of ["f8", "f4", "f2", "i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1"]) {
    const npy = readNpy(file(`${name}.npy`));
    assert.deepEqual(npy.shape, [2, 3], name);
    assert.deepEqual([0, 1, 2, 3, 4, 5].map((i) => elementAt(npy, i)), [0, 1, 2, 3, 4, 5], name);
  }
  const special = readNpy(file("special.npy"));
  assert.deepEqual([0, 1, 2, 3].map((i) => elementAt(special, i)), [NaN, Infinity, -Infinity, 5.960464477539063e-8]);
  assert.deepEqual(readNpy(file("scalar.npy")).shape, []);
  assert.equal(elementAt(readNpy(file("complex.npy")), 1), 3);
});

test("the bits of an element, the highest first", () => {
  assert.equal(bitsOf(readNpy(file("f4.npy")), 1), "3f800000");
  assert.equal(bitsOf(readNpy(file("f8.npy")), 2), "4000000000000000");
  assert.equal(bitsOf(readNpy(file("i2.npy")), 5), "0005");
  assert.match(bitsOf(readNpy(file("complex.npy")), 1), /^40400000(0{8})? [0-9a-f]{8,16}$/);
});

test("what is no npy file is refused with a reason", () => {
  assert.throws(() => readNpy(new ArrayBuffer(4)), /no \.npy file/);
  assert.throws(() => readNpy(new TextEncoder().encode("{\"title\": \"not found\"}").buffer as ArrayBuffer), /no \.npy file/);
  const bytes = new Uint8Array(file("f4.npy")).map((byte, i) => (i === 22 ? 120 : byte));
  assert.throws(() => readNpy(bytes.buffer), /not understood/);
});

test("an Arrow stream and rows of JSON are the same table", () => {
  const rows = [
    { row: "a", row_number: 0, last_step: 4_294_967_299, class: "nan", l2norm: 1.5, opens: true },
    { row: "b", row_number: 1, last_step: 2, class: "fine", l2norm: null, opens: false },
    { row: "a", row_number: 2, last_step: 3, class: "nan", l2norm: Infinity, opens: true },
  ];
  const tables = [arrowTable(file("table.arrow"), 7, 2), rowTable({ count: 7, generation: 2, rows })];
  for (const table of tables) {
    assert.equal(table.rows, 3);
    assert.equal(table.count, 7);
    for (const [i, row] of rows.entries()) for (const [name, value] of Object.entries(row)) assert.equal(table.get(name, i), value, `${name} ${i}`);
    assert.equal(table.get("nowhere", 0), undefined);
  }
});

test("an event of the stream", () => {
  assert.deepEqual(parseEvent('event: grown\nid: 12\ndata: {"dump": 0, "generation": 3}'), { event: { event: "grown", data: { dump: 0, generation: 3 } }, id: 12 });
  assert.equal(parseEvent(": only a comment"), null);
});
