import { defineConfig } from "vite";

// The page of the browser tests: the same sources with computed fields. Its output is never installed.
export default defineConfig({
  root: `${import.meta.dirname}/page`,
  build: {
    outDir: "../../../build/test-page",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
