// A page of a running server in Debian's Chromium. Whatever the page does wrong on the way fails the test: an error on the console, a
// breach of its policy, a request to somewhere else.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const CHROMIUM = process.env.SONDE_CHROMIUM ?? "/usr/bin/chromium";
const FEATURES_OFF = [
  // Those of Playwright's own list, which this one replaces, that concern these pages.
  "AimEnabled", "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades", "LensOverlay", "MediaRouter", "NetworkTimeServiceQuerying",
  "OptimizationHints", "PaintHolding", "PreconnectToSearch", "ThirdPartyStoragePartitioning",
  // Each window would load two pages for its field of addresses, and start a process in reserve: a third of the processor time of a test.
  "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess",
];
const OPTIONS = [
  "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
  `--disable-features=${FEATURES_OFF.join(",")}`,
];

const PATIENCE_MS = 60_000; // a slow machine takes its time; only what never comes fails
const FRAMES = 12;

let browser = null;
const underWay = new WeakMap(); // page: its requests that have no answer yet, and how many it has begun

export async function startBrowser() {
  const root = process.getuid?.() === 0 ? ["--no-sandbox"] : []; // Chromium's sandbox refuses root
  browser ??= await chromium.launch({ executablePath: CHROMIUM, args: [...OPTIONS, ...root], timeout: PATIENCE_MS });
}

export async function stopBrowser() {
  try {
    if (browser) await within("the end of the browser", browser.close());
  } catch (error) {
    setTimeout(() => process.exit(1), 1000).unref(); // the browser's pipe would keep this process
    throw error;
  }
  browser = null;
}

// Fails when the promise takes longer than a slow machine could need.
export async function within(what, promise) {
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not come within ${PATIENCE_MS / 1000} s`)), PATIENCE_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// Playwright waits for these without a limit: a page that hangs would keep a test for ever.
const UNLIMITED = {
  page: ["evaluate", "close"],
  keyboard: ["press", "type"],
  mouse: ["move", "down", "up"],
  download: ["path", "saveAs"],
  locator: ["count", "all", "allInnerTexts", "allTextContents", "evaluateAll"],
};
const limited = new WeakSet();

function limit(kind, object) {
  const type = Object.getPrototypeOf(object);
  if (limited.has(type)) return;
  limited.add(type);
  for (const name of UNLIMITED[kind]) {
    const plain = type[name];
    type[name] = function (...given) {
      return within(`${kind}.${name}(${String(given[0] ?? this).slice(0, 200)})`, plain.apply(this, given));
    };
  }
}

function limitAll(page) {
  limit("page", page);
  limit("keyboard", page.keyboard);
  limit("mouse", page.mouse);
  limit("locator", page.locator("main"));
  page.on("download", (download) => limit("download", download));
}

// withPage(address, {width, height, dark}, body): `address` is what `sonde serve` printed, or that of a report.
export async function withPage(address, options, body) {
  const { width = 1280, height = 800, dark = false, allowed = [], mayAsk = null } = options;
  const look = { viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" };
  const context = await within("a new window", browser.newContext(look));
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await within("a new tab", context.newPage());
  limitAll(page);
  watchRequests(page);
  const wrong = [];
  const origin = address.startsWith("file:") ? address : new URL(address).origin;
  page.on("console", (message) => {
    if (message.type() === "error" && !allowed.some((part) => message.text().includes(part))) wrong.push(message.text());
  });
  page.on("pageerror", (error) => wrong.push(String(error.stack)));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(origin) && !(mayAsk && url.startsWith(mayAsk)) && !/^(blob|data):/.test(url)) wrong.push(`asks ${url}`);
  });
  try {
    await page.goto(address);
    await page.waitForSelector(".frame");
    await body(page, context);
    assert.deepEqual(wrong, []);
  } finally {
    // An answer that a test changes may be on its way.
    if (!page.isClosed()) await within("the end of its routes", page.unrouteAll({ behavior: "ignoreErrors" }));
    await within("the end of the window", context.close());
  }
}

function watchRequests(page) {
  const asked = { open: new Set(), begun: 0 };
  underWay.set(page, asked);
  // The events never end; Chromium says nothing of the end of a worker's script, when the page ends the worker before.
  page.on("request", (request) => {
    if (request.resourceType() !== "fetch" || request.url().includes("/api/v1/events")) return;
    asked.open.add(request);
    asked.begun += 1;
  });
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, (request) => asked.open.delete(request));
}

// Until the page has all its answers and shows the same for some frames, its pictures included.
export async function settled(page) {
  const asked = underWay.get(page);
  const until = Date.now() + PATIENCE_MS;
  for (let changing = ""; ;) {
    const { begun } = asked;
    if (asked.open.size === 0) {
      changing = await page.evaluate(rest, FRAMES);
      if (!changing && asked.open.size === 0 && asked.begun === begun) return;
    } else await new Promise((resolve) => setTimeout(resolve, 10));
    assert.ok(Date.now() < until, `no rest: ${[...asked.open].map((request) => request.url())} ${changing.slice(0, 400)}`);
  }
}

// In the page: "" when as many frames show the same; what it shows when it still changes after ten times as many.
async function rest(frames) {
  const sum = (canvas) => {
    if (!canvas.width || !canvas.height) return 0;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let hash = 0x811c9dc5;
    for (const colour of new Uint32Array(data.buffer)) hash = Math.imul(hash ^ colour, 0x01000193);
    return hash;
  };
  const seen = () => [location.hash, document.querySelector("main")?.innerText, ...[...document.querySelectorAll("canvas")].map(sum)].join("\n");
  let before = "";
  for (let all = 0, same = 0; all < 10 * frames; all += 1) {
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    const now = seen();
    same = now === before ? same + 1 : 0;
    if (same === frames) return "";
    before = now;
  }
  return before;
}

const AXE = readFileSync(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

export async function axeFindings(page) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE); // by the debugger's protocol, which the page's policy does not concern
  return page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] });
    return violations.map((violation) => `${violation.id}: ${violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
  });
}

// Ends when the page has read its new address: a key that is pressed before is one of the old screen.
export const go = async (page, fragment) => {
  await page.evaluate((hash) => new Promise((read) => {
    const before = location.href;
    addEventListener("hashchange", read, { once: true });
    location.hash = hash;
    if (location.href === before) read();
  }), fragment);
};

export const text = async (page, selector) => (await page.locator(selector).first().innerText()).replaceAll(/\s+/g, " ");

// How many pixels of a canvas have a colour that the style sheet names.
export const pixels = (page, selector, name) => page.evaluate(([of, variable]) => {
  const canvas = document.querySelector(of);
  const draw = canvas.getContext("2d");
  draw.save();
  draw.fillStyle = getComputedStyle(canvas).getPropertyValue(variable).trim();
  const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(draw.fillStyle.slice(at, at + 2), 16));
  draw.restore();
  const { data } = draw.getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i] === red && data[i + 1] === green && data[i + 2] === blue) count += 1;
  return count;
}, [selector, name]);
