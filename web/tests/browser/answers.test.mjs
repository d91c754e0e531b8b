// The newer answers: two implementations whose last mean is wrong, a run that is sharded over two ranks, and an engine that serves two requests.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { axeFindings, go, pixels, settled, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const { SONDE_PAGE_RELATED: RELATED, SONDE_PAGE_SHARDED: SHARDED, SONDE_PAGE_REQUESTS: REQUESTS, SONDE_REPORT_RELATED: REPORT } = process.env;
const WEIGHT_USER = "Default/network-Net/linear-DTensor/t-op0";

before(startBrowser);
after(stopBrowser);

const said = (all) => all.replaceAll(/\s+/g, " ").trim();

test("the tensors of two implementations: both sides with their lines, the relation in words, filtered, and leading to both operators", async () => {
  await withPage(RELATED, {}, async (page) => {
    await go(page, "#/compare");
    await page.waitForSelector(".pairs .grid-row .op-link");
    const rows = page.getByRole("grid", { name: "Tensors" }).locator(".grid-row");
    assert.match(said(await rows.first().innerText()), /^introduced no counterpart mean-op0 ?network vit\.py:\d+ \(3,16\) 0$/, "the worst one first");
    await page.getByRole("button", { name: /\d+ axes permuted/ }).click();
    await page.waitForFunction(() => {
      const kinds = [...document.querySelectorAll(".pairs .grid-row [role=gridcell]:nth-child(2)")].map((cell) => cell.textContent);
      return kinds.length > 5 && kinds.every((kind) => kind === "axes permuted");
    });
    await go(page, "#/compare?f=relation:permuted op:Target/add-op0 verdict:within_tolerance");
    await page.waitForFunction(() => document.querySelector(".card[aria-label=Tensors] .count")?.textContent === "1 row");
    await settled(page);
    assert.match(said(await rows.first().innerText()), /^within tolerance axes permuted add-op0 ?network vit\.py:\d+ flatten-op0 ?network vit\.py:\d+ golden .*flatten-op0 with its axes in another order .*e-0\d \(3,16,16\) 0$/);
    await rows.first().getByRole("link", { name: /flatten-op0/ }).click();
    await page.waitForSelector(".op-page");
    assert.match(new URL(page.url()).hash, /[?&]d=1&/);
    assert.match(await text(page, "h1"), /^flatten-op0/);
    await page.goBack();
    await page.waitForSelector(".pairs .grid-row .op-link");
    await rows.first().getByRole("link", { name: /add-op0/ }).click();
    await page.waitForFunction(() => document.querySelector("h1")?.textContent.startsWith("add-op0"));
    assert.doesNotMatch(new URL(page.url()).hash, /[?&]d=/);
    // A weight has no operator: its own page.
    await go(page, "#/compare?f=relation:cut parameter:blocks.0.attention.wq");
    await page.waitForFunction(() => document.querySelector(".card[aria-label=Tensors] .count")?.textContent === "1 row");
    await rows.first().getByRole("link", { name: /in_proj_weight/ }).click();
    await page.waitForFunction(() => document.querySelector("h1")?.textContent.includes("in_proj_weight"));
    assert.equal(await page.locator(".problem").count(), 0);
    await go(page, "#/compare");
    await page.waitForSelector(".pairs .grid-row .op-link");
    await settled(page);
    assert.deepEqual(await axeFindings(page), []);
  });
});

test("both graphs have the colours of the relations", async () => {
  await withPage(RELATED, {}, async (page) => {
    await go(page, "#/compare?view=graphs&colour=relation");
    await page.waitForFunction(() => document.querySelectorAll(".linked canvas[data-boxes]").length === 2);
    await settled(page);
    assert.match(said(await page.locator(".legend").innerText()), /no counterpart .* axes permuted .* same elements/);
    assert.ok((await pixels(page, ".linked-half[aria-label=Target] canvas", "--nan-soft")) > 300); // without a counterpart
    assert.equal(await pixels(page, ".linked-half[aria-label=Golden] canvas", "--nan-soft"), 0);
    await page.getByLabel("Colour").selectOption("verdict");
    await settled(page);
    assert.ok((await pixels(page, ".linked-half[aria-label=Target] canvas", "--accent-soft")) > 300); // unmatched
  });
});

