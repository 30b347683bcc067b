/** The compiled modules, and what tests do with them. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { DecodeJob } from "../../src/decode/index";
import { Decoder, type PatchLayout } from "../../src/decode/decoder";
import { type DecodeRequest } from "../../src/decode/messages";
import type { StoredField, StoredPatch } from "./dataset";

export const ROOT = join(import.meta.dirname, "../../../..");
export const GOLDEN = join(ROOT, "tests/format/golden");

export function moduleOf(name: "quarry_decoder" | "quarry_decoder_scalar"): WebAssembly.Module {
  const path = join(ROOT, "clients/web/build/wasm", `${name}.wasm`);
  if (!existsSync(path)) throw new Error(`${path} is not there; run scripts/wasm.sh`);
  return new WebAssembly.Module(readFileSync(path));
}

export const MODULES = [
  ["SIMD", moduleOf("quarry_decoder")],
  ["scalar", moduleOf("quarry_decoder_scalar")],
] as const;

export function layoutOf(field: StoredField, patch: StoredPatch): PatchLayout {
  return { coder: field.coder, type: field.type, shape: patch.shape, levels: field.levels };
}

/** Bytes and validity of every level, the coarsest first. */
export function decodeLevels(decoder: Decoder, field: StoredField, patch: StoredPatch): { samples: Uint8Array; validity: Uint8Array | null }[] {
  const reader = decoder.open(layoutOf(field, patch));
  const decoded = [...patch.levels.entries()].reverse().map(([level, payload]) => {
    decoder.advance(reader, payload);
    const count = patch.shape.reduce((product, n) => product * Math.ceil(n / 2 ** level), 1);
    const validity = decoder.validity(reader, count);
    return { samples: new Uint8Array(decoder.samples(reader)), validity: validity === null ? null : new Uint8Array(validity) };
  });
  decoder.close(reader);
  return decoded;
}

let answers = 0;
export function nextAnswer(): number {
  return ++answers;
}

/** A job for the levels from `first` to `target`. */
export function jobOf(field: StoredField, patch: StoredPatch, first: number, target: number, change: Partial<DecodeJob> = {}): DecodeJob {
  return {
    answer: 0, patch: patch.patch, coder: field.coder, type: field.type, shape: patch.shape, levels: field.levels, target,
    payloads: patch.levels.slice(target, first + 1).reverse(), keep: target > 0, priority: 0, ...change,
  };
}

let ids = 0;
/** The same as a message. */
export function requestOf(field: StoredField, patch: StoredPatch, first: number, target: number, change: Partial<DecodeJob> = {}): DecodeRequest {
  const { payloads, answer, keep } = jobOf(field, patch, first, target, change);
  const bytes = Buffer.concat(payloads.flatMap(({ mask, payload }) => [mask, payload]));
  return {
    ...layoutOf(field, patch), answer, patch: patch.patch, target, keep, kind: "decode", id: ++ids, bytes: new Uint8Array(bytes).buffer,
    sizes: payloads.map(({ mask, payload }) => ({ mask: mask.length, payload: payload.length })),
    checksums: payloads.map(({ maskChecksum, checksum }) => ({ mask: maskChecksum, payload: checksum })),
  };
}
