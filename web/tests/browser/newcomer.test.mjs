// What a newcomer would misread: each screen points at what the first card names, a sign is strong only where something began, and a word
// never says more than is known. A loop of three parts of a batch, whose norm differs from golden's in step 1; the same one with a NaN in
// its second part of step 1, after which the program fails; and two ranks of three.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, settled, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const { SONDE_PAGE_LOOP: LOOP, SONDE_PAGE_FAILED: FAILED, SONDE_PAGE_GAP: GAP } = process.env;
const NORM = "Default/network-Net/norm-LayerNorm/layer_norm-op0";

before(startBrowser);
after(stopBrowser);

const screenOf = async (page, hash, ready) => {
  await go(page, hash);
  await page.waitForSelector(ready);
  await settled(page);
};
const buttons = async (page) => (await page.locator("main .op-head .button").allInnerTexts()).join(" | ");

test("two runs: one difference for the calls of one line, at which every screen points", async () => {
  await withPage(LOOP, {}, async (page) => {
    await page.waitForSelector(".first-difference.bad");
    await settled(page);
    const said = await text(page, ".first-difference");
    assert.match(said, /layer_norm-op0 .*Called with eps=0\.1/);
    assert.match(said, /also in \d+ more calls of this line: layer_norm-op1 step 1, layer_norm-op2 step 1/);
    assert.doesNotMatch(said, /more findings|tolerance:|terms/);
    assert.match(said, /rounding explains errors up to [\d.e-]+, rms [\d.e-]+; numbers of float32 near 1 are 1\.2e-07 apart, and 4 make one result/);
    assert.equal(said.match(/rounding explains/g).length, 1);
    assert.equal(await page.locator(".bar .stepper select").inputValue(), "1");
    assert.match(await page.locator(".matrix-names .ringed").first().innerText(), /layer_norm-op0/);
    await screenOf(page, "#/graph", ".graph-view canvas[data-found]");
    await screenOf(page, `#/graph?op=${NORM}`, ".graph-view canvas[data-found]");
    const chosen = await page.locator(".graph-view canvas").getAttribute("data-found");
    await screenOf(page, "#/graph", ".graph-view canvas[data-found]");
    assert.ok(chosen);
    await screenOf(page, "#/compare?view=graphs", ".linked canvas[data-boxes]");
    const top = await page.locator(".linked canvas").first().evaluate((canvas) => canvas.getBoundingClientRect().top);
    assert.ok(top > 0 && top < 400, `the pictures begin at ${top} of 800 px`);
    await screenOf(page, "#/source", ".source-line.marked");
    assert.match(await text(page, ".source-line.marked"), /self\.fc\(self\.norm\(x\)\)/);
  });
});

test("one bad value: the line where it began has the only strong sign, and the way back is offered where it leads somewhere", async () => {
  await withPage(FAILED, {}, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    await settled(page);
    assert.match(await text(page, ".facts"), /recording whole/); // the dump does not say how the program ended
    assert.doesNotMatch(await text(page, ".facts"), /finished/);
    const found = await page.locator(".first-bad .button.primary").getAttribute("href");
    await screenOf(page, found, ".op-head");
    assert.doesNotMatch(await buttons(page), /To its cause|Where it comes from/);
    await page.keyboard.press("v");
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction(() => /tab=values/.test(location.hash) && document.activeElement?.textContent === "Values");
    await page.keyboard.press("p");
    await page.waitForSelector(".stations li");
    assert.match(await text(page, ".graph-side"), /It begins here\./);
    await screenOf(page, "#/op?s=1&op=Default/pow-op0", ".op-head .mark.nan");
    assert.match(await buttons(page), /To its cause/);
    await screenOf(page, "#/op?s=0&op=Default/pow-op0", ".op-head .mark.fine");
    assert.match(await buttons(page), /Where it comes from/);
    assert.doesNotMatch(await buttons(page), /To its cause/);
    await screenOf(page, "#/source", ".source-line.marked");
    const strong = await page.locator(".source-line:has(.mark.nan:not(.later))").allInnerTexts();
    assert.equal(strong.length, 1, strong.join());
    assert.match(strong[0], /torch\.log/);
    assert.ok((await page.locator(".source-line .mark.nan.later").count()) > 1);
    assert.match(await page.locator(".source-line .mark.nan.later").first().getAttribute("title"), /began elsewhere/);
  });
});

