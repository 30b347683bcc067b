import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type SampleType, type Vec3, ViewerError } from "../../src/model";
import { Decoder, type LevelBytes, type PatchLayout } from "../../src/decode/decoder";
import { DecodeSession, DEFAULT_LIMITS } from "../../src/decode/session";
import { EMPTY_CHECKSUM, readField, SAMPLE_BYTES, type StoredField, type StoredPatch } from "./dataset";
import { decodeLevels, GOLDEN, layoutOf, MODULES, requestOf, ROOT, smallModule } from "./modules";
import { random } from "./random";

const DATASET = join(GOLDEN, "v2/golden.quarry");
const FIELDS = ["smooth", "precise", "holes", "near", "far", "rounded", "exact", "edges", "counts", "labels", "wide"];
const TYPES: readonly SampleType[] = ["float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32"];
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
function decodeAnything(decoder: Decoder, layout: PatchLayout, levels: readonly LevelBytes[]): string {
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
    const types = coder === "wavelet-zfp" ? TYPES.slice(0, 2) : TYPES;
    const files = readdirSync(folder);
    for (const file of files) {
      const { layout, levels } = corpusInput(coder, types, readFileSync(join(folder, file)));
      decodeAnything(decoder, layout, levels);
    }
    expect(files.length).toBeGreaterThan(3);
    expect(decoder.broken).toBe(false);
  });
});

describe.each(MODULES)("sizes beyond 32 bits, %s", (_, module) => {
  // One plane of four bytes, in a zstd frame of nine: 12 says so, and 2^32 + 12 must not.
  it.each([[[0x0c], "decoded"], [[0x8c, 0x80, 0x80, 0x80, 0x10], "data_loss"]])("the varint %j: %s", (size, outcome) => {
    const frame = [0, 0, 0x21, 0, 0, 1, 2, 3, 4];
    const payload = Uint8Array.from([1, 0, ...size, ...frame]);
    const layout = { coder: "lossless", type: "uint8", shape: [4, 1, 1], levels: 1 } as const;

    expect(decodeAnything(new Decoder(module), layout, [{ payload, mask: EMPTY }])).toBe(outcome);
  });
});

/** The form of the corpus: tests/fuzz/payload_input.cc. */
function corpusInput(coder: string, types: readonly SampleType[],
                     bytes: Uint8Array): { layout: PatchLayout; levels: LevelBytes[] } {
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

/** A patch that is constant: few bytes, and many samples of 8 bytes. */
function hugePatch(shape: Vec3, patch = 77): { field: StoredField; patch: StoredPatch } {
  const payload = Uint8Array.from([0, 0, 0, 0, 0, 0, 0, 0, 0]);
  const checksum = new Decoder(MODULES[0][1]).checksum(payload);
  return {
    field: { coder: "lossless", type: "float64", dims: shape, levels: 1, refers: false, patches: [] },
    patch: { patch, begin: [0, 0, 0], shape, levels: [{ payload, checksum, mask: EMPTY, maskChecksum: EMPTY_CHECKSUM }] },
  };
}

describe("a module whose memory ends", () => {
  const module = smallModule(512);  // 32 MiB
  const tooLarge = hugePatch([256, 256, 64]);

  it("says so, once and for all its patches", () => {
    const decoder = new Decoder(module);
    const other = decoder.open({ coder: "lossless", type: "uint8", shape: [4, 4, 4], levels: 1 });

    expect(() => decodeLevels(decoder, tooLarge.field, tooLarge.patch)).toThrow("does not fit into the memory of the decoder");

    expect(decoder.broken).toBe(true);
    expect(() => { decoder.close(other); }).toThrow("has stopped");
  });

  it("bounds the largest patch of the page, too", () => {
    const { field, patch } = hugePatch([512, 512, 256]);

    expect(() => decodeLevels(new Decoder(MODULES[0][1]), field, patch)).toThrow("does not fit into the memory of the decoder");
  });

  it("is replaced by its session: one patch fails, the others go on", () => {
    const session = new DecodeSession(module);
    const field = readField(DATASET, 0, "near");
    const patch = field.patches[0]!;
    const expected = decodeLevels(new Decoder(module), field, patch);
    session.decode(requestOf(field, patch, 2, 1));

    expect(() => session.decode(requestOf(tooLarge.field, tooLarge.patch, 0, 0))).toThrow("does not fit into the memory");

    const reply = session.decode(requestOf(field, patch, 0, 0));
    expect(new Uint8Array(reply.samples)).toEqual(expected[2]!.samples);
  });

  it("is replaced where kept patches hold it", () => {
    const session = new DecodeSession(module);
    for (const number of [1, 2, 3]) {
      const { field, patch } = hugePatch([128, 128, 90], number);
      expect(session.decode(requestOf(field, patch, 0, 0, { keep: true })).level).toBe(0);
    }
    expect(session.state).toMatchObject({ patches: 3, readers: 1 });
  });

  it("is replaced by its session once it has grown", () => {
    const session = new DecodeSession(module, { ...DEFAULT_LIMITS, moduleBytes: 10 * 2 ** 20 });
    const { field, patch } = hugePatch([128, 128, 90]);

    session.decode(requestOf(field, patch, 0, 0));

    expect(session.state.moduleBytes).toBeLessThan(10 * 2 ** 20);
  });

  it("keeps no bytes that went in or out", () => {
    const decoder = new Decoder(module);
    const field = readField(DATASET, 0, "exact");
    const before = decoder.memory;

    for (let i = 0; i < 1000; ++i) decoder.checksum(new Uint8Array(2 ** 16));
    for (let i = 0; i < 100; ++i) decodeLevels(decoder, field, field.patches[0]!);

    expect(decoder.memory).toBe(before);
  });
});
