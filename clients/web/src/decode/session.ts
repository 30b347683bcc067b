/** Session of a worker: decodes patches one after the other, and keeps those whose finer levels will come. */

import { ViewerError } from "../model";
import { kTile } from "../reading";
import { Decoder, type LevelBytes, type Reader } from "./decoder";
import type { DecodeReply, DecodeRequest } from "./messages";

export interface SessionLimits {
  readonly readers: number;
  /** [bytes] that kept readers may hold. */
  readonly readerBytes: number;
  /** [bytes] of payload that is kept, from which a reader can be made again. */
  readonly payloadBytes: number;
  /** [bytes] of a module above which a fresh one takes its place. */
  readonly moduleBytes: number;
}

const MIB = 2 ** 20;
export const DEFAULT_LIMITS: SessionLimits = {
  readers: 512, readerBytes: 96 * MIB, payloadBytes: 64 * MIB, moduleBytes: 192 * MIB,
};

/** A patch whose finer levels may come. */
interface Kept {
  readonly answer: number;
  readonly request: DecodeRequest;
  /** Null after it was closed for memory, or its module broke: made again from the payload. */
  reader: Reader | null;
  readerBytes: number;
  /** All levels so far, coarse to fine; all of them are good. */
  readonly levels: LevelBytes[];
  payloadBytes: number;
  /** Set once a level is bad: finer ones cannot be decoded. */
  damage: ViewerError | null;
}

export class DecodeSession {
  private decoder: Decoder;
  /** By answer and patch; the least recently used first. */
  private readonly kept = new Map<string, Kept>();

  constructor(private readonly module: WebAssembly.Module, private readonly limits: SessionLimits = DEFAULT_LIMITS) {
    this.decoder = new Decoder(module);
  }

  /** @throws ViewerError about this patch alone */
  decode(request: DecodeRequest): DecodeReply {
    if (request.coder === kTile) return this.tile(request);
    const key = `${request.answer}/${request.patch}`;
    const patch = this.take(key, request);
    try {
      const { level, damage } = this.advanceAll(patch, request);
      const { samples, validity } = this.result(patch);
      return { kind: "decoded", id: request.id, level, samples, validity, damage };
    } catch (error) {
      patch.damage ??= error instanceof ViewerError ? error : new ViewerError("internal", String(error));
      throw patch.damage;
    } finally {
      this.putBack(key, patch, request.keep);
    }
  }

  private tile(request: DecodeRequest): DecodeReply {
    try {
      const samples = this.decoder.tile(request, new Uint8Array(request.bytes));
      return { kind: "decoded", id: request.id, level: 0, samples, validity: null, damage: null };
    } finally {
      if (this.decoder.broken) this.renew();
      this.enforceLimits();
    }
  }

  endAnswer(answer: number): void {
    for (const [key, patch] of this.kept) {
      if (patch.answer === answer) this.drop(key, patch);
    }
  }

  /** The state that the limits bound. */
  get state(): SessionLimits & { readonly patches: number } {
    const all = [...this.kept.values()];
    return {
      patches: all.length, readers: all.filter((patch) => patch.reader !== null).length,
      readerBytes: all.reduce((sum, patch) => sum + patch.readerBytes, 0),
      payloadBytes: all.reduce((sum, patch) => sum + patch.payloadBytes, 0), moduleBytes: this.decoder.memory,
    };
  }

  /** The patch that the request continues, or a new one. It is not among the kept ones while it is decoded. */
  private take(key: string, request: DecodeRequest): Kept {
    const known = this.kept.get(key);
    const from = request.target + request.sizes.length;
    if (from === request.levels) {
      if (known !== undefined) this.drop(key, known);
      return { answer: request.answer, request, reader: null, readerBytes: 0, levels: [], payloadBytes: 0, damage: null };
    }
    if (known !== undefined && known.damage !== null) throw known.damage;
    if (known === undefined || request.levels - known.levels.length !== from) {
      const levels = `levels ${request.levels - 1} to ${from} of patch ${request.patch}`;
      throw new ViewerError("failed_precondition", `${levels} are no longer there; ask for the patch from its coarsest level on`);
    }
    this.kept.delete(key);
    return known;
  }

  /** As far as the levels are good. @throws ViewerError where the first of them is not */
  private advanceAll(patch: Kept, request: DecodeRequest): { level: number; damage: string | null } {
    const begin = patch.levels.length;
    for (const [i, level] of levelsOf(request).entries()) {
      try {
        this.advance(patch, level, request.checksums[i]!);
      } catch (error) {
        if (!(error instanceof ViewerError)) throw error;
        patch.damage = error.code === "data_loss" ? named(error, request, i) : error;
        if (error.code !== "data_loss" || patch.levels.length === begin) throw patch.damage;
        return { level: request.levels - patch.levels.length, damage: patch.damage.message };
      }
    }
    return { level: request.target, damage: null };
  }

