// A dump is foreign data: names that are HTML stay text, on every screen, and the page's policy has nothing to report.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, settled, startBrowser, stopBrowser, withPage } from "./browser.mjs";

const PAGE = process.env.SONDE_PAGE_HOSTILE;

before(startBrowser);
after(stopBrowser);

test("names that are HTML are shown as they are", async () => {
  await withPage(PAGE, {}, async (page) => {
    await page.evaluate(() => {
      globalThis.breaches = [];
      document.addEventListener("securitypolicyviolation", (event) => globalThis.breaches.push(`${event.violatedDirective} ${event.blockedURI}`));
    });
    for (const fragment of ["#/overview", "#/ops", "#/ops?k=ops", "#/graph", "#/source", "#/jobs"]) {
      await go(page, fragment);
      await settled(page);
      assert.equal(await page.locator("main img, main script, main iframe, main b").count(), 0, fragment);
    }
    await go(page, "#/ops");
    await page.waitForSelector(".grid-row .op-link");
    assert.match(await page.locator(".grid").innerText(), /<img src=x onerror=alert\(1\)>/);
    await page.locator(".grid-row .op-link", { hasText: "<img" }).first().click();
    await page.waitForSelector(".op-page");
    assert.equal(await page.locator("main img").count(), 0);
    assert.deepEqual(await page.evaluate(() => globalThis.breaches), []);
  });
});

test("a name of 10 kB loses its middle, and no screen is wider or longer for it", async () => {
  await withPage(PAGE, {}, async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type("end-Linear");
    const hit = page.locator(".hits li", { hasText: "linear-op" }).first();
    await hit.waitFor();
    assert.match(await hit.innerText(), /long_name_.*….*_end-Linear/);
    assert.ok((await hit.boundingBox()).height < 100);
    await hit.getByRole("button").click();
    await page.waitForSelector(".op-page .histogram, .op-page .empty");
    await settled(page);
    assert.match(await page.locator(".op-head .scope").innerText(), /long_name_.*…/);
    assert.ok((await page.locator(".op-head").boundingBox()).height < 120);
    assert.match(await page.evaluate(() => location.hash), /(long_name_){1000}end/);
    for (const fragment of ["#/overview", "#/ops", "#/graph", "#/source"]) {
      await go(page, fragment);
      await settled(page);
      const [wide, long] = await page.locator("main").evaluate((main) => [main.scrollWidth - main.clientWidth, main.scrollHeight]);
      assert.ok(wide <= 1 && long < 4000, `${fragment}: ${wide} px too wide, ${long} px long`);
    }
  });
});
