// A training that runs: new steps appear by themselves, the title says when it goes wrong, and a killed run says so.
import assert from "node:assert/strict";
import { renameSync } from "node:fs";
import { after, before, test } from "node:test";
import { startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const PAGE = process.env.SONDE_PAGE_LIVE;
const TRAINING = Number(process.env.SONDE_TRAINING);
const SERVER = Number(process.env.SONDE_SERVER);
const { SONDE_PAGE_GROWS: GROWS, SONDE_LATER: LATER, SONDE_PLACE: PLACE } = process.env;

before(startBrowser);
after(stopBrowser);

test("a live run grows, becomes NaN, is killed; and then the server ends", async () => {
  await withPage(PAGE, { allowed: ["net::ERR_"] }, async (page) => {
    await page.waitForSelector(".badge.live");
    const first = Number(/step (\d+)/.exec(await text(page, ".badge.live"))?.[1]);
    await page.locator(".stepper select").selectOption("0");
    await page.waitForFunction(() => location.hash.includes("s=0"));
    await page.getByLabel("Follow").check(); // it leaves the chosen step
    await page.waitForFunction(() => !location.hash.includes("s=0"));
    await page.waitForFunction((before) => Number(/step (\d+)/.exec(document.querySelector(".badge.live")?.textContent ?? "")?.[1]) > before + 2, first);
    const followed = await page.locator(".stepper select").inputValue();
    assert.ok(Number(followed) > first, `${followed} is not after ${first}`);
    await page.getByRole("button", { name: "Previous step" }).click();
    await page.waitForFunction(() => /s=\d/.test(location.hash));
    assert.equal(await page.getByLabel("Follow").isChecked(), false); // a step was chosen
    await page.waitForFunction(() => document.title.startsWith("✕"));
    await page.waitForSelector(".verdict.bad");
    process.kill(TRAINING, "SIGKILL");
    await page.waitForSelector(".badge.killed");
    process.kill(SERVER, "SIGTERM");
    await page.waitForSelector(".lost");
    assert.match(await text(page, ".lost"), /does not answer/);
    await page.waitForSelector(".verdict.bad"); // what was read stays
  });
});

test("a verdict of before a change is not shown as one of the whole dump", async () => {
  await withPage(GROWS, {}, async (page) => {
    await page.waitForSelector(".verdict.first-bad.unsure"); // nothing is wrong in rank 0 of two
    renameSync(LATER, PLACE);
    await page.waitForSelector(".verdict.bad");
    assert.match(await text(page, ".verdict"), /log-op0.*rank 1, step 0/);
  });
});
