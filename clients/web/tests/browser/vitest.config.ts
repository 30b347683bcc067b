import { defineConfig } from "vitest/config";

// Tests in a browser: npx vitest run -c tests/browser/vitest.config.ts. CHROMIUM names another browser than Debian's.
export default defineConfig({
  root: import.meta.dirname,
  cacheDir: "../../node_modules/.vite-browser",
  test: {
    include: ["*.browser.ts"],
    globalSetup: ["./setup.ts"],
    testTimeout: 600000,
    hookTimeout: 600000,
    fileParallelism: false,
  },
});
