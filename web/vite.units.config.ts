// Builds tests/units into build-units for `node --test`.
import { readdirSync } from "node:fs";
import { defineConfig } from "vite";

const units = readdirSync("tests/units").filter((name) => name.endsWith(".test.ts"));

export default defineConfig({
  oxc: { jsx: { importSource: "preact" } },
  build: {
    ssr: true,
    outDir: "build-units",
    emptyOutDir: true,
    target: "node20",
    minify: false,
    rolldownOptions: {
      input: Object.fromEntries(units.map((name) => [name.replace(/\.ts$/, ""), `tests/units/${name}`])),
    },
  },
  ssr: { noExternal: true },
});