test("tables keep the number of a line; the search has names that begin with the word first; a dialog and the hits of a check have the focus", async () => {
  await withPage(FAILED, { width: 1050, height: 700 }, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    await screenOf(page, "#/ops", ".grid-row .line-cell");
    const cell = page.locator(".grid-row .line-cell").first();
    assert.match(await cell.getAttribute("title"), /the_training_of_a_small_network_with_a_log\.py:\d+$/);
    const isSeen = await cell.evaluate((element) => element.firstElementChild.getBoundingClientRect().right <= element.getBoundingClientRect().right + 1 && element.firstElementChild.getBoundingClientRect().left < element.getBoundingClientRect().left);
    assert.ok(isSeen, "the name is cut at its beginning");
    await page.keyboard.press("/");
    await page.keyboard.type("log");
    await page.waitForFunction(() => /^log-op0/.test(document.querySelector(".hits .name")?.textContent ?? ""));
    assert.match(await page.locator(".hits").innerText(), /with_a_log\.py:\d+/); // a line of the file, whose name has it, comes after it
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await page.waitForFunction(() => document.activeElement?.tagName === "H2" && document.activeElement.textContent === "Keys");
    await page.keyboard.press("Escape");
    await screenOf(page, "#/watch", ".conditions li");
    await page.getByRole("button", { name: "Check", exact: true }).click();
    await page.waitForFunction(() => /^Hits: [1-9]/.test(document.activeElement?.textContent ?? ""));
  });
});

test("a phone in the dark: the bar is one row, and what is as usual does not shine", async () => {
  await withPage(FAILED, { width: 390, height: 844, dark: true }, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    await settled(page);
    const rows = await page.locator(".bar").evaluate((bar) => new Set([...bar.children].filter((part) => part.clientHeight > 8).map((part) => Math.round((part.getBoundingClientRect().top + part.getBoundingClientRect().bottom) / 20))).size);
    assert.equal(rows, 1);
    const gradients = page.locator(".card", { has: page.getByRole("heading", { name: "Norms of gradients" }) }).locator("canvas");
    const usual = await gradients.evaluate((canvas) => [...canvas.getContext("2d").getImageData(8 * devicePixelRatio, 28 * devicePixelRatio, 1, 1).data].slice(0, 3));
    assert.ok(Math.max(...usual) < 160, `rgb ${usual}`);
  });
});

test("a dump that is being read: the screen says so, and asks and accuses nobody", async () => {
  await withPage(FAILED, {}, async (page) => {
    const asked = [];
    await page.route((url) => url.pathname.endsWith("/status"), async (route) => {
      const answer = await route.fetch();
      const json = await answer.json();
      Object.assign(json, { state: "indexing" });
      Object.assign(json.dumps[0], { state: "indexing", progress: { work: "looking at the files", done: 0, all: 0 } });
      return route.fulfill({ response: answer, json });
    });
    await go(page, "#/source");
    await page.reload();
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    await page.waitForSelector("main h1");
    await page.waitForSelector("main [role=status]");
    assert.match(await text(page, "main"), /looking at the files/);
    assert.equal(await page.locator(".problem").count(), 0);
    assert.deepEqual(asked.filter((path) => path.endsWith("/source")), []);
  });
});

test("a rank that is missing: nothing is green, and the card says which", async () => {
  await withPage(GAP, {}, async (page) => {
    await page.waitForSelector(".first-bad.unsure");
    assert.match(await text(page, ".first-bad"), /In what was recorded, no NaN and no infinity matters\. .*the dump lacks rank 1: what was computed there is not known/);
    assert.equal(await page.locator(".verdict.good").count(), 0);
  });
});

test("hits of a check on several ranks say which rank, and a bound is a number", async () => {
  await withPage(GAP, {}, async (page) => {
    await page.waitForSelector(".first-bad.unsure");
    await screenOf(page, "#/watch", ".conditions li");
    await page.getByLabel("Recommended set").uncheck();
    await page.locator(".conditions li", { hasText: "gradient_vanishing" }).getByRole("checkbox").check();
    await page.locator(".parameters input").first().fill("1e9");
    await page.getByRole("button", { name: "Check", exact: true }).click();
    await page.waitForSelector(".watch-hits .grid-row .op-link");
    const head = (await page.locator(".watch-hits .grid-head > div").allInnerTexts()).map((title) => title.trim());
    const cells = async (name) => page.locator(`.watch-hits .grid-row > div:nth-child(${head.indexOf(name) + 1})`).allInnerTexts();
    assert.equal((await cells("rank"))[0], "0");
    await page.locator(".watch-hits .grid-head").getByRole("button", { name: "rank" }).click(); // the largest first
    await page.waitForFunction((at) => document.querySelector(`.watch-hits .grid-row > div:nth-child(${at})`)?.textContent === "2", head.indexOf("rank") + 1);
    for (const found of await cells("found")) assert.match(found, /^(≤ )?[\d.e+-]+$/);
    assert.ok((await cells("found")).some((found) => found.startsWith("≤")));
  });
});
