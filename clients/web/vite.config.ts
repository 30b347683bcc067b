import { defineConfig, type HtmlTagDescriptor, type Plugin } from "vite";

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

/**
 * All parts of the program are asked for at once, not one by another: their connections are open, and serve its calls too.
 */
const preloads: Plugin = {
  name: "preloads",
  apply: "build",
  transformIndexHtml: (_, { bundle = {} }) => Object.keys(bundle).flatMap((name): HtmlTagDescriptor[] => {
    const href = `./${name}`;
    if (/\/quarry_decoder-[^/]*\.wasm$/.test(name)) return [{ tag: "link", attrs: { rel: "preload", as: "fetch", crossorigin: true, href }, injectTo: "head" }];
    return /\/(worker|app)-[^/]*\.js$/.test(name) ? [{ tag: "link", attrs: { rel: "modulepreload", href }, injectTo: "head" }] : [];
  }),
};

// No inline script and no data: URLs, for the page's content security policy.
export default defineConfig({
  base: "./",  // a page may lie in any folder of a web server
  plugins: [withoutJson, preloads],
  build: { outDir: "build/page", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false },
           // Modules that both parts of the program need come with the first.
           rollupOptions: { output: { experimentalMinChunkSize: 64 << 10 } } },
  worker: { format: "es" },
});
