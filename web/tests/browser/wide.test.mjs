// A run of 30 steps with a scope of more than 100 operators, a value with many readers, and a NaN from step 20 on; in golden two
// operators run in another order. And a graph of more than 3,000 boxes.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, settled, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const { SONDE_PAGE_WIDE: WIDE, SONDE_PAGE_BIG: BIG, SONDE_PAGE_RANKS: RANKS } = process.env;
const NET = "Default/network-Wide";

before(startBrowser);
after(stopBrowser);

const boxes = (page) => page.locator("canvas[data-boxes]").getAttribute("data-boxes").then(Number);
const textOf = (page, selector) => page.locator(selector).allInnerTexts();

test("a row of the table has the course of its norm over the steps; steps without a number are marked", async () => {
  await withPage(WIDE, {}, async (page) => {
    await go(page, `#/ops?s=3&f=${NET}/add-op5`);
    await page.waitForSelector(".spark");
    const label = await page.locator(".spark").last().getAttribute("aria-label");
    assert.match(label, /^Course over the steps: 0: [\d.]+, 1: [\d.]+/);
    assert.equal(await page.locator(".spark").last().locator(".bad").count(), 1); // one mark for the steps in a row
    await page.getByRole("tab", { name: "Operators" }).click();
    await page.waitForSelector(".grid-row .spark");
  });
});

test("the health map zooms to some steps, by its buttons and its keys, and shows all rows of a scope", async () => {
  await withPage(WIDE, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    const map = page.locator(".card", { hasText: "Health by scope and step" });
    await map.locator(".zoom").waitFor();
    assert.match(await map.locator(".zoom").innerText(), /steps 0 to 29/);
    await map.getByRole("button", { name: "Fewer steps" }).click();
    await page.waitForFunction(() => /hm=\d+-\d+/.test(location.hash));
    await map.locator("canvas").focus();
    await page.keyboard.press("+");
    await map.getByRole("button", { name: "As a table" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".matrix table th[scope=col]").length <= 9);
    const [from, to] = new URL(page.url()).hash.match(/hm=(\d+)-(\d+)/).slice(1).map(Number);
    assert.equal((await map.locator("th[scope=col]").allInnerTexts())[1], `step ${from}`);
    assert.ok(to - from < 8, `${from} to ${to}`);
    await map.getByRole("button", { name: "As a picture" }).click();
    await map.getByRole("button", { name: "All steps" }).click();
    await map.getByRole("button", { name: "network-Wide" }).click();
    await map.getByRole("button", { name: /^add × 1\d\d$/ }).click();
    await page.waitForFunction(() => [...document.querySelectorAll(".matrix-names li")].some((row) => row.textContent === "add-op129"));
    await map.locator("canvas").focus();
    await page.keyboard.press("End");
    await map.locator("canvas").press("PageDown");
    assert.ok((await map.locator(".matrix-body").evaluate((body) => body.scrollTop)) > 0);
  });
});

test("columns of the health map that the mouse is drawn over are all that it shows then", async () => {
  await withPage(WIDE, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    const canvas = page.locator(".card", { hasText: "Health by scope and step" }).locator("canvas");
    await settled(page);
    await canvas.scrollIntoViewIfNeeded();
    const { x, y, width } = await canvas.boundingBox();
    await page.mouse.move(x + width * 0.35, y + 34);
    await page.mouse.down();
    await page.mouse.move(x + width * 0.65, y + 34, { steps: 4 });
    await page.mouse.up();
    await page.waitForFunction(() => /hm=1\d-(1|2)\d/.test(location.hash));
  });
});

test("the graph finds operators in the order of the run, opens their scopes, and has pins for what many read", async () => {
  await withPage(WIDE, {}, async (page) => {
    await go(page, "#/graph?s=1");
    await page.waitForSelector("canvas[data-boxes]");
    const few = await boxes(page);
    await page.getByLabel("Find an operator").fill("sgd");
    await page.getByLabel("Find an operator").fill("optimizer");
    assert.match(await text(page, ".graph-found"), /^\d+ found$/);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => /^1 of /.test(document.querySelector(".graph-found").textContent));
    await page.waitForFunction((before) => Number(document.querySelector("canvas[data-boxes]").dataset.boxes) > before, few);
    await page.keyboard.press("Shift+Enter");
    await page.waitForFunction(() => /^(\d+) of \1$/.test(document.querySelector(".graph-found").textContent));
    await page.getByLabel("Find an operator").fill("add-op1");
    const names = await textOf(page, ".graph-hits li button");
    assert.match(names[0], /^add-op1\b/);
    assert.match(names[1], /^add-op10\b/);
    const pins = await page.locator("canvas[data-boxes]").getAttribute("data-pins");
    assert.ok(Number(pins) >= 130, `${pins} pins`);
  });
});