  private verify(level: LevelBytes, stored: DecodeRequest["checksums"][number]): void {
    for (const part of ["mask", "payload"] as const) {
      const computed = this.decoder.checksum(level[part]);
      if (computed === stored[part]) continue;
      const what = part === "mask" ? "mask" : "samples";
      throw new ViewerError("data_loss",
        `checksum of the ${what}: ${hexadecimal(stored[part])} stored, ${hexadecimal(computed)} computed`);
    }
  }

  /** One level; once more in a fresh module if memory ends, for other patches may hold it. */
  private advance(patch: Kept, level: LevelBytes, checksums: DecodeRequest["checksums"][number]): void {
    for (let attempt = 0; ; ++attempt) {
      try {
        this.verify(level, checksums);
        this.decoder.advance(this.reader(patch), level);
        break;
      } catch (error) {
        this.closeReader(patch);
        const full = error instanceof ViewerError && error.code === "resource_exhausted";
        if (full || this.decoder.broken) this.renew();
        if (!full || attempt > 0) throw error;
      }
    }
    patch.levels.push(level);
  }

  /** The patch's reader at its last level. */
  private reader(patch: Kept): Reader {
    if (patch.reader !== null) return patch.reader;
    patch.reader = this.decoder.open(patch.request);
    for (const level of patch.levels) this.decoder.advance(patch.reader, level);
    return patch.reader;
  }

  private result(patch: Kept): { samples: ArrayBuffer; validity: ArrayBuffer | null } {
    const { shape, levels } = patch.request;
    const count = shape.reduce((product, n) => product * Math.ceil(n / 2 ** (levels - patch.levels.length)), 1);
    const reader = this.reader(patch);
    return { samples: this.decoder.samples(reader), validity: this.decoder.validity(reader, count) };
  }

  private putBack(key: string, patch: Kept, keep: boolean): void {
    if (!keep || patch.damage !== null || this.decoder.broken) this.closeReader(patch);
    if (this.decoder.broken) this.renew();
    if (keep) {
      if (patch.damage !== null) patch.levels.length = 0;
      patch.readerBytes = patch.reader === null ? 0 : this.decoder.readerMemory(patch.reader);
      patch.payloadBytes = patch.levels.reduce((sum, level) => sum + level.mask.length + level.payload.length, 0);
      this.kept.set(key, patch);
    }
    this.enforceLimits();
  }

  private enforceLimits(): void {
    let { readers, readerBytes, payloadBytes } = this.state;
    for (const [key, patch] of this.kept) {
      if (readers > this.limits.readers || readerBytes > this.limits.readerBytes) {
        readers -= patch.reader === null ? 0 : 1;
        readerBytes -= patch.readerBytes;
        this.closeReader(patch);
      }
      if (payloadBytes > this.limits.payloadBytes) {
        payloadBytes -= patch.payloadBytes;
        this.drop(key, patch);
      }
    }
    if (this.decoder.memory > this.limits.moduleBytes) this.renew();
  }

  private closeReader(patch: Kept): void {
    if (patch.reader !== null && !this.decoder.broken) this.decoder.close(patch.reader);
    patch.reader = null;
    patch.readerBytes = 0;
  }

  private drop(key: string, patch: Kept): void {
    this.closeReader(patch);
    this.kept.delete(key);
  }

  /** Another module. Kept patches are decoded again from their payload when their next level comes. */
  private renew(): void {
    for (const patch of this.kept.values()) {
      patch.reader = null;
      patch.readerBytes = 0;
    }
    this.decoder = new Decoder(this.module);
  }
}

function levelsOf(request: DecodeRequest): LevelBytes[] {
  let at = 0;
  const next = (size: number): Uint8Array => {
    const bytes = new Uint8Array(request.bytes, at, size);
    at += size;
    return bytes;
  };
  return request.sizes.map(({ mask, payload }) => ({ mask: next(mask), payload: next(payload) }));
}

function named(error: ViewerError, request: DecodeRequest, i: number): ViewerError {
  const level = request.target + request.sizes.length - 1 - i;
  return new ViewerError(error.code, `level ${level} of patch ${request.patch} is damaged: ${error.message}`);
}

function hexadecimal(checksum: bigint): string {
  return checksum.toString(16).padStart(16, "0");
}
