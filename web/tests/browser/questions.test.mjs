// The questions that a person opens the page with (Q1 to Q7, Q10), each within the looks and clicks that the design allows, on the dump
// of examples/first_bad, beside its healthy run.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, pixels, settled, startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const SICK = process.env.SONDE_PAGE;
const PAIR = process.env.SONDE_PAGE_PAIR;
const LOG = "Default/network-Network/log-op0";

before(startBrowser);
after(stopBrowser);

test("Q1 and Q2: the first look shows the first bad operator, its line, its reason and what it reaches", async () => {
  await withPage(SICK, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    const verdict = await text(page, ".verdict");
    for (const part of ["log-op0", "train.py:45", "log of a negative number", "step 2", "rank 0", "the loss"]) {
      assert.ok(verdict.includes(part), `${part} is not in: ${verdict}`);
    }
    assert.match(await text(page, ".code .marked"), /torch\.log\(certainty - margin\)/);
    assert.equal(new URL(page.url()).hash.includes("token"), false);
    assert.equal(await page.locator(".faults").count(), 0);
    const token = SICK.replace(/.*#token=/, "");
    await page.evaluate((pasted) => { location.hash = `#/ops?s=1&token=${pasted}`; }, token); // the page begins again
    await page.waitForSelector(".grid-row .op-link");
    assert.equal(new URL(page.url()).hash, "#/ops?s=1");
    await page.getByRole("tab", { name: "Operators" }).click();
    await page.waitForFunction(() => location.hash.includes("k=ops"));
    assert.equal((await page.content()).includes(token), false);
  });
});

test("Q1: the health map says for every step how bad it is, also as a table", async () => {
  await withPage(SICK, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    await page.locator(".card", { hasText: "Health by scope and step" }).getByRole("button", { name: "As a table" }).click();
    const row = page.locator(".matrix tr", { hasText: "Default/network-Network" }).first();
    await row.locator("td").nth(2).waitFor();
    await settled(page);
    const cells = await row.locator("td").allInnerTexts();
    assert.equal(cells.length, 3);
    assert.match(cells[0], /placed and absorbed/); // by the verdict of first-bad
    assert.match(cells[2], /NaN/);
  });
});

test("Q3: two clicks lead from the finding along the path, and to what the operator read", async () => {
  await withPage(SICK, {}, async (page) => {
    await page.getByRole("link", { name: "Show the path" }).click();
    await page.waitForSelector(".stations li");
    const stations = await page.locator(".stations li a").allInnerTexts();
    assert.deepEqual(stations.slice(0, 3), ["log-op0", "tanh-op0", "div-op0"]);
    assert.ok(stations.includes("cross_entropy_loss-op0"), String(stations));
    await go(page, `#/op?s=2&op=${LOG}`);
    const input = page.locator(".tensor-card", { hasText: "input.0" });
    assert.match(await input.innerText(), /from\s+sub-op0/);
    await input.getByRole("link", { name: "sub-op0" }).click();
    await page.waitForFunction(() => document.querySelector("h1")?.textContent?.includes("sub-op0"));
    assert.match(await page.locator(".tensor-card", { hasText: "output.0" }).innerText(), /read by\s+log-op0/);
  });
});

test("Q3: a closed scope of the graph has a strip with its class in each step", async () => {
  await withPage(SICK, {}, async (page) => {
    await go(page, "#/graph?s=1");
    await page.waitForSelector("canvas[data-boxes]");
    await settled(page);
    assert.ok((await pixels(page, ".graph-view canvas", "--nan")) > 20); // of step 2: no box of step 1 has the colour
    assert.ok((await pixels(page, ".graph-view canvas", "--fine")) > 100);
  });
});

test("Q4: a tensor shows its distribution, its values, and the next NaN", async () => {
  await withPage(SICK, {}, async (page) => {
    await go(page, `#/op?s=2&op=${LOG}&t=o0`);
    await page.waitForSelector(".histogram .nan");
    assert.match(await page.locator(".histogram svg").innerText().catch(() => "") || (await page.locator(".histogram svg").textContent()), /32.*NaN/);
    await page.getByRole("tab", { name: "Values" }).click();
    await page.locator(".tab-panel").getByRole("button", { name: "NaN" }).click();
    await page.waitForFunction(() => document.querySelector(".tab-panel .read-out")?.textContent?.includes("[0,3,0] = nan"));
    assert.equal(await page.locator("td.marked").innerText(), "nan");
    await page.getByRole("tab", { name: "Heat map" }).click();
    await page.locator(".heat canvas").focus();
    for (let i = 0; i < 3; i += 1) await page.keyboard.press("ArrowDown");
    await page.waitForFunction(() => /row 3, column 0: .*NaN/.test(document.querySelector(".heat .read-out")?.textContent));
  });
});

