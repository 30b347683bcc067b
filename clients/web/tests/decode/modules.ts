/** The compiled modules, and what tests do with them. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { SampleType } from "../../src/model";
import type { DecodeJob } from "../../src/reading";
import type { Decoder, LevelBytes, PatchLayout } from "../../src/decode/decoder";
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

/** The module with less memory to grow into. [pages of 64 KiB, from 128 to 8192] */
export function smallModule(pages: number): WebAssembly.Module {
  const bytes = readFileSync(join(ROOT, "clients/web/build/wasm/quarry_decoder.wasm"));
  // The memory section: id 5, 6 bytes, one memory that has a maximum, from 128 pages to 8192.
  const section = Buffer.from([5, 6, 1, 1, 0x80, 1, 0x80, 0x40]);
  const at = bytes.indexOf(section);
  if (at < 0 || bytes.indexOf(section, at + 1) >= 0) throw new Error("the memory section is not where it was");
  bytes[at + 6] = (pages & 0x7f) | 0x80;
  bytes[at + 7] = pages >> 7;
  return new WebAssembly.Module(bytes);
}

export function layoutOf(field: StoredField, patch: StoredPatch): PatchLayout {
  return { coder: field.coder, type: field.type, shape: patch.shape, levels: field.levels };
}

export interface DecodedLevel {
  readonly samples: Uint8Array;
  readonly validity: Uint8Array | null;
}

/** Bytes and validity of every level, the coarsest first. */
export function decodeLevels(decoder: Decoder, field: StoredField, patch: StoredPatch): DecodedLevel[] {
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

/** Numbers of types and coders in docs/format.md. */
const kTypes: readonly SampleType[] = ["float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"];
const kCoders = ["wavelet-zfp", "interpolate", "lossless", "validity", "interpolate-zeros", "interpolate-signs", "interpolate-relative"];

/** A tile by docs/protocol.md, with the checksum that its bytes should have. */
export function tileWith(decoder: Decoder, { type, shape }: Pick<PatchLayout, "type" | "shape">, content: Uint8Array): Uint8Array {
  const place = new DataView(new ArrayBuffer(25));
  place.setUint8(0, kTypes.indexOf(type) + 1);
  for (const [axis, n] of shape.entries()) place.setBigInt64(1 + 8 * axis, BigInt(n), true);
  const checksum = new DataView(new ArrayBuffer(8));
  checksum.setBigUint64(0, decoder.checksum(Buffer.concat([new Uint8Array(place.buffer), content])), true);
  return new Uint8Array(Buffer.concat([content, new Uint8Array(checksum.buffer)]));
}

/** The content of a tile that holds the same as a patch of one level. */
export function tileContent(coder: string, { mask, payload }: LevelBytes): Uint8Array {
  const size: number[] = [];
  let left = mask.length;
  for (; left > 127; left = Math.floor(left / 128)) size.push(left % 128 + 128);
  return Uint8Array.from([kCoders.indexOf(coder) + 1, ...size, left, ...mask, ...payload]);
}

let answers = 0;
export function nextAnswer(): number {
  return ++answers;
}

/** A job for the levels from `first` to `target`. */
export function jobOf(field: StoredField, patch: StoredPatch, first: number, target: number,
                      change: Partial<DecodeJob> = {}): DecodeJob {
  return {
    answer: 0, patch: patch.patch, coder: field.coder, type: field.type, shape: patch.shape, levels: field.levels, target,
    payloads: patch.levels.slice(target, first + 1).reverse(), keep: target > 0, priority: 0, ...change,
  };
}

let ids = 0;
/** The same as a message. */
export function requestOf(field: StoredField, patch: StoredPatch, first: number, target: number,
                          change: Partial<DecodeJob> = {}): DecodeRequest {
  const { payloads, answer, keep } = jobOf(field, patch, first, target, change);
  const bytes = Buffer.concat(payloads.flatMap(({ mask, payload }) => [mask, payload]));
  return {
    ...layoutOf(field, patch), kind: "decode", id: ++ids, answer, patch: patch.patch, target, keep,
    bytes: new Uint8Array(bytes).buffer,
    sizes: payloads.map(({ mask, payload }) => ({ mask: mask.length, payload: payload.length })),
    checksums: payloads.map(({ maskChecksum, checksum }) => ({ mask: maskChecksum, payload: checksum })),
  };
}
