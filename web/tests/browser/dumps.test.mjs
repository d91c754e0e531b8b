// The questions of a person on every kind of dump, each within its clicks. Where a dump cannot answer, the page says why.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, settled, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

// {name: {address, first: what the first look matches, sick: a finding is there, pair: golden is there too}}
const DUMPS = JSON.parse(process.env.SONDE_DUMPS);
const ENDED = [".good", ".bad", ".unsure", ".quiet"];
const VERDICT = ENDED.map((end) => `.first-bad${end}`).join(", ");
const DIFFERENCE = ENDED.map((end) => `.first-difference${end}`).join(", ");

before(startBrowser);
after(stopBrowser);

const shown = (page, selector) => page.locator(selector).first().waitFor();
const overview = async (page) => {
  await go(page, "#/overview");
  await shown(page, VERDICT);
};
const openTab = (page, name) => page.getByRole("tab", { name, exact: true }).click();

// The page of the operator that was found, or of one of the last ones.
async function openOp(page, { sick }) {
  if (sick) {
    await overview(page);
    await page.locator(".first-bad").getByRole("link", { name: "Show the operator" }).click();
  } else {
    await go(page, "#/ops?k=ops&f=phase:forward");
    await shown(page, ".grid-row .op-link");
    await page.locator(".grid-row .op-link").last().click();
  }
  await shown(page, ".op-page");
  await settled(page);
}

const QUESTIONS = {
  "Q1 is it sick, since when, where": async (page, { first, pair, differs }) => {
    if (pair) {
      await shown(page, DIFFERENCE);
      assert.match(await text(page, ".verdict"), new RegExp(differs)); // before all else
      assert.equal(await page.locator(".verdict.good").count() > 0 && !/equal/.test(differs), false);
    }
    assert.match(await text(page, ".first-bad"), new RegExp(first));
    await page.locator(".matrix").first().getByRole("button", { name: "As a table" }).click();
    assert.match(await text(page, ".matrix tbody td"), /finite|NaN|infinity|not measured/);
  },
  "Q2 which operator was first, on which line, why": async (page, dump) => {
    await openOp(page, dump);
    assert.match(await text(page, "h1"), dump.sick ? /NaN|infinity/ : /finite|not measured/);
    await page.locator(".op-page .code .marked").or(page.getByText(/^The (source line is unknown|dump has no text of this file)\.$/)).first().waitFor();
  },
  "Q3 what it read, and who reads its result": async (page, dump) => {
    if (dump.sick) {
      await overview(page);
      await page.getByRole("link", { name: "Show the path" }).click();
    } else {
      await openOp(page, dump);
      await page.getByRole("link", { name: "Where it comes from" }).click();
    }
    await page.locator(".stations li").or(page.getByText("The dump does not record the way of this tensor.")).first().waitFor();
  },
  "Q4 what is in the tensor": async (page, dump) => {
    await openOp(page, dump);
    if (await page.getByRole("tab", { name: "Values" }).count()) {
      await shown(page, ".histogram svg");
      await openTab(page, "Values");
      await shown(page, ".values td");
      await openTab(page, "Heat map");
      await shown(page, ".heat canvas");
    } else await page.getByText("It has statistics only.").first().waitFor();
  },
  "Q5 how it changes over the steps": async (page, dump) => {
    await openOp(page, dump);
    await openTab(page, "Trend");
    await page.locator(".plot canvas").or(page.getByText("The dump has this tensor in one step only.")).first().waitFor();
    await overview(page);
    const gradients = page.locator(".card", { hasText: "Norms of gradients" });
    await gradients.locator("canvas").or(gradients.getByText("The dump has no gradients")).first().waitFor();
  },
  "Q6 what differs from the good run": async (page, { pair, differs }) => {
    if (!pair) return;
    await go(page, "#/compare");
    await shown(page, DIFFERENCE);
    assert.match(await text(page, ".verdict"), new RegExp(differs));
    await shown(page, ".pairs .grid-row .op-link");
  },
  "Q7 which tensors meet conditions": async (page) => {
    await go(page, "#/watch");
    await page.getByRole("button", { name: "Check", exact: true }).click();
    await page.locator(".list-table tbody tr").or(page.getByText("No tensor meets these conditions.")).first().waitFor();
    assert.equal(await page.locator(".problem").count(), 0);
  },
  "Q9 one file for a colleague": async (page, _dump, context) => {
    await overview(page);
    await settled(page); // the verdict waits for the answer about the golden run
    const verdict = await text(page, ".first-bad .headline");
    await page.locator(".bar").getByRole("button", { name: "Report" }).click();
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Make the report" }).click();
    const file = `${process.env.SONDE_SAVED}/report.html`;
    await (await download).saveAs(file);
    await page.keyboard.press("Escape");
    const report = await context.newPage();
    await report.goto(`file://${file}`);
    await shown(report, VERDICT);
    await report.waitForFunction((wanted) => document.querySelector(".first-bad .headline")?.innerText.replaceAll(/\s+/g, " ") === wanted, verdict); // the comparison is read after it
    await report.close();
  },
  "Q10 what to dump next": async (page, { sick }) => {
    await overview(page);
    const next = page.getByRole("button", { name: "Next configuration" });
    if (sick) {
      await next.click();
      await shown(page, ".next-config pre");
      assert.match(await text(page, ".next-config pre"), /"iteration"|"step"/);
    } else assert.equal(await next.count(), 0);
  },
};

for (const [name, dump] of Object.entries(DUMPS)) {
  test(name, async (t) => {
    await withPage(dump.address, { width: 1280 }, async (page, context) => {
      await shown(page, VERDICT);
      const measure = page.getByRole("button", { name: "Read their values" });
      if (await measure.count()) {
        await measure.click();
        await measure.waitFor({ state: "detached" });
      }
      for (const [question, ask] of Object.entries(QUESTIONS)) await t.test(`${question}: ${name}`, () => ask(page, dump, context));
    });
  });
}
