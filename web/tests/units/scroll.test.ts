import assert from "node:assert/strict";
import test from "node:test";
import { MOST_HEIGHT, positionOf, ROW_HEIGHT, rowsAt, scrollHeight } from "../../src/scroll.ts";

const ROWS = 10_000_000;
const VIEW = 700;

test("ten million rows fit into an element that browsers do not clip", () => {
  assert.equal(scrollHeight(ROWS), MOST_HEIGHT);
  assert.equal(scrollHeight(100), 2400);
});

test("the ends of the bar show the first and the last row", () => {
  for (const rows of [1, 20, 1000, ROWS]) {
    assert.equal(rowsAt(0, VIEW, rows).first, 0);
    const end = rowsAt(scrollHeight(rows), VIEW, rows);
    assert.equal(end.first + end.count, rows);
    const bottom = end.top + end.count * ROW_HEIGHT;
    assert.ok(rows * ROW_HEIGHT < VIEW || Math.abs(bottom - scrollHeight(rows)) < 1e-6, `${rows} rows end at ${bottom}`);
  }
});

test("at any place the view is covered by at most 60 rows", () => {
  for (const rows of [100, 1000, ROWS]) {
    const height = scrollHeight(rows);
    for (let i = 0; i <= 1000; i += 1) {
      const top = ((height - VIEW) * i) / 1000;
      const view = rowsAt(top, VIEW, rows);
      assert.ok(view.count <= 60);
      assert.ok(view.top <= top + 1e-6 && view.top + view.count * ROW_HEIGHT >= top + VIEW - 1e-6, `not covered at ${top} of ${rows}`);
    }
  }
});

test("every row can be reached by the keyboard", () => {
  let top = 0;
  for (const row of [0, 1, 5, 4_999_999, 5_000_000, ROWS - 1, 7]) {
    top = positionOf(row, top, VIEW, ROWS);
    const view = rowsAt(top, VIEW, ROWS);
    assert.ok(row >= view.first && row < view.first + view.count, `row ${row} is not in ${view.first}+${view.count}`);
  }
});
