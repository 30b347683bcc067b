import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Decoder } from "../../src/decode/decoder";
import { Grid, readField } from "./dataset";
import { decodeLevels, GOLDEN, MODULES } from "./modules";

/** Fields of float16, which are stored as float32. */
function halves(dataset: string): Set<string> {
  const manifest = JSON.parse(readFileSync(join(dataset, "dataset.json"), "utf8")) as {
    readonly fields: readonly { readonly name: string; readonly given_type?: string }[];
  };
  return new Set(manifest.fields.filter((field) => field.given_type === "GIVEN_TYPE_FLOAT16").map(({ name }) => name));
}

/** The bits of float32 samples, all of which float16 can have, as those of float16: "quarry get" gives them back so. */
function asHalves(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(Uint16Array.from(new Uint32Array(bytes.buffer), (bits) => {
    const sign = bits >>> 16 & 0x8000;
    const exponent = bits >>> 23 & 0xff;
    const mantissa = bits & 0x7fffff;
    if (exponent === 0) return sign;
    if (exponent === 0xff) return sign | 0x7c00 | mantissa >>> 13;
    const half = exponent - 112;
    return half > 0 ? sign | half << 10 | mantissa >>> 13 : sign | (mantissa | 0x800000) >>> 14 - half;
  }).buffer);
}

// digests.txt has what the native decoder of each release wrote.
describe.each(MODULES)("golden datasets, %s", (_, module) => {
  const decoder = new Decoder(module);
  // The page gets payloads from servers, which read packs.
  const unpacked = readdirSync(GOLDEN).filter((version) => version !== "v4-pack");
  it.each(unpacked)("%s: every field, level, and step that refers to no other has the samples of the release, in its first layer", (version) => {
    const all = readFileSync(join(GOLDEN, version, "digests.txt"), "utf8").trim().split("\n").map((line) => line.split(" "));
    // With a layer of accuracy before the digest; those without one are the last layer of such fields.
    const layered = new Set(all.filter((line) => line.length === 5).map(([name]) => name));
    const dataset = join(GOLDEN, version, "golden.quarry");
    const short = halves(dataset);
    const refers = (name: string, step: string): boolean => readField(dataset, Number(step), name).refers;
    const lines = all.filter(([name, step, , layer]) => (!layered.has(name) || layer === "0") && !refers(name!, step!));
    const digests = lines.map(([name, step, level, ...rest]) => {
      const field = readField(dataset, Number(step), name!);
      const grid = new Grid(field, Number(level));
      for (const patch of field.patches)
        grid.put(patch, decodeLevels(decoder, field, patch)[field.levels - 1 - Number(level)]!.samples);
      return [name, step, level, ...rest.slice(0, -1), createHash("sha256").update(short.has(name!) ? asHalves(grid.bytes) : grid.bytes)
        .digest("hex")];
    });
    // Datasets of few fields and levels.
    const least: Record<string, number> = { "v4-blocks": 6, "v4-objects": 10, "v4-runs": 6 };
    expect(lines.length).toBeGreaterThanOrEqual(least[version] ?? 12);
    expect(digests).toEqual(lines);
  });

  it("validity is 0 where the fill value is, and null where no sample of the patch is missing", () => {
    const field = readField(join(GOLDEN, "v2/golden.quarry"), 0, "counts");
    let missing = 0;
    for (const patch of field.patches) {
      for (const { samples, validity } of decodeLevels(decoder, field, patch)) {
        const valid = Uint8Array.from(new Int16Array(samples.buffer), (sample) => (sample === -32768 ? 0 : 1));
        missing += valid.filter((v) => v === 0).length;
        expect(validity ?? new Uint8Array(valid.length).fill(1)).toEqual(valid);
      }
    }
    expect(missing).toBeGreaterThan(100);
  });
});
