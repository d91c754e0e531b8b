// The graphs of two runs side by side. The target has two operators that golden lacks: sub-op0 and log-op0 of rank 1.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, pixels, settled, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const { SONDE_PAGE_ODD: ODD, SONDE_PAGE_PARTS: PARTS } = process.env;
const LINEAR = "Default/network-Linear/linear-op0";

before(startBrowser);
after(stopBrowser);

const chosen = (page, side) => page.locator(`.linked-half[aria-label=${side}] .graph-view[data-chosen]`).getAttribute("data-chosen");
const half = (side) => `.linked-half[aria-label=${side}] canvas`;

test("an operator chosen in one graph is chosen in the other, and one without a counterpart says so", async () => {
  await withPage(ODD, {}, async (page) => {
    await go(page, "#/compare?r=1");
    await page.waitForSelector(".pairs .grid-row .op-link");
    await page.getByRole("tab", { name: "Both graphs" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".linked canvas[data-boxes]").length === 2);
    await go(page, `#/compare?view=graphs&r=1&s=2&op=${LINEAR}`);
    await page.waitForFunction((name) => [...document.querySelectorAll(".linked [data-chosen]")].every((half) => half.dataset.chosen === name), LINEAR);
    assert.match(await text(page, ".linked-said"), /^linear-op0 ↔ linear-op0 propagated · relative error/);
    await settled(page);
    assert.ok((await pixels(page, half("Golden"), "--infinity-soft")) > 300); // the colour of "propagated"
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
    await settled(page);
    assert.ok((await pixels(page, half("Target"), "--accent-soft")) > 300); // the colour of "unmatched"
    assert.equal(await pixels(page, half("Golden"), "--accent-soft"), 0);
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

test("golden's graph is that of the step in which the counterpart ran, or of the last before it", async () => {
  await withPage(PARTS, {}, async (page) => {
    await page.waitForSelector(".first-difference.bad");
    await go(page, "#/compare?view=graphs&g=1&s=1&op=Default/network-OwnNet/add-op0");
    const golden = "Default/network-Net/up-Linear/linear-op0";
    await page.waitForFunction((name) => document.querySelector(`.linked-half[aria-label=Golden] [data-chosen='${name}'] canvas[data-boxes]`), golden);
    await page.locator(".linked-said .op-link", { hasText: "linear-op0" }).click();
    await page.waitForFunction(() => document.querySelector("h1")?.textContent?.includes("linear-op0"));
    assert.match(new URL(page.url()).hash, /[?&]s=0&/);
    await go(page, "#/compare?view=graphs&g=1&s=1&d=0&op=Default/network-OwnNet/sigmoid-op0"); // it has no counterpart
    await page.waitForFunction(() => document.querySelector(".linked-half[aria-label=Golden] canvas[data-boxes]"));
  });
});
