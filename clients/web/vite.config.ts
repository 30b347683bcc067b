import { defineConfig } from "vite";

// No inline script and no data: URLs, for the page's content security policy.
export default defineConfig({
  build: { outDir: "build/page", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  worker: { format: "es" },
});