test("Shift opens everything below, and asks before more than 3,000 boxes", async () => {
  await withPage(BIG, {}, async (page) => {
    await go(page, "#/graph");
    await page.getByRole("button", { name: "Tree" }).click();
    await page.locator("[role=treeitem]").first().waitFor();
    await settled(page);
    await page.locator("[role=treeitem]").first().focus();
    await page.keyboard.press("Shift+Enter");
    await page.waitForSelector(".graph-note[role=alert]");
    const asked = Number((await text(page, ".graph-note[role=alert]")).match(/shows (\d+) boxes/)[1]);
    assert.ok(asked > 3000, `${asked} boxes`);
    await page.getByRole("button", { name: "Picture of the graph" }).click();
    await page.locator(".graph-note[role=alert]").getByRole("button", { name: "Open" }).click();
    await page.waitForFunction((all) => Number(document.querySelector("canvas[data-boxes]")?.dataset.boxes) === all, asked);
  });
});

test("a trend marks the steps whose number has no place in the picture", async () => {
  await withPage(WIDE, {}, async (page) => {
    await go(page, `#/op?s=3&op=${NET}/add-op5&t=o0&tab=trend`);
    await page.waitForSelector(".plot .edges");
    assert.match(await text(page, ".plot .edges"), /^10 numbers are NaN, infinite or outside of the picture/);
  });
});

test("the colour of the rank that differs", async () => {
  await withPage(RANKS, {}, async (page) => {
    await go(page, "#/graph?r=0&s=1&colour=rank");
    await page.waitForSelector("canvas[data-boxes]");
    await page.waitForFunction(() => {
      const canvas = document.querySelector("canvas[data-boxes]");
      const draw = canvas.getContext("2d");
      draw.save();
      draw.fillStyle = "hsl(157 62% 76%)"; // of rank 1
      const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(draw.fillStyle.slice(at, at + 2), 16));
      draw.restore();
      const { data } = draw.getImageData(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < data.length; i += 4) if (data[i] === red && data[i + 1] === green && data[i + 2] === blue) return true;
      return false;
    });
    assert.match(await text(page, ".graph-scale"), /only this rank differs/);
  });
});

test("a comparison that another page has started is followed to its end", async () => {
  await withPage(WIDE, {}, async (page) => {
    await go(page, "#/compare");
    await page.waitForSelector(".pairs .grid-row .op-link");
  });
  await withPage(WIDE, {}, async (page) => {
    let asked = 0;
    const running = async (route, change) => {
      const answer = await (await route.fetch()).json();
      await route.fulfill({ json: change(answer) });
    };
    await page.route(({ pathname }) => pathname.endsWith("/jobs"), (route) => running(route, ({ jobs }) => ({ jobs: jobs.map((job) => ({ ...job, state: "running" })) })));
    await page.route(({ pathname }) => /\/jobs\/\d+$/.test(pathname), (route) => running(route, (job) => (asked++ < 2 ? { ...job, state: "running" } : job)));
    await page.reload(); // the overview has asked already
    await go(page, "#/compare");
    await page.waitForSelector(".pairs .grid-row .op-link");
    assert.ok(asked > 2);
  });
});

test("pairs are filtered by the words of the tables, moved operators are marked, and scopes open in both graphs", async () => {
  await withPage(WIDE, {}, async (page) => {
    await go(page, "#/compare");
    await page.waitForSelector(".pairs .grid-row .op-link");
    const rows = async () => Number((await text(page, ".card .count")).replace(/\D/g, ""));
    const all = await rows();
    await page.getByRole("button", { name: /operators? moved$/ }).click();
    await page.waitForFunction(() => document.querySelectorAll(".pairs .grid-row .moved").length > 0);
    assert.ok((await rows()) < all / 10);
    assert.match((await textOf(page, ".pairs .grid-row .op-link span")).join(" "), /sigmoid-op0|tanh-op0/);
    for (const [filter, test] of [["type:linear step<3", 3], ["op:/tanh step=2", 1], ["(", 0], ["add-op12*  step=4", 11]]) {
      await page.getByLabel("Filter").fill(filter);
      await page.getByLabel("Filter").press("Enter");
      await page.waitForFunction((wanted) => Number(document.querySelector(".card .count").textContent.replace(/\D/g, "")) === wanted, test);
    }
    await page.getByLabel("Filter").fill("op:(");
    await page.getByLabel("Filter").press("Enter");
    await page.waitForSelector(".card .problem");
    await page.getByLabel("Filter").fill("op:^(([\\w/-]+)+)+!$"); // would take for ever
    await page.getByLabel("Filter").press("Enter");
    await page.getByText(/were given up after 3 s/).waitFor();
    await page.getByLabel("Filter").fill("type:linear step<3");
    await page.getByLabel("Filter").press("Enter");
    await page.waitForFunction(() => document.querySelector(".card .count").textContent === "3 rows");

    await go(page, "#/compare?view=graphs&s=1");
    await page.waitForFunction(() => document.querySelectorAll(".linked [data-open]").length === 2 && [...document.querySelectorAll(".linked [data-open]")].every((half) => Number(half.dataset.open) > 0));
    const open = () => page.locator(".linked [data-open]").evaluateAll((halves) => halves.map((half) => Number(half.dataset.open)));
    await settled(page);
    const before = await open();
    // The first box that is found by arrows and is no operator: the lane beside.
    await page.locator(".linked-half[aria-label=Target] canvas").focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await page.waitForFunction((was) => [...document.querySelectorAll(".linked [data-open]")].every((half, i) => Number(half.dataset.open) !== was[i]), before);
    const now = await open();
    assert.equal(now[0] - before[0], now[1] - before[1]);
  });
});
