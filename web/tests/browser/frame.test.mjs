// A page of an allowed origin shows the page in a frame; one of another origin does not.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createServer } from "node:http";
import { startBrowser, stopBrowser, withPage } from "./browser.mjs";

const [FRAMED, REFUSED] = [process.env.SONDE_PAGE_FRAMED, process.env.SONDE_PAGE_REFUSED];

before(startBrowser);
after(stopBrowser);

// The page of another port that shows `address` in a frame, as a notebook does.
async function withFrame(address, allowed, body) {
  const server = createServer((_request, answer) => {
    answer.setHeader("Content-Type", "text/html");
    answer.end(`<!doctype html><link rel="icon" href="data:,"><p class="frame">Notebook</p><iframe src="${address}" width="1200" height="700"></iframe>`);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await withPage(`http://127.0.0.1:${server.address().port}/`, { allowed: [...allowed], mayAsk: new URL(address).origin }, body);
  } finally {
    server.close();
  }
}

test("an allowed page shows it", async () => {
  await withFrame(FRAMED, [], async (page) => {
    const frame = page.frameLocator("iframe");
    await frame.locator(".verdict.bad").waitFor();
    await frame.getByRole("link", { name: "Show the operator" }).click();
    await frame.locator(".histogram svg").waitFor();
  });
});

test("another one does not", async () => {
  await withFrame(REFUSED, ["frame-ancestors"], async (page) => {
    const refused = page.waitForEvent("console", (message) => message.text().includes("frame-ancestors"));
    await page.reload();
    await refused;
    assert.equal(await page.frameLocator("iframe").locator(".frame").count(), 0);
  });
});
