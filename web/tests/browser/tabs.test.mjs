// Seven tabs of one browser: a browser has six connections to a server, and the tabs share one stream of events.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const SICK = process.env.SONDE_PAGE;

before(startBrowser);
after(stopBrowser);

test("seven tabs share one stream of events, and another tab goes on when the first is closed", async () => {
  await withPage(SICK, {}, async (page, context) => {
    await page.waitForSelector(".verdict.bad");
    const streams = [];
    context.on("request", (request) => {
      if (/api\/v1\/events/.test(request.url())) streams.push(request);
    });
    const tabs = [];
    for (let i = 0; i < 6; i += 1) {
      const tab = await context.newPage();
      await tab.goto(SICK.replace(/#.*/, ""));
      await tab.waitForSelector(".verdict.bad");
      tabs.push(tab);
    }
    assert.equal(streams.length, 0, "only the first tab has a stream");
    // A job of the first tab is an event in the last one, which asks for the state again.
    const asked = tabs[5].waitForRequest(/api\/v1\/status/);
    await go(page, "#/watch");
    await page.getByRole("button", { name: "Check" }).click();
    await page.waitForSelector(".list-table tbody tr");
    await asked;
    const next = context.waitForEvent("request", (request) => /api\/v1\/events/.test(request.url()));
    await page.close();
    await next;
    const again = tabs[0].waitForRequest(/api\/v1\/status/);
    await go(tabs[5], "#/watch");
    await tabs[5].getByRole("button", { name: "Check" }).click();
    await again;
    assert.equal(streams.length, 1);
    assert.match(await text(tabs[5], "h1"), /Watch/);
  });
});
