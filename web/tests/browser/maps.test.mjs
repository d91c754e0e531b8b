// Maps, tables and graphs point at the finding: a dump with one NaN of four elements in step 5, which spreads, and gradients that are
// 1e9 times as large in step 2; and two runs that differ.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, settled, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const { SONDE_PAGE_MAPS: MAPS, SONDE_PAGE_PAIR: PAIR } = process.env;
const LOG = "Default/network-Net/body-Body/blocks/2-Block/log-op0";
const PART = /1 of 4 NaN, rest -?[\d.]+ … -?[\d.]+/;

before(startBrowser);
after(stopBrowser);

const card = (page, name) => page.locator(".card", { has: page.getByRole("heading", { name, exact: true }) });
const names = (map) => map.locator(".matrix-names li").allInnerTexts().then((all) => all.map((name) => name.replace(/^[›\s]+/, "").trim()));

// The colour of a point of a canvas, by its place on the screen.
const colourAt = (canvas, x, y) => canvas.evaluate((element, [left, top]) => {
  const scale = element.width / element.clientWidth;
  return [...element.getContext("2d").getImageData(left * scale, top * scale, 1, 1).data].join();
}, [x, y]);
const [HEAD, ROW] = [20, 24]; // of parts/matrix.tsx
const cellColour = async (canvas, row, column, columns) => {
  const { width } = await canvas.boundingBox();
  return colourAt(canvas, ((column + 0.2) * width) / columns, HEAD + (row + 0.25) * ROW);
};

// On a slow machine a card above grows meanwhile, and the canvas moves away from under the pointer.
async function pointAt(page, canvas, tip, place) {
  for (let left = 20; ; left -= 1) {
    await canvas.scrollIntoViewIfNeeded();
    const pointer = place(await canvas.boundingBox());
    await page.mouse.move(pointer[0] - 2, pointer[1]);
    await page.mouse.move(...pointer);
    const seen = await tip.waitFor({ timeout: left ? 2000 : undefined }).then(() => true, (error) => (left ? false : assert.fail(error)));
    if (seen) return pointer;
  }
}

test("norms of gradients: each row by its own median, a read-out at the pointer, and a click opens the trend of the operator", async () => {
  await withPage(MAPS, {}, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    const map = card(page, "Norms of gradients");
    const canvas = map.locator("canvas");
    await canvas.scrollIntoViewIfNeeded();
    await settled(page);
    const rows = await names(map);
    const row = rows.indexOf("body.blocks.0.inner.weight.grad");
    assert.ok(row >= 0, rows.join());
    const colours = await Promise.all([0, 1, 2, 3, 4].map((column) => cellColour(canvas, row, column, 8)));
    assert.equal(new Set(colours).size, 5, `without the one of step 2 they are not of one colour: ${colours}`);
    for (const [atRow, column] of [[row, 3], [rows.length - 1, 4]]) {
      const tip = map.locator(".tip");
      const pointer = await pointAt(page, canvas, tip, ({ x, y, width }) => [x + ((column + 0.9) * width) / 8, y + HEAD + (atRow + 0.5) * ROW]);
      assert.match(await tip.innerText(), new RegExp(`^${rows[atRow]}, step ${column}: [\\d.e+-]+, [\\d.e+-]+ times the median`));
      const box = await tip.boundingBox();
      assert.ok(box.x >= 0 && box.y >= 0 && box.x + box.width <= 1280 && box.y + box.height <= 800, JSON.stringify(box));
      assert.ok(Math.abs(box.y - pointer[1]) < 80, `${box.y} is not at ${pointer[1]}`);
    }
    const { x, y, width } = await canvas.boundingBox();
    await page.mouse.click(x + (3.5 * width) / 8, y + HEAD + (row + 0.5) * ROW);
    await page.waitForSelector(".op-page .plot canvas");
    const { hash } = new URL(page.url());
    assert.match(hash, /tab=trend/);
    assert.match(hash, /s=3/);
    assert.match(await text(page, ".tensor-card.chosen"), /body\.blocks\.0\.inner\.weight/);
  });
});

