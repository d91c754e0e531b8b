// How fast `sonde serve` and its page are, in Debian's Chromium; the rows of docs/performance.md, "The page".
//
//   node benchmarks/page.mjs DIRECTORY [--rounds 5] [--only bundle|tensor|report|graph|questions|firstPaint|withoutIndex] [--json FILE]
//
// DIRECTORY gets the dumps of page_dumps.py, 4 GB of names and 300 MB of bytes; python and sonde are those of the path. Times are by
// the clock, medians of the rounds, from the request or the click until the page shows it.
import { spawn, spawnSync } from "node:child_process";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { go, startBrowser, stopBrowser, withPage } from "../web/tests/browser/browser.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const ARROW = "application/vnd.apache.arrow.stream";
const [directory, ...rest] = process.argv.slice(2);
const option = (name, otherwise) => (rest.includes(name) ? rest[rest.indexOf(name) + 1] : otherwise);
const ROUNDS = Number(option("--rounds", 5));
const rows = [];

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

function note(what, value, unit, target) {
  rows.push({ what, value, unit, target });
  const shown = typeof value === "number" ? value.toFixed(value < 10 ? 2 : 0) : value;
  console.log(`${what.padEnd(76)} ${shown.padStart(8)} ${unit.padEnd(4)} ${target ? `target ${target}` : ""}`);
}

async function timed(work) {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

class Served {
  static async start(dump, environment = {}) {
    const server = new Served();
    server.began = performance.now();
    server.process = spawn("sonde", ["serve", join(directory, dump)], { env: { ...process.env, ...environment }, stdio: ["ignore", "pipe", "ignore"] });
    server.address = await new Promise((resolve) => server.process.stdout.once("data", (data) => resolve(String(data).trim())));
    return server;
  }
  since() {
    return (performance.now() - this.began) / 1000;
  }
  async ask(path, accept = ARROW) {
    const [base, token] = this.address.split("#token=");
    const answer = await fetch(`${base}api/v1/${path}`, { headers: { Authorization: `Bearer ${token}`, Accept: accept } });
    const bytes = await answer.arrayBuffer();
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${new TextDecoder().decode(bytes)}`);
    return bytes;
  }
  async ready() {
    while (new TextDecoder().decode(await this.ask("status", "*/*")).includes('"indexing"')) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  // Megabytes: the most that were used.
  memory() {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${this.process.pid}/status`, "utf8"))[1]) / 1024;
  }
  async stop() {
    this.process.kill("SIGTERM");
    await new Promise((resolve) => this.process.once("exit", resolve));
  }
}

async function firstPaint() {
  const seconds = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const server = await Served.start("million");
    await withPage(server.address, {}, async (page) => {
      await page.waitForSelector(".matrix canvas");
      seconds.push(server.since());
    });
    if (round === 0) note("million tensors, saved index: memory of the server after the overview", server.memory(), "MB", "150");
    await server.stop();
  }
  note("million tensors, saved index: from the verb to the health map", median(seconds), "s", "2");
}

async function withoutIndex() {
  const server = await Served.start("million", { SONDE_INDEX: "off" });
  let frame = 0;
  await withPage(server.address, {}, async (page) => {
    frame = server.since();
    await page.waitForSelector(".page.empty[role=status]", { timeout: 60_000 }); // the frame has others, which say nothing yet
    note("the same without an index: the progress", server.since(), "s", "0.5");
    await page.waitForSelector(".matrix canvas", { timeout: 300_000 });
    note("the same without an index: the frame", frame, "s", "0.5");
    note("the same without an index: health map", server.since(), "s", "when indexed");
  });
  await server.stop();
}

