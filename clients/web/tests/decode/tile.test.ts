import { describe, expect, it } from "vitest";
import { type SampleType, type Vec3, ViewerError } from "../../src/model";
import { Decoder } from "../../src/decode/decoder";
import type { DecodeRequest } from "../../src/decode/messages";
import { DecodeSession } from "../../src/decode/session";
import { kTile } from "../../src/reading";
import { SAMPLE_BYTES } from "./dataset";
import { MODULES, tileWith } from "./modules";
import { random } from "./random";
import { kTiles } from "./tiles";

/** A tile of C++, its layout, and its samples. */
function golden(name: string): { layout: { type: SampleType; shape: Vec3 }; content: Uint8Array; samples: Uint8Array } {
  const { type, content, samples } = kTiles.find((one) => one.name === name)!;
  const bytes = (base64: string): Uint8Array => new Uint8Array(Buffer.from(base64, "base64"));
  return { layout: { type, shape: [9, 7, 1] }, content: bytes(content), samples: bytes(samples) };
}

function errorOf(run: () => unknown): ViewerError | null {
  try {
    run();
  } catch (error) {
    if (error instanceof ViewerError) return error;
    throw error;
  }
  return null;
}

describe.each(MODULES)("a tile of a coded answer, %s", (_, module) => {
  const names = kTiles.map(({ name }) => name);

  it.each(names)("%s: has the samples that C++ decodes", (name) => {
    const decoder = new Decoder(module);
    const { layout, content, samples } = golden(name);

    expect(new Uint8Array(decoder.tile(layout, tileWith(decoder, layout, content)))).toEqual(samples);
  });

  it("is refused where a bit of it is wrong, or it is short, or of another shape or type", () => {
    const decoder = new Decoder(module);
    const { layout, content, samples } = golden("smooth");
    const tile = tileWith(decoder, layout, content);
    for (let bit = 0; bit < 8 * tile.length; bit += 7) {
      const bad = tile.slice();
      bad[bit >> 3]! ^= 1 << (bit & 7);
      expect(errorOf(() => decoder.tile(layout, bad))?.code).toBe("data_loss");
    }
    for (let length = 0; length < tile.length; ++length) expect(errorOf(() => decoder.tile(layout, tile.slice(0, length)))?.code).toBe("data_loss");
    const [x, y, z] = layout.shape;
    expect(errorOf(() => decoder.tile({ ...layout, shape: [x, z, y + 1] }, tile))?.message).toContain("has the checksum");
    expect(errorOf(() => decoder.tile({ ...layout, type: "int16" }, tile))?.message).toContain("has the checksum");
    expect(errorOf(() => decoder.tile({ ...layout, shape: [2 ** 18 + 1, 1, 1] }, tile))?.code).toBe("internal");

    expect(decoder.broken).toBe(false);
    expect(new Uint8Array(decoder.tile(layout, tile))).toEqual(samples);
  });

  it.each(names)("%s: damaged with a right checksum gives an error or some samples, and leaves the module whole", (name) => {
    const next = random(Number(process.env.QUARRY_SEED ?? 1));
    const decoder = new Decoder(module);
    const { layout, content, samples } = golden(name);
    const size = layout.shape.reduce((a, b) => a * b, SAMPLE_BYTES[layout.type]);
    for (let round = 0; round < 400; ++round) {
      const bad = next() < 0.2 ? content.slice(0, Math.floor(next() * content.length)) : content.slice();
      for (let i = 0; i < 2 && bad.length > 0; ++i) bad[Math.floor(next() * bad.length)] = 256 * next();
      const tile = tileWith(decoder, layout, bad);
      const error = errorOf(() => { expect(decoder.tile(layout, tile).byteLength).toBe(size); });
      expect([undefined, "data_loss"]).toContain(error?.code);
    }
    expect(decoder.broken).toBe(false);
    expect(new Uint8Array(decoder.tile(layout, tileWith(decoder, layout, content)))).toEqual(samples);
  });

  it("is refused without a coder of fields for its type", () => {
    const decoder = new Decoder(module);
    const { layout } = golden("smooth");
    for (const content of [[], [0, 0, 1], [4, 0, 1], [99, 0, 1], [2, 255, 255, 255, 255, 15], [2, 3, 1, 1]])
      expect(errorOf(() => decoder.tile(layout, tileWith(decoder, layout, Uint8Array.from(content))))?.code).toBe("data_loss");
    // Wavelets know no integers.
    const whole = { ...layout, type: "int16" as const };
    expect(errorOf(() => decoder.tile(whole, tileWith(decoder, whole, Uint8Array.of(1, 0, 1))))?.message).toContain("impossible coder");
  });

  it("takes its turn in a session of patches, and an error is about it alone", () => {
    const decoder = new Decoder(module);
    const { layout, content, samples } = golden("smooth");
    const session = new DecodeSession(module);
    const request = (tile: Uint8Array): DecodeRequest => ({
      ...layout, kind: "decode", id: 7, answer: 1, patch: 0, coder: kTile, levels: 1, target: 0, keep: false,
      bytes: new Uint8Array(tile).buffer, sizes: [{ mask: 0, payload: tile.length }], checksums: [{ mask: 0n, payload: 0n }],
    });

    expect(errorOf(() => session.decode(request(content)))?.code).toBe("data_loss");
    const reply = session.decode(request(tileWith(decoder, layout, content)));
    expect([reply.id, reply.level, reply.damage]).toEqual([7, 0, null]);
    expect(new Uint8Array(reply.samples)).toEqual(samples);
  });
});
