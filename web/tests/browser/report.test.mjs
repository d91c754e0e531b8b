// Q9: a report opens from file://, without server or network, and shows what was embedded; what it lacks it says.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { axeFindings, go, settled, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const REPORT = process.env.SONDE_REPORT;
const PAIR = process.env.SONDE_REPORT_PAIR;
const REDACTED = process.env.SONDE_REPORT_REDACTED;
const SMALL = process.env.SONDE_REPORT_SMALL;
const LOG = "Default/network-Network/log-op0";

before(startBrowser);
after(stopBrowser);

test("the sentence, the operator with values, the graph with its path, the tables and the source are in it", async () => {
  await withPage(REPORT, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    const verdict = await text(page, ".verdict");
    for (const part of ["log-op0", "train.py:45", "log of a negative number", "the loss"]) assert.ok(verdict.includes(part), verdict);
    assert.ok((await page.locator(".matrix canvas").count()) >= 2);
    await page.getByRole("button", { name: "Next configuration" }).click();
    assert.match(await text(page, ".next-config pre"), /"iteration"/);
    await page.getByRole("link", { name: "Show the operator" }).click();
    await page.waitForSelector(".histogram .nan");
    await page.getByRole("tab", { name: "Values" }).click();
    await page.waitForSelector(".values td.nan");
    await page.locator(".tab-panel").getByRole("button", { name: "NaN" }).click();
    await page.waitForFunction(() => /\] = nan/i.test(document.querySelector(".read-out")?.textContent ?? ""));
    await page.getByRole("tab", { name: "Heat map" }).click();
    await page.waitForSelector(".heat canvas");
    await page.getByRole("tab", { name: "Trend" }).click();
    await page.waitForSelector(".uplot");
    await go(page, `#/graph?s=2&op=${LOG}&path=effect`);
    await page.waitForSelector(".stations li");
    const stations = await page.locator(".stations li a").allInnerTexts();
    assert.deepEqual(stations.slice(0, 3), ["log-op0", "tanh-op0", "div-op0"]);
    await page.waitForFunction(() => Number(document.querySelector(".graph-view canvas")?.dataset.boxes) > 5); // placed by the worker
    await page.getByRole("button", { name: "Tree" }).click();
    await page.waitForSelector("[role=treeitem]");
    await go(page, "#/source");
    await page.waitForSelector(".source-line.has");
  });
});

test("the tables are sorted and filtered without a server", async () => {
  await withPage(REPORT, {}, async (page) => {
    await go(page, "#/ops?s=2&k=ops&f=class:nan");
    await page.waitForSelector(".grid-row");
    const bad = await page.locator(".count").innerText();
    assert.match(bad, /^[1-9]\d* rows/);
    await go(page, "#/ops?s=2&sort=-l2norm&f=side:output l2norm>0");
    await page.waitForFunction((before) => document.querySelector(".count")?.textContent !== before, bad);
    await settled(page); // the number is there before the rows
    const norms = await page.locator(".grid-row [role=gridcell]:nth-child(9)").allInnerTexts();
    const numbers = norms.map(Number).filter((value) => !Number.isNaN(value));
    assert.ok(numbers.length > 10);
    assert.deepEqual(numbers, [...numbers].sort((a, b) => b - a));
    await page.keyboard.press("/");
    await page.keyboard.type("tanh-op0");
    await page.locator(".hits button", { hasText: "tanh-op0" }).first().click();
    await page.waitForFunction(() => document.querySelector("h1")?.textContent?.includes("tanh-op0"));
  });
});

test("what it lacks is said, with the command that shows it", async () => {
  await withPage(REPORT, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    assert.equal(await page.locator(".rail").getByText("Watch").count(), 0);
    await go(page, "#/graph?s=0");
    await page.waitForSelector(".problem");
    assert.match(await text(page, ".problem"), /This report does not contain it. It is shown by: sonde serve \/.*sick Copy$/);
    assert.match(await text(page, ".problem .command code"), /^sonde serve \/.*sick$/); // to copy
    await go(page, `#/op?s=0&op=${LOG}`);
    await page.waitForFunction(() => document.querySelector(".problem.lacking") && document.querySelector("h1")?.textContent === "log-op0");
    assert.equal(await page.getByText("The dump has no operator of this name").count(), 0, "it has one, and the report lacks it");
    await go(page, "#/ops?s=2&f=**/attention*/**");
    await page.waitForSelector(".ops .problem");
  });
  await withPage(SMALL, {}, async (page) => {
    await page.getByRole("button", { name: "Report" }).click();
    assert.match(await text(page, "dialog"), /Left out.*operators: \d+/);
  });
});