test("Watch: conditions in sentences, a summary first, the newest hit of each tensor, and every row can be reached", async () => {
  await withPage(MAPS, {}, async (page) => {
    await go(page, "#/watch");
    await page.waitForSelector(".conditions li");
    for (const line of await page.locator(".conditions li").allInnerTexts()) assert.match(line.trim(), /\w+ \w+/, "a sentence, not a name alone");
    await page.getByLabel("has_nan").check();
    await page.getByRole("button", { name: "Check" }).click();
    await page.waitForSelector(".watch-summary tbody tr");
    const summary = await page.locator(".watch-summary tbody tr").allInnerTexts();
    const nan = summary.find((line) => line.includes("has_nan"))?.replaceAll(/\s+/g, " ");
    const [, first, hits, ops] = nan.match(/a NaN\. has_nan (\d+) ([\d,]+) ([\d,]+)$/) ?? assert.fail(nan);
    assert.equal(first, "5");
    const grid = page.getByRole("grid", { name: "Hits" });
    const rows = async () => Number(await grid.getAttribute("aria-rowcount")) - 1;
    assert.equal((await grid.locator(".grid-row").first().boundingBox()).height, 24);
    const newest = await rows();
    await page.locator(".watch-summary tbody tr", { hasText: "has_nan" }).getByRole("button").click();
    await page.waitForFunction((all) => Number(document.querySelector("[role=grid]").getAttribute("aria-rowcount")) - 1 < all, newest);
    const log = grid.locator(".grid-row", { hasText: "body › blocks › 2" }).filter({ hasText: /^log-op0/ });
    assert.match((await log.first().innerText()).replaceAll(/\s+/g, " "), /output\.0 7 3 .*\d+ of 4/); // the newest of three
    assert.ok(Number(ops.replace(",", "")) <= (await rows()));
    await page.getByLabel("All hits").check();
    await page.waitForFunction((all) => Number(document.querySelector("[role=grid]").getAttribute("aria-rowcount")) - 1 === all, Number(hits.replace(",", "")));
    await grid.focus();
    await page.keyboard.press("End");
    await page.waitForSelector(`.grid-row[aria-rowindex="${(await rows()) + 1}"] .op-link`);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".op-page");
  });
});

test("Headroom: a map of scopes by type, which opens to the operators; a cell opens the tensor that loses most", async () => {
  await withPage(MAPS, {}, async (page) => {
    await go(page, "#/watch");
    const own = card(page, "Headroom of other types");
    await own.getByRole("button", { name: "Ask" }).click();
    await own.locator(".matrix-names li").first().waitFor();
    const rows = await names(own);
    assert.equal(rows[0], "everything");
    assert.ok(rows.includes("Default") && rows.includes("Gradients/Default"), rows.join());
    const of = async () => {
      await own.getByRole("button", { name: "Table" }).click();
      const table = await own.locator(".matrix tr").allInnerTexts();
      await own.getByRole("button", { name: "Picture" }).click();
      return table.map((line) => line.replaceAll("\t", " "));
    };
    const [head, ...lines] = await of();
    assert.match(head, /float16 bfloat16 float8_e4m3fn float8_e5m2/);
    assert.ok(lines.some((line) => /over|overflows/.test(line)), "gradients of 1e9 overflow in float16");
    assert.ok(lines.every((line) => /most in \S+:output\.\d/.test(line)), lines.join("\n"));
    const closed = own.locator(".matrix-names button[aria-expanded=false]").first();
    await closed.click();
    await page.waitForFunction((count) => document.querySelectorAll("[aria-label='Headroom of other types'] .matrix-names li").length > count, rows.length);
    const canvas = own.locator("canvas");
    await canvas.focus();
    await page.keyboard.press("Enter");
    await page.waitForSelector(".op-page");
    await page.goBack();
    await own.locator(".matrix-names li").first().waitFor(); // the answer is still there
    await own.getByLabel("Types").fill("float17");
    await own.getByRole("button", { name: "Ask" }).click();
    await own.locator(".problem", { hasText: "float17" }).waitFor();
  });
});

