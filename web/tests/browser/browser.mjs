// A page of a running server in Debian's Chromium. Whatever the page does wrong on the way fails the test: an error on the console, a
// breach of its policy, a request to somewhere else.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const CHROMIUM = process.env.SONDE_CHROMIUM ?? "/usr/bin/chromium";
const OPTIONS = [
  "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

const PATIENCE_MS = 60_000; // a slow machine takes its time; only what never comes fails
const FRAMES = 12;

let browser = null;
const underWay = new WeakMap(); // page: its requests that have no answer yet

export async function startBrowser() {
  const root = process.getuid?.() === 0 ? ["--no-sandbox"] : []; // Chromium's sandbox refuses root
  browser ??= await chromium.launch({ executablePath: CHROMIUM, args: [...OPTIONS, ...root] });
}

export async function stopBrowser() {
  await browser?.close();
  browser = null;
}

// withPage(address, {width, height, dark}, body): `address` is what `sonde serve` printed, or that of a report.
export async function withPage(address, options, body) {
  const { width = 1280, height = 800, dark = false, allowed = [], mayAsk = null } = options;
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
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
    await context.close();
  }
}

function watchRequests(page) {
  const asked = new Set();
  underWay.set(page, asked);
  // The events never end; Chromium says nothing of the end of a worker's script, when the page ends the worker before.
  page.on("request", (request) => request.resourceType() === "fetch" && !request.url().includes("/api/v1/events") && asked.add(request));
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, (request) => asked.delete(request));
}

// Until the page has all its answers and shows the same for some frames, its pictures included.
export async function settled(page) {
  const until = Date.now() + PATIENCE_MS;
  for (let same = 0, before = ""; same < FRAMES;) {
    const now = await page.evaluate(() => new Promise((resolve) => {
      const seen = () => [location.hash, document.querySelector("main")?.innerText, ...[...document.querySelectorAll("canvas")].map((canvas) => canvas.toDataURL())];
      requestAnimationFrame(() => setTimeout(() => resolve(seen().join("\n"))));
    }));
    same = now === before && underWay.get(page).size === 0 ? same + 1 : 0;
    assert.ok(Date.now() < until, `no rest: ${[...underWay.get(page)].map((request) => request.url())} ${now.slice(0, 400)}`);
    before = now;
  }
}

const AXE = readFileSync(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

export async function axeFindings(page) {
  await page.evaluate(AXE); // by the debugger's protocol, which the page's policy does not concern
  return page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] });
    return violations.map((violation) => `${violation.id}: ${violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
  });
}

export const go = async (page, fragment) => {
  await page.evaluate((hash) => { location.hash = hash; }, fragment);
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
