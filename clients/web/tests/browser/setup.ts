import { build } from "vite";

/** The page of computed fields, once for all tests. */
export default async function setup(): Promise<void> {
  await build({ configFile: `${import.meta.dirname}/vite.config.ts`, logLevel: "warn" });
}
