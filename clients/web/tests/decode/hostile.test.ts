import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type SampleType, type Vec3, ViewerError } from "../../src/model";
import { Decoder, type LevelBytes } from "../../src/decode/decoder";
import { DecodeSession } from "../../src/decode/session";
import { readField, SAMPLE_BYTES, type StoredField, type StoredPatch } from "./dataset";
import { decodeLevels, GOLDEN, layoutOf, MODULES, requestOf, ROOT } from "./modules";
import { random } from "./random";

const DATASET = join(GOLDEN, "v2/golden.quarry");
const FIELDS = ["smooth", "precise", "holes", "near", "far", "rounded", "exact", "edges", "counts", "labels", "wide"];
const EMPTY = new Uint8Array(0);

/** A bit flipped, a part cut off, a byte replaced, or bytes added. */
function damaged(bytes: Uint8Array, next: () => number): Uint8Array {
  const at = Math.floor(next() * bytes.length);
  const kind = Math.floor(4 * next());
  if (bytes.length === 0 || kind === 0) return Uint8Array.from([...bytes, ...Array.from({ length: 9 }, () => 256 * next())]);
  if (kind === 1) return bytes.slice(0, at);
  const copy = bytes.slice();
  copy[at] = kind === 2 ? copy[at]! ^ (1 << Math.floor(8 * next())) : 256 * next();
  return copy;
}

/** Decodes all levels. Any end is fine but a broken module, or samples of another size. */
function decodeAnything(decoder: Decoder, layout: { coder: string; type: SampleType; shape: Vec3; levels: number }, levels: readonly LevelBytes[]): string {
  const reader = decoder.open(layout);
  let outcome = "decoded";
  try {
    for (const [i, level] of levels.entries()) {
      decoder.advance(reader, level);
      const count = layout.shape.reduce((product, n) => product * Math.ceil(n / 2 ** (layout.levels - 1 - i)), 1);
      expect(decoder.samples(reader).byteLength).toBe(count * SAMPLE_BYTES[layout.type]);
      expect(new Uint8Array(decoder.validity(reader, count) ?? new ArrayBuffer(0)).every((valid) => valid <= 1)).toBe(true);
    }
  } catch (error) {
    if (!(error instanceof ViewerError)) throw error;
    outcome = error.code;
  }
  decoder.close(reader);
  return outcome;
}

describe.each(MODULES)("hostile payload, %s", (_, module) => {
  it.each(FIELDS)("%s: damaged bytes give an error or some samples, and good patches decode right afterwards", (name) => {
    const next = random(Number(process.env.QUARRY_SEED ?? 1) + FIELDS.indexOf(name));
    const decoder = new Decoder(module);
    const field = readField(DATASET, 1, name);
    const good = field.patches.map((patch) => decodeLevels(new Decoder(module), field, patch));
    const outcomes = new Map<string, number>();
    for (let round = 0; round < 300; ++round) {
      const at = Math.floor(next() * field.patches.length);
      const patch = field.patches[at]!;
      const hit = Math.floor(next() * field.levels);
      const levels = patch.levels.map(({ payload, mask }, level): LevelBytes => level !== hit ? { payload, mask }
        : next() < 0.3 ? { payload, mask: damaged(mask, next) } : { payload: damaged(payload, next), mask }).reverse();
      const outcome = decodeAnything(decoder, layoutOf(field, patch), levels);
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      if (round % 10 === 0) expect(decodeLevels(decoder, field, patch)).toEqual(good[at]);
    }
    expect(decoder.broken).toBe(false);
    expect([...outcomes.keys()].filter((outcome) => outcome !== "decoded" && outcome !== "data_loss")).toEqual([]);
    expect(outcomes.get("data_loss")).toBeGreaterThan(20);
  });

  it.each(["interpolate", "lossless", "wavelet-zfp"])("%s: what fuzzing found leaves the module whole", (coder) => {
    const decoder = new Decoder(module);
    const folder = join(ROOT, "tests/fuzz/corpus", coder.replace("-", "_"));
    const types = (["float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32"] as const).slice(0, coder === "wavelet-zfp" ? 2 : 8);
    const files = readdirSync(folder);
    for (const file of files) {
      const { layout, levels } = corpusInput(coder, types, readFileSync(join(folder, file)));
      decodeAnything(decoder, layout, levels);
    }
    expect(files.length).toBeGreaterThan(3);
    expect(decoder.broken).toBe(false);
  });
});

/** The form of the corpus: tests/fuzz/payload_input.cc. */
function corpusInput(coder: string, types: readonly SampleType[], bytes: Uint8Array): { layout: { coder: string; type: SampleType; shape: Vec3; levels: number }; levels: LevelBytes[] } {
  let at = 0;
  const byte = (): number => bytes[at++] ?? 0;
  const first = byte();
  const shape: [number, number, number] = [byte() % 64 + 1, byte() % 64 + 1, byte() % 64 + 1];
  while (shape[0] * shape[1] * shape[2] > 4096) {
    const largest = shape.indexOf(Math.max(...shape));
    shape[largest] = Math.floor(shape[largest]! / 2);
  }
  const levels = byte() % 8 + 1;
  const size = (): number => byte() + 256 * byte();
  const sizes = Array.from({ length: levels }, () => ({ payload: size(), mask: (first & 8) !== 0 ? size() : 0 }));
  const part = (length: number): Uint8Array => bytes.slice(at, at += length);
  return {
    layout: { coder, type: types[(first & 7) % types.length]!, shape, levels },
    levels: sizes.map(({ payload, mask }) => {
      const maskBytes = part(mask);
      return { mask: maskBytes, payload: part(payload) };
    }),
  };
}

/** A patch that claims to be constant: few bytes, and 512 MiB of samples. */
function hugePatch(): { field: StoredField; patch: StoredPatch } {
  const shape: Vec3 = [512, 512, 256];
  const payload = Uint8Array.from([0, 0, 0, 0, 0, 0, 0, 0, 0]);
  const checksum = new Decoder(MODULES[0][1]).checksum(payload);
  return {
    field: { coder: "lossless", type: "float64", dims: shape, levels: 1, patches: [] },
    patch: { patch: 77, begin: [0, 0, 0], shape, levels: [{ payload, checksum, mask: EMPTY, maskChecksum: 0x2d06800538d394c2n }] },
  };
}

describe("a module that breaks", () => {
  it("says so, once and for all its patches", () => {
    const decoder = new Decoder(MODULES[0][1]);
    const { field, patch } = hugePatch();
    const other = decoder.open({ coder: "lossless", type: "uint8", shape: [4, 4, 4], levels: 1 });

    expect(() => decodeLevels(decoder, field, patch)).toThrow("does not fit into the memory of the decoder");

    expect(decoder.broken).toBe(true);
    expect(() => { decoder.close(other); }).toThrow("has stopped");
  });

  it("is replaced by its session: one patch fails, the others go on", () => {
    const session = new DecodeSession(MODULES[0][1]);
    const field = readField(DATASET, 0, "near");
    const patch = field.patches[0]!;
    const expected = decodeLevels(new Decoder(MODULES[0][1]), field, patch);
    const huge = hugePatch();
    session.decode(requestOf(field, patch, 2, 1));

    expect(() => session.decode(requestOf(huge.field, huge.patch, 0, 0))).toThrow("does not fit into the memory");

    const reply = session.decode(requestOf(field, patch, 0, 0));
    expect(new Uint8Array(reply.samples)).toEqual(expected[2]!.samples);
  });
});
