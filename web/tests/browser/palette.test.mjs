// The palette, the focus after a change of the screen, paper, and a wide window.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, settled, startBrowser, stopBrowser, withPage } from "./browser.mjs";

const { SONDE_PAGE_MAPS: MAPS } = process.env;

before(startBrowser);
after(stopBrowser);

test("the palette: words in any order, arrows, screens and actions, one Esc; the heading of a new screen has the focus", async () => {
  await withPage(MAPS, {}, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    await page.keyboard.press("Control+k");
    await page.keyboard.type("log block");
    await page.waitForFunction(() => {
      const names = [...document.querySelectorAll(".hits .name")];
      return names.length >= 4 && names.every(({ textContent: name }) => /(?=.*log)(?=.*block)/i.test(name));
    });
    await settled(page); // no other hit comes between
    await page.keyboard.press("ArrowDown");
    const second = await page.locator(".hits li").nth(1).locator(".name").getAttribute("title");
    assert.equal(await page.locator(".hits .chosen .name").getAttribute("title"), second);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".op-page");
    assert.ok(decodeURIComponent(new URL(page.url()).hash).includes(second));
    await page.waitForFunction(() => document.activeElement?.tagName === "H1");
    await page.keyboard.press("/");
    await page.keyboard.type("wat");
    await page.waitForFunction(() => document.querySelector(".hits .chosen .name")?.textContent === "Watch");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".conditions li");
    await page.waitForFunction(() => document.activeElement?.tagName === "H1" && document.activeElement.textContent === "Watch");
    await page.keyboard.press("/");
    await page.keyboard.type("first bad");
    await page.waitForFunction(() => /first bad value/.test(document.querySelector(".hits .chosen .name")?.textContent));
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
  });
});

test("paper has the whole screen, and a wide window is used", async () => {
  await withPage(MAPS, { width: 1920 }, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    const card = await page.locator(".first-bad").boundingBox();
    assert.ok(card.x + card.width > 1850, `it ends at ${card.x + card.width}`);
    await page.emulateMedia({ media: "print" });
    assert.ok(!(await page.locator(".rail").isVisible()));
    await settled(page); // the maps have come
    const [shown, all] = await page.evaluate(() => [document.documentElement.scrollHeight, document.querySelector(".page").scrollHeight]);
    assert.ok(shown >= all && all > 1000, `${shown} of ${all} px`);
  });
});

test("paper has the rows that a window scrolls to", async () => {
  await withPage(MAPS, {}, async (page) => {
    await go(page, "#/ops?k=ops&s=5");
    await page.waitForSelector(".grid-row .op-link");
    await settled(page);
    const count = Number(await page.getByRole("grid").getAttribute("aria-rowcount")) - 1;
    const shown = () => page.locator(".grid-row").count();
    const before = await shown();
    assert.ok(before < count, `${before} of ${count} are in the window`);
    await page.emulateMedia({ media: "print" });
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    await page.waitForFunction((few) => document.querySelectorAll(".grid-row").length > few, before);
    const printed = await shown();
    const left = /… ([\d,]+) more/.exec(await page.getByRole("grid").innerText())?.[1] ?? "0";
    assert.equal(printed + Number(left.replace(",", "")), count);
    assert.ok(printed >= Math.min(count, 100), `${printed} of ${count}`);
    const [height, needed] = await page.evaluate(() => [document.documentElement.scrollHeight, document.querySelector(".grid-wide").getBoundingClientRect().height]);
    assert.ok(height >= needed, `${height} of ${needed} px`);
    await page.setViewportSize({ width: 718, height: 1000 }); // a sheet of A4 without its margins
    await settled(page);
    const right = await page.locator(".grid-head > div").last().evaluate((last) => last.getBoundingClientRect().right);
    assert.ok(right <= 718, `the last column ends at ${right} px`);
    await page.emulateMedia({ media: "screen" });
    await page.evaluate(() => dispatchEvent(new Event("afterprint")));
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.waitForFunction((few) => document.querySelectorAll(".grid-row").length === few, before);
    await go(page, "#/overview");
    await page.waitForSelector(".first-bad details");
    const closed = () => page.locator("main details:not([open])").count();
    const some = await closed();
    assert.ok(some > 0);
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    assert.equal(await closed(), 0);
    await page.evaluate(() => dispatchEvent(new Event("afterprint")));
    assert.equal(await closed(), some);
  });
});