test("a report of two implementations has the table, too", async () => {
  await withPage(REPORT, {}, async (page) => {
    await go(page, "#/compare");
    await page.waitForSelector(".pairs .grid-row .op-link");
    assert.match(said(await page.locator(".pairs .grid-row").first().innerText()), /^introduced no counterpart mean-op0/);
  });
});

test("a sharded run: the part of the whole tensor, and the same call on the other rank", async () => {
  await withPage(SHARDED, {}, async (page) => {
    await page.waitForSelector(".matrix-names li");
    await settled(page);
    const ranks = (await page.locator(".matrix-names li").allInnerTexts()).filter((name) => name.includes("Rank")).map((name) => said(name).replace(/^›\s*/, ""));
    assert.deepEqual(ranks, ["Rank 0 · tp 0", "Rank 1 · tp 1"]);
    await go(page, `#/op?r=1&s=0&op=${WEIGHT_USER}`);
    await page.waitForSelector(".placement");
    assert.match(said(await page.locator(".tensor-card", { hasText: "input.0" }).innerText()), /parameter weight placement tp=2 Shard\(0\) of \(16, 8\) from \(8, 0\)/);
    await go(page, `#/op?r=0&s=0&op=${WEIGHT_USER}`);
    await page.waitForFunction(() => document.querySelector(".placement")?.textContent.endsWith("of (16, 8) from (0, 0)"));
    assert.equal(await page.locator(".collective").count(), 0);
    await go(page, "#/op?r=0&s=1&op=Default/allreduce_-op0");
    await page.waitForSelector(".collective");
    assert.match(said(await page.locator(".collective").innerText()), /^Between ranks Rank 0 Rank 1 group 0 \(ranks 0, 1\) reduces by SUM call of the group \d+$/);
    await page.locator(".collective").getByRole("link", { name: "Rank 1" }).click();
    await page.waitForFunction(() => document.querySelector(".collective .own")?.textContent === "Rank 1");
    assert.match(new URL(page.url()).hash, /r=1&s=1&op=Default\/allreduce_-op0/);
    await settled(page);
    assert.deepEqual(await axeFindings(page), []);
    await go(page, "#/ops?r=0&s=1&k=ops&op=Default/allreduce_-op0");
    await page.waitForSelector(".pane .collective");
  });
});

test("requests of an engine: their steps and tokens; of a chosen one the page has its steps alone", async () => {
  await withPage(REQUESTS, {}, async (page) => {
    const card = page.locator(".requests");
    await card.waitFor();
    assert.deepEqual((await card.locator("tbody tr").allInnerTexts()).map(said), ["first 0-2 5 5", "second 1-2 2 2"]);
    const steps = () => page.getByRole("combobox", { name: "Step" }).locator("option").allInnerTexts();
    assert.deepEqual(await steps(), ["0", "1", "2"]);
    await card.getByRole("button", { name: "second" }).click();
    await page.waitForFunction(() => document.querySelector(".requests tr.chosen")?.textContent.startsWith("second"));
    assert.match(new URL(page.url()).hash, /s=1&rq=second/);
    assert.deepEqual(await steps(), ["1", "2"]);
    const map = page.locator(".card", { has: page.getByRole("heading", { name: "Health by scope and step", exact: true }) });
    await map.getByText(/--step 1-2 /).waitFor();
    await settled(page);
    assert.deepEqual(await axeFindings(page), []);
    await go(page, "#/op?rq=second&s=2&op=Default/network-Model/log-op0");
    await page.waitForSelector(".request-rows");
    assert.equal(said(await page.locator(".request-rows").innerText()), "Requests of step 2 second row 1, position 1");
    await page.getByRole("combobox", { name: "Request" }).selectOption("");
    await page.waitForFunction(() => document.querySelectorAll(".request-rows li").length === 2);
    assert.match(said(await page.locator(".request-rows").innerText()), /first row 0, position 4 second row 1, position 1$/);
    await go(page, "#/overview?rq=third");
    await page.waitForSelector("[role=alert], .problem");
    assert.match(await page.locator("body").innerText(), /There is no request "third", which the address asks for\. Expected: first, second\./);
  });
});
