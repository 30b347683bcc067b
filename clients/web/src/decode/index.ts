/**
 * Payload of patches to samples, by the coder library that Quarry itself uses, compiled to WebAssembly and run in workers.
 *
 *     const decoder = createPatchDecoder();
 *     const { level, samples } = await decoder.decode({ answer, patch, coder, type, shape, ... }, signal);
 *     decoder.endAnswer(answer);
 */

import type { PatchDecoder } from "../reading";
import { hasSimd } from "./decoder";
import { DecoderPool } from "./pool";

export { canDecode } from "./decoder";

/** One worker less than the machine has processors, if it is not said how many. */
export function createPatchDecoder(workers = Math.max(1, Math.min(4, (navigator.hardwareConcurrency || 2) - 1))): PatchDecoder {
  return new DecoderPool({
    workers, load: loadModule, spawn: () => new Worker(new URL("./worker.ts", import.meta.url), { type: "module" }),
  });
}

async function loadModule(): Promise<WebAssembly.Module> {
  // scripts/wasm.sh makes both.
  const url = hasSimd()
    ? new URL("../../build/wasm/quarry_decoder.wasm", import.meta.url)
    : new URL("../../build/wasm/quarry_decoder_scalar.wasm", import.meta.url);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname} has status ${response.status}`);
  return await WebAssembly.compileStreaming(response);
}