// Each question once as the first one, then again: the median of the rounds.
async function questions() {
  const server = await Served.start("million");
  await server.ready();
  const first = await timed(() => server.ask("health"));
  note("health map, first", first / 1000, "s", "1.5");
  const again = async (what, target, path) => {
    const times = [];
    for (let round = 0; round < ROUNDS; round += 1) times.push(await timed(() => server.ask(path(round))));
    note(what, median(times), "ms", target);
  };
  await again("health map, then", "100", () => "health");
  await again("health map of one level below, binned", "100", (round) => `health?under=Default&w=${10 + round}&h=20`);
  await again("table page in the order of the run", "50", (round) => `tensors?offset=${(round + 1) * 150_000}`);
  const orders = ["-l2norm", "max", "shape", "op_name", "-min"];
  await again("table page of a new order, any column", "1500", (round) => `tensors?sort=${orders[round % orders.length]}&filter=l2norm>=${-1 - round}`);
  await again("table page of the last order", "50", (round) => `tensors?sort=-min&offset=${round * 200}&filter=l2norm>=${-ROUNDS}`);
  note("memory of the server after all of this", server.memory(), "MB", "150");
  await server.stop();
}

async function boxes(page, before) {
  await page.waitForFunction((old) => Number(document.querySelector("canvas[data-boxes]")?.dataset.boxes ?? old) !== old, before, { polling: "raf" });
  return Number(await page.locator("canvas[data-boxes]").getAttribute("data-boxes"));
}

// Zooms or drags once in each frame; the 95th percentile of the frames' times.
const frames = (page, kind) =>
  page.evaluate(async (how) => {
    const canvas = document.querySelector("canvas[data-boxes]");
    const box = canvas.getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    const times = [];
    let last = await new Promise(requestAnimationFrame);
    const at = (type, by) => canvas.dispatchEvent(new PointerEvent(type, { clientX: x + by, clientY: y, pointerId: 1, bubbles: true }));
    canvas.setPointerCapture = () => {}; // there is no real pointer
    if (how === "pan") at("pointerdown", 0);
    for (let i = 0; i < 90; i += 1) {
      if (how === "pan") at("pointermove", 6 * (45 - Math.abs(i - 45)));
      else canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: i < 45 ? -6 : 6, clientX: x, clientY: y, bubbles: true, cancelable: true }));
      const now = await new Promise(requestAnimationFrame);
      times.push(now - last);
      last = now;
    }
    return times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)];
  }, kind);

async function graph() {
  const server = await Served.start("graph");
  const fetched = [], drawn = [], opened = [], paths = [];
  let ops = 0;
  await withPage(server.address, {}, async (page) => {
    await page.waitForSelector(".matrix canvas");
    const nodes = JSON.parse(new TextDecoder().decode(await server.ask("graph?step=1", "application/json"))).rows;
    const named = (part) => nodes.find((node) => node.op_name.includes(part)).op_name;
    ops = nodes.length;
    for (let round = 0; round < ROUNDS; round += 1) {
      const step = round % 3;
      fetched.push(await timed(() => Promise.all([server.ask(`graph?step=${step}`), server.ask(`graph?step=${step}&part=edges`)])));
      await go(page, "#/overview");
      await page.waitForSelector(".matrix canvas");
      drawn.push(await timed(async () => {
        await go(page, `#/graph?s=${step}`);
        await page.waitForSelector("canvas[data-boxes]");
      }));
      const before = Number(await page.locator("canvas[data-boxes]").getAttribute("data-boxes"));
      opened.push(await timed(async () => {
        await go(page, `#/graph?s=${step}&op=${encodeURIComponent(named(`/${100 + round}-Block/`))}`);
        await boxes(page, before);
      }));
      const open = Number(await page.locator("canvas[data-boxes]").getAttribute("data-boxes"));
      paths.push(await timed(async () => {
        await go(page, `#/graph?s=${step}&path=effect&op=${encodeURIComponent(named(`/${100 + round}-Block/`))}`);
        await page.waitForSelector(".stations li");
        await boxes(page, open);
      }));
    }
    await go(page, "#/graph?s=1");
    await page.waitForFunction(() => !document.querySelector(".stations"));
    let seen = 0;
    const switched = page.locator(".graph-tools:not(.at-end) button").first();
    for (const lane of [0, 1, 2]) {
      await switched.click(); // to the tree
      const item = page.locator("[role=treeitem][aria-level='1']").nth(lane);
      if (await item.count()) await item.press("Shift+Enter");
      await page.locator(".graph-note[role=alert] button").click({ timeout: 2000 }).catch(() => null); // asked for many alone
      await switched.click(); // and back
      await page.waitForFunction((old) => Number(document.querySelector("canvas[data-boxes]")?.dataset.boxes) > old, seen, { timeout: 20_000 }).catch(() => null);
      const many = await boxes(page, 0);
      if (many <= Math.max(seen, 1000)) {
        note(`frames while zooming: not measured, only ${many} boxes opened`, "-", "", "33 ms");
        break;
      }
      seen = many;
      await page.locator("canvas[data-boxes]").press("f"); // all of it
      note(`frame of 95 %, zoom, all of ${many} boxes visible`, await frames(page, "zoom"), "ms", "33");
      note(`frame of 95 %, pan, all of ${many} boxes visible`, await frames(page, "pan"), "ms", "33");
    }
  });
  note(`graph of ${ops} operators: nodes and edges`, median(fetched), "ms", "");
  note("the same: from the click to the drawing", median(drawn) / 1000, "s", "1");
  note("the same: scopes of a chosen operator opened", median(opened), "ms", "100");
  note("the same: path to the loss, with its list", median(paths), "ms", "300");
  await server.stop();
}

