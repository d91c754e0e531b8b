// No face says less than the verb: each rank's own finding, the first difference before all else, tags as words, what grew, and asides.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startBrowser, stopBrowser, text, withPage } from "./browser.mjs";

const { SONDE_PAGE_RANKS: RANKS, SONDE_PAGE_GREW: GREW, SONDE_PAGE_PAIR: PAIR, SONDE_PAGE_EQUAL: EQUAL, SONDE_REPORT: REPORT } = process.env;

before(startBrowser);
after(stopBrowser);

// The answers of the server, changed on the way.
async function changing(page, path, change) {
  await page.route((url) => url.pathname.endsWith(path), async (route) => {
    if (route.request().method() !== "GET") return route.continue();
    const answer = await route.fetch();
    const json = await answer.json();
    change(json);
    return route.fulfill({ response: answer, json });
  });
  await page.reload();
}

test("two ranks that each went wrong by themselves are both named, and the one that is missing", async () => {
  await withPage(RANKS, {}, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    assert.match(await text(page, ".first-bad .headline"), /log-op0 train.py:7/);
    assert.equal(await text(page, ".announced"), "First bad value: log-op0 train.py:7: log of a negative number: input.0[0,0] = -1");
    assert.match(await text(page, ".first-bad .evidence"), /no collective of step 0 ran on rank 0 before it/);
    assert.equal(await text(page, ".first-bad .note"), "the dump lacks rank 1: what was computed there is not known");
    assert.match(await text(page, ".overview"), /ranks 2: 0, 2/);
    assert.match(await text(page, ".first-bad .ranks"), /Rank 2: log-op0 train.py:9 log of 0/);
    await page.locator(".ranks .op-link").click();
    await page.waitForFunction(() => location.hash.includes("r=2") && document.querySelector("h1")?.textContent?.includes("log-op0"));
    await page.waitForSelector(".op-page .marked[aria-current=true]");
    assert.match(await text(page, "h1"), /infinity$/); // judged, as what the first rank found
  });
});

test("two dumps that differ open with the first difference, and nothing is green", async () => {
  for (const address of [PAIR, REPORT]) {
    await withPage(address, {}, async (page) => {
      await page.waitForSelector(".first-difference.bad");
      await page.waitForSelector(".first-bad.quiet");
      assert.match(await text(page, ".verdict"), /First difference .*gelu-op0 pair.py:6 .*approximate=tanh, golden none/);
      assert.equal(await page.locator(".verdict.good").count(), 0);
      assert.doesNotMatch(await text(page, "main"), /Nothing is wrong/);
      await page.getByRole("link", { name: "Show the comparison" }).click();
      await page.waitForSelector(".pairs .grid-row .op-link");
    });
  }
});

test("while the two are compared the page says so, and nothing is green", async () => {
  await withPage(EQUAL, {}, async (page) => {
    await page.waitForSelector(".first-difference.good");
    let answer;
    const held = new Promise((resolve) => { answer = resolve; });
    await page.route((url) => /\/jobs\/\d+$/.test(url.pathname), async (route) => {
      await held;
      await route.continue();
    });
    await page.reload();
    await page.waitForSelector(".first-bad.quiet");
    assert.match(await text(page, ".first-difference"), /Comparing/);
    assert.equal(await page.locator(".verdict.good").count(), 0);
    answer();
    await page.waitForSelector(".first-difference.good");
    await page.waitForSelector(".first-bad.good");
  });
});

test("runs that are equal but for rounding, or in part, are not called equal", async () => {
  await withPage(EQUAL, {}, async (page) => {
    await page.waitForSelector(".first-difference.good");
    assert.match(await text(page, ".first-difference"), /The runs are equal\./);
    for (const verdict of ["within_tolerance", "propagated", "unmatched"]) {
      for (const number of [1, 2]) await changing(page, `/jobs/${number}`, ({ kind, result }) => kind === "compare" && Object.assign(result.summary, { within_tolerance: 0, propagated: 0, unmatched: 0, [verdict]: 6 }));
      await page.waitForFunction(() => /No difference that rounding does not explain/.test(document.querySelector(".first-difference")?.textContent ?? ""));
      await page.waitForSelector(verdict === "within_tolerance" ? ".first-bad.good" : ".first-bad.quiet");
    }
  });
});

