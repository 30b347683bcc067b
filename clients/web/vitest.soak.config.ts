import { defineConfig } from "vitest/config";

// Minutes of use, over quarry-server: see tests/soak.
export default defineConfig({ test: { include: ["tests/soak/*.test.ts"] } });
