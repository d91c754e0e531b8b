// axe-core finds nothing on any screen, wide and light, narrow and dark.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { axeFindings, go, settled, startBrowser, stopBrowser, withPage } from "./browser.mjs";

const PAGE = process.env.SONDE_PAGE;
const PAIR = process.env.SONDE_PAGE_PAIR;
const OP = "op=Default/network-Network/log-op0";
const SCREENS = {
  overview: ["#/overview", ".verdict.bad"],
  table: ["#/ops", ".grid-row"],
  "table with the pane": [`#/ops?s=2&${OP}`, ".pane .tensor-card"],
  operator: [`#/op?s=2&${OP}`, ".histogram svg"],
  values: [`#/op?s=2&${OP}&tab=values`, ".values td"],
  trend: [`#/op?s=2&${OP}&tab=trend`, ".plot canvas"],
  "previous step": ["#/op?s=1&op=head.weight&tab=previous", ".pictures canvas"],
  "heat map": [`#/op?s=2&${OP}&tab=heat`, ".heat canvas"],
  graph: ["#/graph?s=2", ".graph-view canvas"],
  "coloured graph": ["#/graph?s=2&colour=norm", ".graph-scale"],
  path: [`#/graph?s=2&${OP}&path=effect`, ".stations li"],
  watch: ["#/watch", ".conditions li"],
  source: ["#/source", ".source-line"],
  jobs: ["#/jobs", ".list-table"],
};
const TWO = {
  compare: ["#/compare", ".pairs .grid-row .op-link"],
  "two graphs": ["#/compare?view=graphs", ".linked canvas[data-boxes]"],
};

before(startBrowser);
after(stopBrowser);

async function look(page, kind, screens) {
  for (const [name, [fragment, ready]] of Object.entries(screens)) {
    await go(page, fragment);
    await page.waitForSelector(ready);
    await settled(page);
    assert.deepEqual(await axeFindings(page), [], `${name}, ${kind}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${name}, ${kind}: the page is ${wide} px wider than the window`);
  }
}

for (const [kind, options] of [["wide and light", {}], ["narrow and dark", { dark: true, width: 390, height: 844 }]]) {
  test(`every screen, ${kind}`, async () => {
    await withPage(PAGE, options, async (page) => {
      await page.waitForSelector(".verdict.bad");
      await look(page, kind, SCREENS);
      for (const name of [/^Search/, /^Keys$/, /^Report$/]) {
        await page.locator(".bar").getByRole("button", { name }).click();
        await page.waitForSelector("dialog[open]");
        assert.deepEqual(await axeFindings(page), [], `the dialog ${name}, ${kind}`);
        await page.keyboard.press("Escape");
      }
    });
    await withPage(PAIR, options, (page) => look(page, kind, TWO));
  });
}