test("two dumps that have nothing in common are not called equal, and the reason is open", async () => {
  await withPage(EQUAL, {}, async (page) => {
    await page.waitForSelector(".first-difference.good");
    const summary = { identical: 0, within_tolerance: 0, propagated: 0, introduced: 0, unmatched: 7, unknown: 0 };
    const problems = [{ path: "", message: "nothing corresponds: 0 of 2 parameters are in both" }];
    for (const number of [1, 2]) await changing(page, `/jobs/${number}`, ({ kind, result }) => kind === "compare" && Object.assign(result, { complete: false, summary, problems }));
    await page.waitForSelector(".first-difference.unsure");
    assert.match(await text(page, ".first-difference .headline"), /Nothing was compared: no operator of one dump has a counterpart/);
    await page.getByText("nothing corresponds: 0 of 2 parameters are in both").waitFor();
  });
});

test("a comparison that fails says why, and nothing is green", async () => {
  await withPage(EQUAL, {}, async (page) => {
    await page.waitForSelector(".first-difference.good");
    const fail = (job) => Object.assign(job, job.kind === "compare" ? { state: "failed", error: "no step in common", result: null } : {});
    await page.route((url) => url.pathname.endsWith("/jobs"), async (route) => {
      const answer = await route.fetch();
      const json = await answer.json();
      json.jobs.forEach(fail);
      await route.fulfill({ response: answer, json });
    });
    await changing(page, "/jobs/1", fail);
    await changing(page, "/jobs/2", fail);
    await page.waitForSelector(".first-difference.unsure");
    assert.match(await text(page, ".first-difference"), /could not be compared. no step in common/);
    await page.waitForSelector(".first-bad.quiet");
  });
});

test("tags are words beside the headline", async () => {
  await withPage(GREW, {}, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    const tags = ["uncertain", "one_rank_only", "backward_only", "of_tomorrow"];
    await changing(page, "/overview", ({ finding }) => Object.assign(finding.first, { tags }));
    await page.waitForSelector(".first-bad.uncertain");
    assert.match(await text(page, ".first-bad .eyebrow"), /uncertain ?one rank only ?backward only ?of tomorrow/);
  });
  await withPage(PAIR, {}, async (page) => {
    await page.waitForSelector(".first-difference.bad");
    for (const number of [1, 2]) {
      await changing(page, `/jobs/${number}`, ({ kind, result }) => {
        if (kind !== "compare") return;
        const [first] = result.findings;
        Object.assign(first, { tags: ["uncertain"], text: `${first.text}; or one of the ops around it (--all; --mapping FILE pairs them)` });
      });
    }
    await page.waitForSelector(".first-difference.uncertain");
    await page.getByText("or one of the ops around it (--all; --mapping FILE pairs them)", { exact: true }).waitFor();
    assert.match(await text(page, ".first-difference .eyebrow"), /First difference uncertain/);
  });
});

test("what grew first, what is aside or expected, the suspects and the problems are shown", async () => {
  await withPage(GREW, {}, async (page) => {
    await page.waitForSelector(".first-bad.bad");
    assert.match(await text(page, ".growth"), /Grew first: mul-op0 grow.py:5 in step 6: norm [\d.e+]+ after [\d.]+/);
    assert.match(await text(page, ".asides"), /div-op0 grow.py:16 after the optimizer 0 divided by 0.*\(step 0, 9 times in all\)/);
    await changing(page, "/overview", ({ finding }) => {
      finding.expected = finding.asides.slice(0, 1);
      finding.growth.tensor.parameter = "tower.2.bias";
      finding.problems = [{ path: "torn.npy", message: "it ends early" }];
    });
    await page.waitForSelector(".expected");
    assert.match(await text(page, ".growth"), /Grew first: tower.2.bias, by mul-op0 grow.py:5 in step 6: .* · by step: 1: /);
    assert.match(await text(page, ".expected"), /the loss scaler found it and skipped the step div-op0/);
    await page.locator(".first-bad .problems summary").click();
    assert.match(await text(page, ".first-bad .problems"), /torn.npy it ends early/);
    await page.getByText(/^suspects that the next/).click();
    assert.ok((await page.locator(".first-bad .more .op-link").count()) > 0);
    await page.locator(".growth .op-link").click();
    await page.waitForFunction(() => document.querySelector("h1")?.textContent?.includes("mul-op0"));
  });
});
