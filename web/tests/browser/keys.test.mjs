// Every key that the page lists, the switch that takes them away, the words of another language, and what each view is computed by.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, settled, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const { SONDE_PAGE: SICK, SONDE_PAGE_PAIR: PAIR, SONDE_PAGE_RANKS: RANKS } = process.env;
const LOG = "Default/network-Network/log-op0";

before(startBrowser);
after(stopBrowser);

const hash = (page) => new URL(page.url()).hash;
const press = async (page, keys) => {
  for (const key of keys.split(" ")) await page.keyboard.press(key);
};
const becomes = (page, pattern) => page.waitForFunction((source) => new RegExp(source).test(decodeURIComponent(location.hash)), pattern);

test("every key of the list", async () => {
  await withPage(PAIR, {}, async (page, context) => {
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const copied = () => page.evaluate(() => navigator.clipboard.readText());
    await page.waitForSelector(".verdict.bad");
    for (const [key, screen] of [["t", "ops"], ["g", "graph"], ["w", "watch"], ["s", "source"], ["j", "jobs"], ["c", "compare"], ["o", "overview"]]) {
      await press(page, `g ${key}`);
      await becomes(page, `^#/${screen}`);
    }
    await page.waitForFunction(() => document.querySelector(".stepper select")?.value === "2"); // that of the finding, once it is known
    await press(page, "[");
    await becomes(page, "s=1");
    await press(page, "]");
    await becomes(page, "s=2");
    await press(page, "[ [ ]"); // as fast as keys can come
    await becomes(page, "s=1");
    await press(page, "]");
    await becomes(page, "s=2");
    await press(page, "c");
    await page.waitForFunction(() => document.querySelector(".toast")?.textContent === "The command was copied");
    assert.match(await copied(), /^sonde first-bad /);
    await press(page, "y");
    await page.waitForFunction(() => document.querySelector(".toast")?.textContent === "The link was copied");
    assert.equal(await copied(), page.url());
    await press(page, "n");
    await becomes(page, "op=");
    const first = hash(page);
    await press(page, "n");
    await page.waitForFunction((before) => location.hash !== before, first);
    await press(page, "N");
    await page.waitForFunction((before) => location.hash === before, first);
    await press(page, "Enter");
    await becomes(page, "^#/op");
    await page.waitForSelector(".op-page");
    await settled(page);
    await press(page, "k");
    await becomes(page, "t=i\\d");
    await press(page, "j");
    await becomes(page, "t=o0");
    await press(page, "p");
    await becomes(page, "^#/graph.*path=cause");
    await page.waitForSelector("canvas[data-boxes]");
    await press(page, "+ - f ArrowDown");
    await go(page, `#/graph?s=2&op=${LOG}`);
    await page.waitForFunction(() => !document.querySelector(".stations") && Number(document.querySelector("canvas[data-boxes]")?.dataset.boxes) > 5);
    await settled(page);
    const boxes = Number(await page.locator("canvas[data-boxes]").getAttribute("data-boxes"));
    await press(page, "Backspace");
    await page.waitForFunction((before) => Number(document.querySelector("canvas[data-boxes]").dataset.boxes) < before, boxes);
    await press(page, "Escape");
    await page.waitForFunction(() => !location.hash.includes("op="));
    await press(page, "g t");
    await page.waitForSelector(".grid-row .op-link");
    await press(page, "j j");
    await page.waitForSelector(".grid-row.active[aria-rowindex='4']");
    await press(page, "k");
    await page.waitForSelector(".grid-row.active[aria-rowindex='3']");
    await press(page, ".");
    await press(page, "/");
    await page.waitForSelector("dialog[open] input");
    await press(page, "t ?"); // while a person types, no key does anything else
    assert.equal(await page.locator("dialog[open] input").inputValue(), "t?");
    await press(page, "Escape Escape"); // the first one empties the field
    await page.waitForSelector("dialog", { state: "detached" });
    await press(page, "?");
    await page.waitForSelector("dialog[open] .keys");
  });
  await withPage(RANKS, {}, async (page) => {
    await page.waitForSelector(".verdict");
    await go(page, "#/ops?r=0");
    await page.waitForSelector(".grid-row .op-link"); // the ranks are known
    await press(page, "}");
    await becomes(page, "r=1");
    await press(page, "{");
    await becomes(page, "r=0");
  });
});

