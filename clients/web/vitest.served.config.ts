import { defineConfig } from "vitest/config";

// The built page in a browser, over quarry-server: needs programs and page, see tests/served/harness.ts.
export default defineConfig({
  test: { include: ["tests/served/*.test.ts"], fileParallelism: false, testTimeout: 600_000, hookTimeout: 600_000 },
});
