// Builds the page into build/web: index.html, one script, one style sheet, one worker, with names that contain their hashes.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./", // the page also works below /user/x/proxy/8765/
  oxc: { jsx: { importSource: "preact" } },
  worker: { format: "iife" },
  build: {
    outDir: "../build/web",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0, // data: addresses of scripts are against the page's policy
    cssCodeSplit: false,
    reportCompressedSize: false,
  },
});
