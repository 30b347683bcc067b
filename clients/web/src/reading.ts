/** How samples come: the questions, answers and samples that net, decode and store hand each other. */
import type { Box, FieldInfo, GridInfo, Samples, SampleType, Selection, Vec3 } from "./model";

// ---- Questions, and what servers answer

export type ReadEncoding = "patches" | "samples" | "coded";

export interface ReadQuery {
  readonly selection: Selection;
  readonly field: FieldInfo;
  readonly grid: GridInfo;
  /** Level-0 samples. */
  readonly box: Box;
  /** Coarsest level that comes, and the finest. */
  readonly first: number;
  readonly level: number;
  readonly focus: Vec3 | null;
  readonly encoding: ReadEncoding;
  /** The largest error that coding may add, in the unit of the field; 0: none. */
  readonly recode: number;
  /** Among the streams of the page; smaller is sooner. */
  readonly priority: number;
}

export interface HeaderLevel {
  readonly level: number;
  /** In samples of the level. */
  readonly box: Box;
  /** The largest error of storing and coding together. */
  readonly maxError: number;
  readonly coverage: number;
  /** Payload that the level adds to those before. */
  readonly bytes: number;
}

export interface ReadHeader {
  /** Coarsest first. */
  readonly levels: readonly HeaderLevel[];
}

/** One level of one patch, as PatchPayloads sends it. The bytes may be views of a message. */
export interface LevelPayload {
  /** Empty at the coarsest level: no sample of the patch is missing. */
  readonly mask: Uint8Array;
  readonly payload: Uint8Array;
  /** XXH3, 64 bit, of each. */
  readonly maskChecksum: bigint;
  readonly checksum: bigint;
}

/** The payload that a level adds to a patch. */
export interface PatchPayload {
  readonly patch: number;
  /** Coarse to fine. */
  readonly levels: readonly LevelPayload[];
  /** The levels from here on are not there, for damage. */
  readonly damaged: boolean;
}

export interface SampleBlock {
  /** In samples of the level. */
  readonly box: Box;
  /** Parts of it that show a coarser level or a rougher layer, for damaged payload. */
  readonly damaged: readonly Box[];
  /** Little-endian, x fastest, or coded. A view of the message. */
  readonly data: Uint8Array;
}

export type ReadEvent =
  | { readonly kind: "header"; readonly header: ReadHeader }
  | { readonly kind: "patches"; readonly level: number; readonly patches: readonly PatchPayload[] }
  | { readonly kind: "samples" | "coded"; readonly level: number; readonly blocks: readonly SampleBlock[] }
  /** All of a level has come. */
  | { readonly kind: "level"; readonly level: number }
  | { readonly kind: "end" };

/** Throws ViewerErrors. */
export type Reader = (query: ReadQuery, signal: AbortSignal) => AsyncIterable<ReadEvent>;

// ---- Payload to samples

/** The coder of a job whose only payload is a tile of a coded answer. */
export const kTile = "tile";

export interface DecodeJob {
  /** A number of the caller's choice. Levels of a patch continue only within an answer. */
  readonly answer: number;
  readonly patch: number;
  /** Name of the coder, as in the manifest, or kTile. */
  readonly coder: string;
  readonly type: SampleType;
  /** The shape of the patch at level 0; patches at the far ends of the grid are smaller than others. */
  readonly shape: Vec3;
  /** Levels of the grid. */
  readonly levels: number;
  /** The level of the last payload. */
  readonly target: number;
  /**
   * Coarse to fine, without a gap: from level target + payloads.length - 1, which is the coarsest (levels - 1) for a new
   * patch, or follows the target of the job before. Copied at once.
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
  /** The damage, where level is not the target. Finer levels of this patch are then refused. */
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
  /** Forgets the decoder state that is kept for the finer levels of an answer. */
  endAnswer(answer: number): void;
  /** Ends the workers. Jobs that wait are rejected. */
  close(): void;
}

// ---- Answers without a server

/** Answers the calls of the service in a server's place. */
export interface Answerer {
  /**
   * @param call     "Read"
   * @param request  the bytes of its message
   * @returns the bytes of the messages of the answer; throws ViewerErrors
   */
  answer(call: string, request: Uint8Array, signal: AbortSignal | undefined): AsyncIterable<Uint8Array>;
}
