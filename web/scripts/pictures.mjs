// Makes the pictures of the documents, docs/pictures/*.png, of a server that shows the dump of examples/first_bad:
//   sonde run --out /data/nan --saved-data full -- python examples/first_bad/train.py
//   sonde serve /data/nan                               prints the address
//   cd web && node scripts/pictures.mjs ADDRESS
import { mkdirSync } from "node:fs";
import { go, startBrowser, stopBrowser, withPage } from "../tests/browser/browser.mjs";

const [, , address, place = "../docs/pictures"] = process.argv;
const LOG = "s=2&op=Default/network-Network/log-op0";
const VIEWS = {
  overview: ["#/overview", ".verdict.bad"],
  operator: [`#/op?${LOG}`, ".histogram svg"],
  path: [`#/graph?${LOG}&path=effect`, ".stations li"],
};
if (!address) throw new Error("usage: node scripts/pictures.mjs ADDRESS [DIRECTORY]");
mkdirSync(place, { recursive: true });
await startBrowser();
await withPage(address, {}, async (page) => {
  await page.waitForSelector(".verdict.bad");
  for (const [name, [fragment, ready]] of Object.entries(VIEWS)) {
    await go(page, fragment);
    await page.waitForSelector(ready);
    await page.waitForTimeout(600);
    await page.screenshot({ path: `${place}/${name}.png` });
  }
});
await stopBrowser();