test("a tensor beside itself in the step before: what changed, by more than a tolerance, with one cursor", async () => {
  await withPage(SICK, {}, async (page) => {
    await go(page, "#/op?s=1&op=head.weight");
    await page.waitForSelector(".op-page");
    const all = () => page.locator(".tab-panel .read-out").first().innerText().then((words) => words.match(/^([\d,]+) of ([\d,]+) elements/).slice(1));
    await page.getByRole("tab", { name: "Previous step" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".pictures canvas").length === 3);
    await settled(page);
    const [before, elements] = await all();
    assert.equal(before, elements); // an optimizer with momentum changes every weight
    await page.getByLabel("Tolerance").fill("1");
    await page.waitForFunction((old) => !document.querySelector(".tab-panel .read-out").textContent.startsWith(`${old} `), before);
    await page.locator(".pictures canvas").first().focus();
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction(() => document.querySelectorAll(".pictures .read-out").length === 3);
    const cells = await page.locator(".pictures .read-out").allInnerTexts();
    assert.equal(cells.length, 3);
    for (const cell of cells) assert.match(cell, /row 0, column 1: /);
  });
});

test("Q5: a trend over the steps, and the norms of gradients", async () => {
  await withPage(SICK, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    const gradients = page.locator(".card", { hasText: "Norms of gradients" });
    await gradients.getByRole("button", { name: "As a table" }).click();
    await settled(page);
    const cells = await gradients.locator("tr", { hasText: "head.weight" }).locator("td").allInnerTexts();
    assert.match(cells[0], /^[\d.e-]+, [\d.e-]+ times the median of the row$/);
    assert.match(cells[2], /NaN/);
    await go(page, "#/op?s=1&op=Default/network-Network/attention-Attention/softmax-op0&tab=trend");
    await page.waitForSelector(".plot canvas");
    assert.match(await page.locator(".plot [role=img]").getAttribute("aria-label"), /l2norm 0: [\d.]+, 1: [\d.]+, 2: [\d.]+/);
  });
});

test("Q6: two runs: the first difference in words, the curve, every pair", async () => {
  await withPage(PAIR, {}, async (page) => {
    await page.getByRole("link", { name: "Compare" }).click();
    await page.waitForSelector(".first-difference.bad"); // the overview has a card of the finding, too
    const said = process.env.SONDE_FIRST_DIFFERENCE.replace(/^first difference: /, "").replaceAll(/\s+/g, " ");
    const clauses = said.slice(said.indexOf(": ") + 2).split("; "); // the headline has the place before them
    assert.ok(said.length > 30);
    for (const clause of clauses) assert.ok((await text(page, ".first-difference")).includes(clause), `${clause} is not in: ${await text(page, ".first-difference")}`);
    await page.waitForSelector(".pairs .grid-row .op-link");
    assert.ok((await page.locator(".pairs .grid-row").count()) > 10);
    const golden = page.locator(".pairs .grid-row").first().locator("a[href*='d=1']");
    assert.match(await golden.getAttribute("href"), /^#\/op\?d=1&r=0&g=0&s=\d+&op=/);
    await golden.click();
    await page.waitForSelector(".op-page");
    assert.match(await page.locator(".bar select").first().inputValue(), /^1$/);
    await page.goBack();
    await page.locator(".verdict.bad .headline .op-link").click();
    await page.waitForSelector(".op-page");
    await page.getByRole("tab", { name: "Golden" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".pictures canvas").length === 4);
    await settled(page);
    assert.match(await text(page, ".tab-panel .read-out"), /^[\d,]+ of [\d,]+ elements differ\.$/);
  });
});

test("Q7: conditions of MindSpore's debugger give hits, and a hit opens its tensor", async () => {
  await withPage(SICK, {}, async (page) => {
    await go(page, "#/watch");
    await page.getByRole("button", { name: "Check" }).click();
    await page.waitForSelector(".list-table tbody tr");
    assert.match(await text(page, ".list-table"), /tensor_overflow/);
    await page.locator(".watch-hits a", { hasText: "masked_fill-op0" }).first().click();
    await page.waitForSelector(".op-page");
    assert.match(await text(page, "h1"), /masked_fill-op0/);
  });
});

test("Q10: one click gives the configuration of the next dump", async () => {
  await withPage(SICK, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    await page.getByRole("button", { name: "Next configuration" }).click();
    await page.waitForSelector(".next-config pre");
    assert.match(await text(page, ".next-config pre"), /common_dump_settings/);
  });
});

