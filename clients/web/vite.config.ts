import { defineConfig, type Plugin } from "vite";

/** Connect can speak JSON as well, a twentieth of the page. The page speaks binary messages alone: src/net/transport.ts. */
const withoutJson: Plugin = {
  name: "without-json",
  apply: "build",
  load(id) {
    const way = /@bufbuild\/protobuf\/dist\/esm\/(from|to)-json\.js$/.exec(id)?.[1];
    if (way === undefined) return null;
    return `function no() { throw new Error("this page speaks no JSON"); } export { no as ${way}Json, no as ${way}JsonString };`;
  },
};

// No inline script and no data: URLs, for the page's content security policy.
export default defineConfig({
  plugins: [withoutJson],
  build: { outDir: "build/page", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  worker: { format: "es" },
});