test("Compare: the card of the overview with the lines of both, the first difference in the curve, the worst rows first, each opens", async () => {
  await withPage(PAIR, {}, async (page) => {
    const bothLines = () => page.waitForFunction(() => document.querySelectorAll(".first-difference .code .marked").length === 2);
    await bothLines(); // each comes with an answer of its own
    const said = (all) => all.replaceAll(/\s+/g, " ");
    const shown = said(await page.locator(".first-difference").innerText()).replace("Show the comparison ", "");
    await go(page, "#/compare");
    await page.waitForSelector(".pairs .grid-row .op-link");
    await bothLines();
    assert.equal(said(await page.locator(".first-difference").innerText()), shown);
    for (const line of await page.locator(".first-difference .code .marked").allInnerTexts()) assert.match(line, /net\(torch\.randn\(3, 4\)\)/);
    assert.match(await page.locator(".plot [role=img]").getAttribute("aria-label"), /operators in the order of the run.*error over rounding.*First difference: 1/);
    const verdicts = await page.locator(".pairs .grid-row .verdict-word").allInnerTexts();
    assert.equal(verdicts[0], "introduced");
    const first = verdicts.indexOf("identical");
    assert.ok(first < 0 || verdicts.slice(first).every((word) => word === "identical"), verdicts.join());
    await page.locator(".pairs .grid-row").first().locator("[role=gridcell]").nth(3).click();
    await page.waitForFunction(() => document.querySelector(".pane h2")?.textContent === "gelu-op0");
    await page.keyboard.press("j");
    await page.waitForFunction(() => document.querySelectorAll(".pairs .grid-row.chosen")[0]?.getAttribute("aria-rowindex") === "3");
    await page.keyboard.press("k");
    await page.waitForFunction(() => document.querySelectorAll(".pairs .grid-row.chosen")[0]?.getAttribute("aria-rowindex") === "2");
    await page.keyboard.press("ArrowDown");
    await page.waitForFunction(() => document.querySelectorAll(".pairs .grid-row.chosen")[0]?.getAttribute("aria-rowindex") === "3");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".op-page");
    await go(page, "#/compare");
    await page.locator(".first-difference").getByRole("link", { name: "Both graphs" }).click();
    await page.waitForSelector(".linked canvas");
    await page.locator(".first-difference").getByRole("link", { name: "Show the operator" }).click();
    await page.waitForFunction(() => document.querySelector("h1")?.textContent?.includes("gelu-op0"));
  });
});

test("the health map is open at the finding, whose cell has a ring; equal rows are one, only children cost no row, what follows is dim", async () => {
  await withPage(MAPS, {}, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    const map = card(page, "Health by scope and step");
    const canvas = map.locator("canvas[data-ring]");
    await canvas.waitFor();
    await settled(page);
    const rows = await names(map);
    assert.deepEqual(rows.slice(0, 2), ["Default", "network-Net/body-Body/blocks"]);
    // The finding is in step 5; those of other kinds beside it have nothing wrong in any step.
    const folded = rows.find((name) => name.endsWith("with nothing wrong"));
    assert.ok(folded && !rows.includes("sin-op0"), rows.join());
    const [row, column] = (await canvas.getAttribute("data-ring")).split(",").map(Number);
    assert.equal(rows[row], "log-op0");
    assert.equal(rows.findLast((name, at) => at < row && name.endsWith("-Block")), "2-Block");
    assert.equal(column, 5);
    const [found, later] = await Promise.all([5, 6].map((at) => cellColour(canvas, 0, at, 8)));
    assert.equal(found, await canvas.evaluate((element) => {
      const probe = document.createElement("canvas").getContext("2d");
      probe.fillStyle = getComputedStyle(element).getPropertyValue("--nan");
      probe.fillRect(0, 0, 1, 1);
      return [...probe.getImageData(0, 0, 1, 1).data].join();
    }));
    assert.notEqual(later, found);
    await map.getByRole("button", { name: folded }).click();
    await map.getByRole("button", { name: "to × 54" }).click();
    for (const name of ["sin-op0", "to-op53"]) {
      await page.waitForFunction((text) => [...document.querySelectorAll(".matrix-names li")].some((line) => line.textContent === text), name);
    }
  });
});