test("the table sorts and filters all tensors, and shows the command of the same rows", async () => {
  await withPage(SICK, {}, async (page) => {
    await go(page, "#/ops?all=1");
    await page.waitForFunction(() => /^[\d,]+ rows$/.test(document.querySelector(".count")?.textContent ?? ""));
    const all = await text(page, ".count");
    assert.match(await text(page, ".command code"), /^sonde stats /);
    await page.getByLabel("Filter").fill("class:nan");
    await page.getByLabel("Filter").press("Enter");
    await page.waitForFunction((before) => document.querySelector(".count")?.textContent !== before, all);
    const number = (words) => Number(words.replace(/\D/g, ""));
    assert.ok(number(await text(page, ".count")) < number(all));
    await page.getByRole("columnheader", { name: "l2norm" }).getByRole("button").click();
    await page.waitForSelector("[aria-sort=descending]");
    assert.ok((await page.locator(".grid-row").count()) <= 60);
  });
});

test("every column that offers it sorts the table; a parameter has no phase", async () => {
  await withPage(SICK, {}, async (page) => {
    for (const kind of ["ops", "tensors"]) {
      await go(page, `#/ops?all=1&k=${kind}`);
      await page.waitForSelector(".grid-row .op-link");
      for (const column of await page.locator("[role=columnheader] button").all()) {
        await column.click();
        await page.waitForSelector(".grid-row .op-link");
        assert.equal(await page.locator(".problem").count(), 0, `${kind}: ${await column.innerText()}: ${await page.locator(".problem").allInnerTexts()}`);
      }
    }
    await go(page, "#/ops?s=2&k=ops&f=head.weight");
    await page.waitForFunction(() => document.querySelectorAll(".grid-row .op-link").length === 1);
    assert.doesNotMatch(await text(page, ".grid-row:not([aria-rowindex='1'])"), /forward/);
  });
});

test("the source begins with the line of the finding, and the bar stays in its place", async () => {
  await withPage(SICK, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    await go(page, "#/source");
    await page.waitForSelector(".source-line.marked");
    await settled(page); // it comes into view
    assert.match(await text(page, ".source-line.marked"), /^✕.* 45 \d+ .*torch\.log\(certainty - margin\)/);
    const { y, height } = await page.locator(".source-line.marked").boundingBox();
    assert.ok(y > 48 && y + height < 800, `the line is at ${y}`);
    assert.equal((await page.locator(".bar").boundingBox()).y, 0);
    assert.ok((await page.locator(".card", { hasText: "Files" }).first().boundingBox()).y > 0);
  });
});

test("links, back and forward, and a name that the dump does not have", async () => {
  await withPage(SICK, { allowed: ["404"] }, async (page) => {
    await go(page, `#/op?s=2&op=${LOG}`);
    await page.waitForSelector(".op-page");
    assert.match(await text(page, "h1"), /log-op0/);
    await go(page, "#/ops");
    await page.waitForSelector(".grid");
    await page.goBack();
    await page.waitForSelector(".op-page");
    await page.goForward();
    await page.waitForSelector(".grid");
    await go(page, "#/op?s=2&op=Default/network-Old/log-op0");
    await page.locator(".card", { hasText: "The dump has no operator of this name" }).getByRole("link", { name: "log-op0" }).first().click();
    await page.waitForSelector(".op-page");
  });
});

