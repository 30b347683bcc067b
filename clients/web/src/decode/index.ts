/**
 * Payload of patches to samples, by the coder library that Quarry itself uses, compiled to WebAssembly and run in workers.
 *
 *     const decoder = createPatchDecoder();
 *     const { level, samples } = await decoder.decode({ answer, patch, coder, type, shape, ... }, signal);
 *     decoder.endAnswer(answer);
 */

import type { Samples, SampleType, Vec3 } from "../model";
import { hasSimd } from "./decoder";
import { DecoderPool } from "./pool";

/** One level of one patch, as PatchPayloads sends it. The bytes may be views of a message: they are copied at once. */
export interface LevelPayload {
  /** Empty at the coarsest level: no sample of the patch is missing. */
  readonly mask: Uint8Array;
  readonly payload: Uint8Array;
  /** XXH3, 64 bit, of each. */
  readonly maskChecksum: bigint;
  readonly checksum: bigint;
}

export interface DecodeJob {
  /** A number of the caller's choice. Levels of a patch continue only within an answer. */
  readonly answer: number;
  readonly patch: number;
  /** Name of the coder, as in the manifest. */
  readonly coder: string;
  readonly type: SampleType;
  /** Of the patch at level 0; patches at the far ends of the grid are smaller than others. */
  readonly shape: Vec3;
  /** Of the dataset. */
  readonly levels: number;
  /** The level of the last payload. */
  readonly target: number;
  /**
   * Coarse to fine, without a gap: from level target + payloads.length - 1, which is the coarsest (levels - 1) for a new
   * patch, or follows the target of the job before.
   */
  readonly payloads: readonly LevelPayload[];
  /** Whether finer levels of this patch will come in this answer. */
  readonly keep: boolean;
  /** Smaller is sooner. Jobs of one patch of one answer run in the order of their calls, whatever their priorities. */
  readonly priority: number;
}

export interface DecodedPatch {
  /** The target; coarser where a payload is damaged: the finest level of this job that is whole. */
  readonly level: number;
  /** Dense, x fastest, ceil(n / 2^level) samples along each axis. A buffer of its own. */
  readonly samples: Samples;
  /** 1 or 0 for each sample; null where no sample of the patch is missing. */
  readonly validity: Uint8Array | null;
  /** What is damaged, where level is not the target. Finer levels of this patch are then refused. */
  readonly damage: string | null;
}

/**
 * Errors are ViewerErrors about this patch alone, others go on:
 *     data_loss            a payload does not fit its checksum, or cannot be decoded, and no level of this job is whole
 *     failed_precondition  the levels before are not there: never sent, aborted, or dropped for memory. Ask again from
 *                          the coarsest level on
 *     resource_exhausted   the patch does not fit into a worker's memory
 *     invalid_argument     the job itself is wrong: shape, levels, number of payloads
 *     unimplemented        a coder or type that this page does not know (see canDecode): ask for samples instead
 *     unavailable          the decoder cannot be loaded, or is closed
 *     cancelled            endAnswer was called while the job waited
 *     internal             a worker or its module broke; another takes its place
 */
export interface PatchDecoder {
  /** Rejects with signal.reason when the signal aborts; the work that has not begun is not done. */
  decode(job: DecodeJob, signal?: AbortSignal): Promise<DecodedPatch>;
  /** Forgets what is kept for the finer levels of an answer. */
  endAnswer(answer: number): void;
  /** Ends the workers. Jobs that wait are rejected. */
  close(): void;
}

export { canDecode } from "./decoder";

/** Workers, one less than the machine has processors, from 1 to 4. */
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