test("tables, cards and paths count what is NaN and say what the rest is", async () => {
  await withPage(MAPS, {}, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    await go(page, `#/ops?s=5&f=${LOG}`);
    await page.waitForFunction((part) => new RegExp(part).test(document.querySelector(".grid")?.innerText), PART.source);
    assert.doesNotMatch(await text(page, ".grid"), /\bnan nan\b/);
    const column = page.getByRole("columnheader", { name: "operator" });
    const width = async () => (await column.boundingBox()).width;
    const before = await width();
    assert.ok(before > 240, `the name has ${before} px`);
    const { x, y, height } = await column.boundingBox();
    await page.mouse.move(x + before + 2, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x + before + 82, y + height / 2, { steps: 3 });
    await page.mouse.up();
    assert.ok(Math.abs((await width()) - before - 80) < 4, `${await width()} after ${before}`);
    await go(page, `#/op?s=5&op=${LOG}&t=o0`);
    await page.waitForFunction((part) => new RegExp(part).test(document.querySelector(".tensor-card.chosen")?.innerText.replaceAll(/\s+/g, " ")), PART.source);
    await go(page, `#/graph?s=5&op=${LOG}&path=effect`);
    await page.waitForFunction((part) => new RegExp(part).test(document.querySelector(".stations li")?.innerText), PART.source);
    assert.doesNotMatch(await text(page, ".stations"), /nan … nan/);
  });
});

test("the graph opens at the finding, whose box has a ring; no button covers another", async () => {
  await withPage(MAPS, {}, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    await go(page, "#/graph");
    await page.waitForSelector("canvas[data-found]");
    await settled(page);
    const canvas = page.locator("canvas[data-found]");
    const frame = await canvas.boundingBox();
    const [name, x, y, width, height] = (await canvas.getAttribute("data-found")).split(" ");
    assert.equal(name, `op:${LOG}`);
    assert.ok(Number(x) >= 0 && Number(y) >= 40 && Number(x) + Number(width) <= frame.width && Number(y) + Number(height) <= frame.height, `${[x, y, width, height]}`);
    assert.ok(Number(height) > 10, "it can be read");
    await go(page, `#/graph?op=${LOG}`);
    await page.waitForSelector(".pane .tensor-card");
    const boxes = await page.locator(".graph-tools").locator("button, a, label, input").evaluateAll((all) => all.map((one) => {
      const { left, right, top, bottom } = one.getBoundingClientRect();
      return { what: one.textContent, left, right, top, bottom };
    }));
    for (const [i, a] of boxes.entries()) {
      for (const b of boxes.slice(i + 1)) assert.ok(a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top, `${a.what} and ${b.what}`);
    }
  });
});

test("what MindSpore runs beside its cells is of the forward pass", async () => {
  await withPage(MAPS, {}, async (page) => {
    await page.route((url) => url.pathname.endsWith("/overview"), async (route) => {
      const json = await (await route.fetch()).json();
      for (const rank of json.ranks) for (const run of rank.runs) run.host = "mindspore 2.7.0, CPython 3.11.7";
      await route.fulfill({ json });
    });
    await page.reload();
    await page.waitForSelector(".first-bad.bad");
    await go(page, "#/graph");
    await page.getByRole("button", { name: "Tree" }).click();
    await page.waitForSelector("[role=treeitem]");
    const lanes = await page.locator("[role=treeitem][aria-level='1'] > span").allInnerTexts();
    assert.deepEqual(lanes.map((lane) => lane.match(/Forward|Backward|Optimizer|Outside/)?.[0]), ["Forward", "Backward", "Optimizer"]);
  });
});