const isLacking = (page) => page.locator("main .problem").evaluateAll((all) => all.some((one) => !one.closest(".tab-panel, .op-right")));

test("the overview says what it has and lacks, only its steps are offered, and every link leads to something", async () => {
  await withPage(SMALL, {}, async (page) => {
    await page.waitForSelector(".report-facts");
    assert.match(await text(page, ".report-facts"), /^What this report contains Steps .*: 1, 2 Left out(?=.*graphs of steps: \d+).*operators: \d+.*Watch and Jobs.*sonde serve \/.*sick/);
    const hasNext = !/next configuration/.test(await text(page, ".report-facts"));
    assert.equal(await page.getByRole("button", { name: "Next configuration" }).count(), hasNext ? 1 : 0);
    assert.deepEqual(await page.getByRole("combobox", { name: "Step" }).locator("option").allInnerTexts(), ["1", "2"]);
    assert.deepEqual((await page.locator(".rail li").allInnerTexts()).map((name) => name.trim()), ["Overview"], "tables, graphs and sources had no room");
    const links = () => page.locator("main a[href^='#/']").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
    const visited = new Set();
    for (let open = await links(); open.length;) {
      const link = open.pop();
      if (visited.has(link)) continue;
      visited.add(link);
      await go(page, link);
      await settled(page);
      assert.ok(!(await isLacking(page)), link);
      if (visited.size < 12) open.push(...(await links()));
    }
    assert.ok(visited.size > 8, [...visited].join());
    await go(page, `#/op?s=2&op=${LOG}`);
    await page.waitForSelector(".op-page");
    const maker = page.locator(".tensor-card .flow", { hasText: "sub-op0" }).locator(".op-link");
    assert.equal(await maker.evaluate((one) => one.tagName), "SPAN", "what it lacks is no link");
    assert.match(await maker.getAttribute("title"), /sub-op0: this report does not contain it/);
  });
});

test("paper cuts no line of source", async () => {
  await withPage(REPORT, { width: 794 }, async (page) => {
    await page.waitForSelector(".first-bad .code .marked");
    await page.emulateMedia({ media: "print" });
    await settled(page);
    const [needed, there] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(needed <= there, `${needed} of ${there} px`);
  });
});

test("two runs: the first difference and the table of pairs", async () => {
  await withPage(PAIR, {}, async (page) => {
    await go(page, "#/compare");
    await page.waitForSelector(".first-difference.bad");
    await page.waitForSelector(".pairs .grid-row .op-link");
    await page.locator(".first-difference .headline a").click();
    await page.waitForSelector(".tensor-card");
    await go(page, "#/compare?view=graphs");
    await page.waitForFunction(() => [...document.querySelectorAll(".linked canvas")].filter((canvas) => Number(canvas.dataset.boxes) > 5).length === 2);
    await go(page, "#/compare?f=type:log");
    await page.waitForFunction(() => document.querySelectorAll(".pairs .grid-row").length > 0 && [...document.querySelectorAll(".pairs .grid-row")].every((row) => row.textContent.includes("log-op")));
  });
});

test("a redacted one is still of use", async () => {
  await withPage(REDACTED, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    assert.match(await text(page, ".first-bad .headline"), /log-op0/);
    assert.match(await text(page, ".first-bad .why"), /^log made it: \d+ of \d+ NaN/);
    await page.getByRole("link", { name: "Show the path" }).click();
    await page.waitForSelector(".stations li");
    assert.doesNotMatch(await page.locator("body").innerText(), /Network|train\.py|torch\.log/);
  });
});

for (const [kind, options] of [["light", {}], ["dark", { dark: true }], ["narrow", { width: 390, height: 844 }]]) {
  test(`axe finds nothing, ${kind}`, async () => {
    await withPage(REPORT, options, async (page) => {
      await page.waitForSelector(".verdict.bad");
      assert.deepEqual(await axeFindings(page), [], `overview, ${kind}`);
      await page.getByRole("button", { name: "Report" }).click();
      await page.waitForSelector("dialog[open]");
      assert.deepEqual(await axeFindings(page), [], `what it contains, ${kind}`);
    });
  });
}
