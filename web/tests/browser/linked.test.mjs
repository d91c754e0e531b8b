// The graphs of two runs side by side. The target has two operators that golden lacks: sub-op0 and log-op0 of rank 1.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, settled, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const ODD = process.env.SONDE_PAGE_ODD;
const LINEAR = "Default/network-Linear/linear-op0";

before(startBrowser);
after(stopBrowser);

const chosen = (page, side) => page.locator(`.linked-half[aria-label=${side}] .graph-view[data-chosen]`).getAttribute("data-chosen");
// How many pixels of a graph have the colour of a verdict, as the style sheet names it.
const pixels = (page, side, name) => page.evaluate(([half, variable]) => {
  const canvas = document.querySelector(`.linked-half[aria-label=${half}] canvas`);
  const draw = canvas.getContext("2d");
  draw.save();
  draw.fillStyle = getComputedStyle(canvas).getPropertyValue(variable).trim();
  const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(draw.fillStyle.slice(at, at + 2), 16));
  draw.restore();
  const { data } = draw.getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i] === red && data[i + 1] === green && data[i + 2] === blue) count += 1;
  return count;
}, [side, name]);

test("an operator chosen in one graph is chosen in the other, and one without a counterpart says so", async () => {
  await withPage(ODD, {}, async (page) => {
    await go(page, "#/compare?r=1");
    await page.waitForSelector(".pairs .grid-row .op-link");
    await page.getByRole("tab", { name: "Both graphs" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".linked canvas[data-boxes]").length === 2);
    await go(page, `#/compare?view=graphs&r=1&s=2&op=${LINEAR}`);
    await page.waitForFunction((name) => [...document.querySelectorAll(".linked [data-chosen]")].every((half) => half.dataset.chosen === name), LINEAR);
    assert.match(await text(page, ".linked-said"), /^linear-op0 ↔ linear-op0 propagated · relative error/);
    assert.ok((await pixels(page, "Golden", "--infinity-soft")) > 300); // the colour of "propagated"
    await go(page, "#/compare?d=1&view=graphs&r=1&s=2&op=Default/mean-op0"); // of golden
    await page.waitForFunction(() => document.querySelector(".linked-half[aria-label=Target] [data-chosen='Default/mean-op0'] canvas[data-boxes]"));
    await settled(page); // its scopes open in both
    await page.locator(".linked-half[aria-label=Golden] canvas").focus();
    await page.keyboard.press("ArrowUp");
    await page.waitForFunction(() => document.querySelector(".linked-half[aria-label=Target] [data-chosen='Default/pow-op0']"));
    assert.equal(await chosen(page, "Golden"), "Default/pow-op0");
    assert.match(new URL(page.url()).hash, /[?&]d=1&/);

    await go(page, "#/compare?view=graphs&r=1&s=0&op=Default/log-op0");
    await page.waitForFunction(() => document.querySelector(".linked-said").textContent.includes("no counterpart"));
    assert.match(await text(page, ".linked-said"), /^log-op0 of target has no counterpart in golden\./);
    assert.equal(await chosen(page, "Golden"), "");
    assert.ok((await pixels(page, "Target", "--accent-soft")) > 300); // the colour of "unmatched"
    assert.equal(await pixels(page, "Golden", "--accent-soft"), 0);
  });
});

test("zoom and pan of one graph move the other", async () => {
  await withPage(ODD, {}, async (page) => {
    await go(page, `#/compare?view=graphs&r=1&s=2&op=${LINEAR}`);
    await page.waitForFunction((name) => [...document.querySelectorAll(".linked [data-chosen]")].filter((half) => half.dataset.chosen === name).length === 2, LINEAR);
    await settled(page);
    await page.evaluate(() => { globalThis.seen = [...document.querySelectorAll(".linked canvas")].map((canvas) => canvas.toDataURL()); });
    await page.locator(".linked-half[aria-label=Target]").getByRole("button", { name: "Larger" }).click();
    await page.waitForFunction(() => [...document.querySelectorAll(".linked canvas")].every((canvas, i) => canvas.toDataURL() !== globalThis.seen[i]));
  });
});
