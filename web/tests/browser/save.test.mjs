// What the browser saves: a table, a comparison, the report. A comparison with pairs that the user gives.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { go, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const PAIR = process.env.SONDE_PAGE_PAIR;

before(startBrowser);
after(stopBrowser);

async function saved(page, click) {
  const [download] = await Promise.all([page.waitForEvent("download"), click()]);
  return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

test("a table is saved with its filter and its order, and a report with the comparison", async () => {
  await withPage(PAIR, {}, async (page) => {
    await go(page, "#/ops?all=1&f=class%3Anan&sort=-op_name");
    await page.waitForSelector(".grid-row .op-link");
    const rows = Number((await text(page, ".count")).replace(/\D/g, ""));
    const csv = await saved(page, () => page.getByRole("button", { name: "CSV" }).click());
    assert.equal(csv.name, "tensors.csv");
    const lines = csv.bytes.toString().trimEnd().split("\n");
    assert.equal(lines.length, rows + 1);
    assert.match(lines[0], /^rank,run,graph,step,op_name,/);
    const names = lines.slice(1).map((line) => line.split(",")[4]);
    assert.ok(names[0] > names.at(-1), `${names[0]} is not after ${names.at(-1)}`);
    const arrow = await saved(page, () => page.getByRole("button", { name: "Arrow" }).click());
    assert.equal(arrow.name, "tensors.arrow");
    assert.equal(arrow.bytes.readUInt32LE(0), 0xffffffff); // a stream begins so

    await go(page, "#/op?s=1&op=head.weight");
    await page.waitForSelector(".op-page");
    await page.getByRole("button", { name: "Report", exact: true }).click();
    await page.getByLabel("step 1 and head.weight, as on the screen").waitFor();
    const report = await saved(page, () => page.getByRole("button", { name: "Make the report" }).click());
    assert.equal(report.name, "report.html");
    assert.match(report.bytes.subarray(0, 200).toString(), /^<!doctype html>/);
    await page.getByText(/report\.html, .*was saved/).waitFor();
    assert.match(await text(page, "dialog .command code"), /--step=1 --graph=0 --rank=0 --select=head\.weight --values=selected$/);
  });
});

test("a comparison takes the pairs that a user gives, and says what is wrong with them", async () => {
  await withPage(PAIR, {}, async (page) => {
    await go(page, "#/compare");
    await page.waitForSelector(".pairs .grid-row .op-link");
    const field = page.getByRole("textbox", { name: "Pairs of operators" });
    for (let left = 5; left > 0 && !(await field.isVisible()); left -= 1) { // what loads meanwhile moves it from under the click
      await page.getByText("Pairs of operators").click();
      await field.waitFor({ timeout: 5000 }).catch(() => {});
    }
    const run = page.getByRole("button", { name: "Compare", exact: true });
    await field.fill("log-op0 tanh-op0");
    await run.click();
    await page.waitForSelector(".problem");
    assert.match(await text(page, ".problem"), /mapping 'mapping\.txt': line 1 has 1 columns; expected target,golden/);
    assert.ok((await page.locator(".pairs .grid-row").count()) > 10); // the comparison before it stays
    await field.fill("log-op0,log-op0");
    await run.click();
    await page.waitForSelector(".problem", { state: "detached" });
    const button = page.getByRole("button", { name: "CSV" });
    await button.waitFor();
    const csv = await saved(page, () => button.click());
    assert.equal(csv.name, "compare.csv");
    assert.match(csv.bytes.toString().split("\n")[0], /target/);
    await page.getByRole("columnheader", { name: "relative error" }).getByRole("button").click();
    await page.waitForSelector("[aria-sort=descending]");
    await page.waitForFunction(() => document.querySelector(".pairs .grid-row .verdict-word")?.textContent === "propagated");
  });
});
