// The answer card: what to do next with its command, numbers as counts, and the way through earlier steps; reached by keys alone.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, settled, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const { SONDE_PAGE_BEFORE: BEFORE, SONDE_PAGE_PAIR: PAIR, SONDE_REPORT_BEFORE: REPORT } = process.env;
const MUL = "Default/network-Sequential/1-Block/mul-op0";

before(startBrowser);
after(stopBrowser);

const commands = (page, selector) => page.locator(`${selector} .next-commands code`).allTextContents();

test("the card counts what is bad and says what to do next, on the overview, at the operator and in a report", async () => {
  for (const address of [BEFORE, REPORT]) {
    await withPage(address, {}, async (page) => {
      await page.waitForSelector(".first-bad.bad");
      assert.match(await text(page, ".first-bad"), /log-op0 train\.py:19.*1 of 1 NaN/);
      const next = await commands(page, ".first-bad");
      assert.ok(next.some((one) => /^sonde show \S+ Default\/log-op0 --step 1$/.test(one)), next.join("\n"));
      await page.keyboard.press("Enter");
      await page.waitForSelector(".op-page .of-finding");
      assert.match(await text(page, ".of-finding"), /log of a negative number.*1 of 1 NaN/);
      assert.deepEqual(await commands(page, ".of-finding"), next);
    });
  }
});

test("Enter opens the first difference of two dumps, whose card says what to do next", async () => {
  await withPage(PAIR, {}, async (page) => {
    await page.waitForSelector(".first-difference.bad .code");
    const next = await commands(page, ".first-difference");
    assert.equal(next.filter((one) => one.startsWith("sonde show ")).length, 2, next.join("\n")); // of both sides
    assert.match(await text(page, ".first-difference"), /input\.0 \([\d,]+\): identical/);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector("h1")?.textContent?.includes("gelu-op0"));
  });
});

test("a path to the cause goes on in the steps before, to the line that wrote what was read", async () => {
  await withPage(BEFORE, {}, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    const before = async (step) => {
      await go(page, `#/graph?s=${step}&op=${MUL}&path=cause`);
      await page.waitForSelector(".stations.before li");
      await settled(page);
      return (await page.locator(".stations.before li").allInnerTexts()).map((line) => line.replaceAll(/\s+/g, " ").trim());
    };
    const written = ["Step 1 log-op0 train.py:19", "Step 1 copy_-op0 train.py:19"];
    const byOptimizer = await before(3); // of NaN weights, which the optimizer made of NaN gradients
    assert.deepEqual(byOptimizer.slice(0, 2), written);
    assert.match(byOptimizer.at(-1), /^Step 2 addcdiv_-op\d+ train\.py:15$/);
    assert.deepEqual(await before(2), written);
    await page.locator(".stations.before .op-link").first().click();
    await page.waitForFunction(() => document.querySelector("h1")?.textContent?.includes("log-op0"));
    assert.match(new URL(page.url()).hash, /s=1/);
  });
});

test("a path to the loss goes on in the later step where the value harms", async () => {
  await withPage(BEFORE, {}, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    assert.match(await text(page, ".first-bad .path-line"), /log-op0 .*mul-op0 of step 2 /);
    await page.getByRole("link", { name: "Show the path" }).click();
    await page.getByText("It goes on in step 2:").waitFor();
    await page.locator(".graph-side p a", { hasText: "mul-op0" }).click();
    await page.waitForFunction(() => /s=2/.test(location.hash));
    await settled(page);
    assert.match(await text(page, ".stations"), /mul-op0/);
  });
});

test("the card in Chinese has no English purpose", async () => {
  await withPage(BEFORE, {}, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    await page.keyboard.press("?");
    await page.getByRole("button", { name: "Language: 中文" }).click();
    await page.locator(".first-bad .next-commands summary", { hasText: "接下来可以做什么" }).click();
    const lines = await page.locator(".first-bad .next-commands li").allInnerTexts();
    assert.ok(lines.length >= 3 && lines.every((line) => /^[\u4e00-\u9fff]/.test(line)), lines.join("\n"));
    assert.match(await text(page, ".first-bad .bad-count"), /1 个中有 1 个 NaN/);
  });
});
