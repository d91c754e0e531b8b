// Every screen on dumps of other writers and with less in them: nothing fails, and the first thing that is seen says what is known.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, settled, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const PAGES = JSON.parse(process.env.SONDE_PAGES); // {name: {address, first: what the overview's first words match}}

before(startBrowser);
after(stopBrowser);

for (const [name, { address, first }] of Object.entries(PAGES)) {
  test(`every screen of ${name}`, async () => {
    await withPage(address, {}, async (page) => {
      await page.waitForSelector(".verdict.good, .verdict.bad, .verdict.unsure");
      assert.match(await text(page, ".verdict"), new RegExp(first));
      const measure = page.getByRole("button", { name: "Read their values" });
      if (await measure.count()) {
        await measure.click();
        await measure.waitFor({ state: "detached" });
        await page.waitForFunction(() => !document.querySelector(".legend")?.textContent.includes("not measured"));
      } else assert.notEqual(name, "MindSpore"); // it has no statistics
      const look = async (fragment) => {
        await go(page, fragment);
        await settled(page);
        const problems = await page.locator(".problem").allInnerTexts();
        assert.deepEqual(problems, [], `${name} ${fragment}`);
        assert.ok((await page.locator("main").innerText()).trim().length > 10, `${name} ${fragment} is empty`);
      };
      for (const screen of ["ops?all=1", "ops?k=ops&all=1", "graph", "watch", "source", "jobs"]) await look(`#/${screen}`);
      await look("#/ops?k=ops");
      await page.waitForSelector(".grid-row .op-link");
      await page.locator(".grid").focus();
      await page.keyboard.press("End");
      await page.waitForSelector(".grid-row.active .op-link");
      await page.keyboard.press("Enter");
      await page.waitForSelector(".op-page");
      const link = new URL(page.url()).hash;
      for (const tab of await page.locator("[role=tab]").allInnerTexts()) {
        await page.getByRole("tab", { name: tab }).click();
        await look(new URL(page.url()).hash);
      }
      for (const path of ["cause", "effect"]) await look(`${link.replace("#/op?", "#/graph?")}&path=${path}`);
    });
  });
}
