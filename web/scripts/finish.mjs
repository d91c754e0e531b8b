// The last step of the build: the licences of what is shipped, a compressed copy of each file, and the limit of their size.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const PLACE = "../build/web";
const LIMIT = 500 * 1024;
const LICENCES = new Set(["MIT", "BSD-3-Clause", "ISC", "BSL-1.0", "0BSD"]);

function files(directory) {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    return entry.isDirectory() ? files(path) : [path];
  });
}

// Every package that package-lock.json calls neither a development package nor an optional one.
function shippedPackages() {
  const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
  return Object.entries(lock.packages)
    .filter(([path, entry]) => path && !entry.dev && !entry.optional && !entry.devOptional)
    .map(([path, entry]) => ({ path, name: path.replace(/^.*node_modules\//, ""), ...entry }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function notice({ path, name, version, license }) {
  if (!LICENCES.has(license)) {
    throw new Error(`${name} ${version} has the licence '${license}', which is none of: ${[...LICENCES].join(", ")}`);
  }
  const file = readdirSync(path).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} ${version} has no licence file in web/${path}`);
  return `${name} ${version} (${license})\n\n${readFileSync(join(path, file), "utf8").trim()}\n`;
}

writeFileSync(
  join(PLACE, "LICENSES.txt"),
  `The page of Sonde contains these packages.\n\n${shippedPackages().map(notice).join(`\n${"-".repeat(80)}\n\n`)}`,
);
// A report has the script and the style inside its HTML (src/face/server/html_file.cpp).
for (const path of files(PLACE).filter((name) => /\.(js|css)$/.test(name))) {
  if (/<\/(script|style)|<!--/i.test(readFileSync(path, "utf8"))) throw new Error(`${path} contains an end of its element in HTML`);
}
let total = 0;
for (const path of files(PLACE).sort()) {
  const packed = gzipSync(readFileSync(path), { level: 9 });
  writeFileSync(`${path}.gz`, packed);
  total += packed.length;
  console.log(`${path}  ${statSync(path).size} bytes, ${packed.length} compressed`);
}
if (total > LIMIT) throw new Error(`the page has ${total} bytes compressed; the limit is ${LIMIT}`);