async function tensor() {
  const server = await Served.start("large");
  const kinds = { histogram: [], heat: [], op: [] };
  await server.ready();
  const ops = JSON.parse(new TextDecoder().decode(await server.ask("ops", "application/json"))).rows;
  const name = ops.find((row) => row.op_type === "exp").op_name;
  for (let round = 0; round < ROUNDS; round += 1) {
    kinds.op.push(await timed(() => server.ask(`op?name=${name}`, "*/*")));
    kinds.histogram.push(await timed(() => server.ask(`tensor/histogram?name=${name}&bins=${100 + round}`, "*/*")));
    kinds.heat.push(await timed(() => server.ask(`tensor/heat?name=${name}&w=${400 + round}&h=300`)));
  }
  note("one operator", median(kinds.op), "ms", "100");
  note("histogram of 100 MB", median(kinds.histogram), "ms", "250");
  note("heat map of 100 MB", median(kinds.heat), "ms", "250");
  await server.stop();
}

// A report of the graph's dump, as large as it may be without being asked for.
async function report() {
  const file = join(directory, "report.html");
  const made = spawnSync("sonde", ["report", join(directory, "graph"), "--html", file], { encoding: "utf8" });
  if (made.status !== 0) throw new Error(made.stderr);
  const painted = [], usable = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const began = performance.now();
    await withPage(pathToFileURL(file).href, {}, async (page) => {
      await page.waitForSelector(".matrix canvas");
      usable.push((performance.now() - began) / 1000);
      painted.push((await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime)) / 1000);
    });
  }
  const size = `report of ${(statSync(file).size / 1e6).toFixed(1)} MB`;
  note(`${size}: first paint`, median(painted), "s", "1");
  note(`${size}: the health map, with the browser's new window`, median(usable), "s", "2");
}

function bundle() {
  const place = join(HERE, "../build/web");
  const files = readdirSync(place, { recursive: true }).filter((name) => name.endsWith(".gz"));
  note("all files of the page, compressed", files.reduce((sum, name) => sum + statSync(join(place, name)).size, 0) / 1024, "KB", "250");
}

if (!directory) throw new Error("usage: node benchmarks/page.mjs DIRECTORY [--rounds 5] [--json FILE]");
const made = spawnSync("python", [join(HERE, "page_dumps.py"), directory], { stdio: "inherit" });
if (made.status !== 0) throw new Error("the dumps could not be made");
console.log(`${cpus().length} processors, load ${loadavg()[0].toFixed(1)}`);
await startBrowser();
const only = option("--only");
for (const part of [bundle, tensor, report, graph, questions, firstPaint, withoutIndex]) if (!only || part.name === only) await part();
await stopBrowser();
if (option("--json")) writeFileSync(option("--json"), JSON.stringify({ processors: cpus().length, load: loadavg()[0], rows }, null, 1));