test("the keys can be switched off, and on again", async () => {
  await withPage(SICK, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    await press(page, "?");
    await page.getByRole("button", { name: "Switch the keys off" }).click();
    await page.keyboard.press("Escape");
    await press(page, "g t ? /");
    assert.equal(await page.locator("dialog[open]").count(), 0);
    assert.match(hash(page), /^$|overview|token/);
    await page.getByRole("button", { name: "Keys" }).click();
    await page.getByRole("button", { name: "Switch the keys on" }).click();
    await page.keyboard.press("Escape");
    await press(page, "g t");
    await becomes(page, "^#/ops");
  });
});

test("the page in Chinese, by the switch, and back", async () => {
  await withPage(SICK, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    await press(page, "?");
    await page.getByRole("button", { name: "Language: 中文" }).click();
    await page.getByRole("link", { name: "计算图" }).waitFor();
    assert.equal(await page.locator("html").getAttribute("lang"), "zh");
    await page.waitForSelector(".verdict.bad");
    const card = await text(page, ".verdict");
    assert.match(card, /第一个异常值/);
    assert.match(card, /log 产生了 48 个中有 32 个 NaN/, "the finding in Chinese, from its facts"); // the sentence of the engine follows
    assert.match(card, /log of a negative number/);
    assert.match(card, /第 2 步，前向/);
    assert.match(card, /影响到 损失/);
    await press(page, "?");
    await page.getByRole("button", { name: "语言: English" }).click();
    await page.getByRole("link", { name: "Graph" }).waitFor();
  });
});

test("each view says the command or the line of Python that gives its numbers", async () => {
  await withPage(PAIR, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    const expected = [
      ["#/overview", /^sonde first-bad .*sick$/], ["#/ops?s=2", /^sonde stats .*--step '?2/], ["#/graph?s=2", /^sonde graph .* --step 2 --graph 0 --rank 0$/],
      [`#/graph?s=2&op=${LOG}&path=effect`, /^sonde graph .*log-op0 --distance \d+ --json --step 2/],
      ["#/source", /^sonde ls .* --ops/], ["#/compare", /^sonde compare .*sick .*healthy/],
    ];
    for (const [tab, wanted] of [["histogram", /^sonde show .*log-op0:output\.0 --step 2/], ["values", /^sonde\.open\(.*numpy\(\)/], ["heat", /^sonde\.open/],
      ["trend", /^sonde show .* --trend max,min,avg,l2norm/], ["golden", /^sonde compare /]]) {
      expected.push([`#/op?s=2&op=${LOG}&t=o0&tab=${tab}`, wanted]);
    }
    for (const [fragment, wanted] of expected) {
      await go(page, fragment);
      await page.waitForFunction((source) => [...document.querySelectorAll("main .command code")].some((code) => new RegExp(source).test(code.textContent)), wanted.source);
    }
    assert.match((await page.locator("main").innerText()), /sonde compare/);
  });
});

test("values as the bits of their elements", async () => {
  await withPage(SICK, {}, async (page) => {
    await go(page, `#/op?s=2&op=${LOG}&t=o0&tab=values`);
    await page.waitForSelector(".values td.nan");
    await page.getByLabel("Bits in hexadecimal").check();
    assert.match(await page.locator(".values td.nan").first().innerText(), /^[7f]fc00000$/);
  });
});

test("a watch takes the chosen operator, and a line of the source", async () => {
  await withPage(SICK, {}, async (page) => {
    await go(page, `#/op?s=2&op=${LOG}`);
    await page.getByRole("link", { name: "Check this line" }).click();
    await page.waitForSelector(".watch-foot"); // the operator's page has a choice with the same label
    assert.equal(await page.getByLabel("Line").inputValue(), "train.py:45");
    await page.getByRole("button", { name: "Check", exact: true }).click();
    await page.waitForSelector(".watch-hits .grid-row .op-link");
    for (const place of await page.locator(".watch-hits .grid-row [role=gridcell]:last-child").allInnerTexts()) assert.equal(place, "train.py:45");
    await page.getByRole("button", { name: "Only log-op0" }).click();
    assert.equal(await page.getByLabel("Operators").inputValue(), `^${LOG}$`);
    await page.getByRole("button", { name: "Check", exact: true }).click();
    await page.waitForFunction(() => /--op=.*--source=train\.py:45/.test(document.querySelector(".card .command code")?.textContent));
    for (const name of await page.locator(".watch-hits .op-link").allInnerTexts()) assert.match(name, /^log-op0/);
  });
});

test("a name that the dump does not have opens the search for it, beside a screen too", async () => {
  await withPage(SICK, { allowed: ["404"] }, async (page) => {
    await go(page, "#/ops?s=2&op=Default/network-Old/log-op0");
    await page.locator(".pane").getByRole("link", { name: "log-op0" }).first().click();
    await page.waitForSelector(".op-page");
  });
});
