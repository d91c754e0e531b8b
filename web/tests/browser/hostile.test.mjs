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
