import { defineConfig } from "vitest/config";

// Tests that need no browser and no server.
export default defineConfig({ test: { include: ["tests/**/*.test.ts"], exclude: ["tests/served/**", "tests/soak/**", "tests/browser/**"], testTimeout: 600_000 } });