test("an address that asks for what there is not: it is said, with what is expected, and the rest is shown", async () => {
  await withPage(SICK, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    for (const [fragment, said, shown] of [
      ["#/ops?s=abc", /step "abc".* Expected: 0-2\./, ".grid-row .op-link"], ["#/graph?s=99&colour=red", /step "99".* colour "red"/, "canvas[data-boxes]"],
      [`#/op?s=2&op=${LOG}&t=o9`, /tensor "o9".* Expected: i0, o0\./, ".histogram svg"], ["#/nowhere", /screen "nowhere".* overview, ops,/, ".verdict.bad"],
      ["#/overview?r=7&g=8&hm=z", /rank "7".*graph "8".*steps of the health map "z"/, ".matrix canvas"],
    ]) {
      await go(page, fragment);
      await page.waitForFunction((source) => new RegExp(source, "s").test(document.querySelector("main")?.innerText), said.source);
      await page.waitForSelector(shown);
    }
    await page.getByRole("link", { name: "Leave it out" }).click();
    await page.waitForFunction(() => !document.querySelector(".faults"));
    assert.equal(new URL(page.url()).hash, "#/overview");
  });
});

test("a new tab without a token asks the open one; alone it asks the user", async () => {
  await withPage(SICK, {}, async (page, context) => {
    const second = await context.newPage();
    await second.goto(SICK.replace(/#.*/, ""));
    await second.waitForSelector(".frame");
    await second.waitForSelector(".verdict.bad");
  });
  await withPage(SICK, { allowed: ["401"] }, async (page, context) => {
    await page.close(); // nobody is left to ask
    const alone = await context.newPage();
    await alone.goto(SICK.replace(/#.*/, ""));
    await alone.getByLabel("Token").fill("0".repeat(32));
    await alone.getByRole("button", { name: "Open" }).click();
    await alone.waitForSelector("[role=alert]");
    assert.match(await text(alone, "[role=alert]"), /does not accept/);
    await alone.getByLabel("Token").fill(SICK.replace(/.*#token=/, ""));
    await alone.getByRole("button", { name: "Open" }).click();
    await alone.waitForSelector(".verdict.bad");
  });
});

test("Enter in the search opens the first hit of what is in the field, also before the answer has come", async () => {
  await withPage(SICK, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    await page.keyboard.press("/");
    await page.keyboard.type("softmax-op0");
    await page.locator(".hits .name", { hasText: "softmax-op0" }).first().waitFor();
    await page.route("**/api/v1/search*", async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 400));
      await route.continue();
    });
    await page.getByRole("searchbox").last().fill("log-op0");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".op-page");
    assert.match(await text(page, "h1"), /^log-op0/);
  });
});

test("Enter opens a row of a table as soon as the row has come", async () => {
  await withPage(SICK, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    await go(page, "#/ops?k=ops&all=1");
    await page.waitForSelector(".grid-row .op-link");
    const rows = Number(await page.locator(".grid").getAttribute("aria-rowcount")) - 1;
    assert.ok(rows > 200, `${rows} rows are one page`);
    await page.route("**/api/v1/ops*", async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 400));
      await route.continue();
    });
    await page.locator(".grid").focus();
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".op-page");
  });
});

test("the keyboard alone: search, open, tabs, screens, the graph and its tree", async () => {
  await withPage(SICK, {}, async (page) => {
    await page.waitForSelector(".verdict.bad");
    await page.keyboard.press("/");
    await page.keyboard.type("log-op0");
    await page.waitForSelector(".hits .name");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".op-page");
    await page.keyboard.press("p");
    await page.waitForSelector(".stations li");
    await page.keyboard.press("g");
    await page.keyboard.press("t");
    await page.waitForSelector(".grid-row");
    await page.locator(".grid").focus();
    await page.keyboard.press("End");
    await page.waitForSelector(".grid-row.active:not([aria-rowindex='2']) .op-link");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".op-page");
    await page.keyboard.press("g");
    await page.keyboard.press("g");
    await page.getByRole("button", { name: "Tree" }).press("Enter");
    await page.waitForSelector("[role=treeitem][aria-expanded=true]");
    await page.locator("[role=treeitem][tabindex='0']").focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowDown");
    // The focus moves with the next frame.
    await page.waitForFunction(() => Number(document.activeElement?.getAttribute("aria-level")) >= 2);
    const focused = await page.evaluate(() => document.activeElement?.getAttribute("aria-level"));
    assert.ok(Number(focused) >= 2, `level ${focused}`);
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog[open]", { state: "detached" });
  });
});
