import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import type { Samples, SampleType, Vec3 } from "../../src/model";
import { Decoder, samplesOf } from "../../src/decode/decoder";
import { isWide } from "../../src/wide_integers";
import { Grid, readField, SAMPLE_BYTES } from "./dataset";
import { decodeLevels, layoutOf, MODULES, ROOT, tileContent, tileWith } from "./modules";
import { random } from "./random";

// quarry-write-single writes random fields, and "quarry get" says what the native decoder makes of them.
// They run beside this thread: vitest gives up a file whose thread does not answer for a minute.
const run = promisify(execFile);
const BIN = process.env.QUARRY_BIN ?? join(ROOT, "build/release/bin");
const BUILT = existsSync(join(BIN, "quarry")) && existsSync(join(BIN, "quarry-write-single"));
const FOLDER = mkdtempSync(join(tmpdir(), "quarry-decode-"));

interface Case {
  readonly coder: string;
  readonly type: SampleType;
  readonly dims: Vec3;
  readonly patch: string;
  readonly masked: boolean;
  readonly options: readonly string[];
}

const FLOATS: readonly SampleType[] = ["float32", "float64"];
const ALL: readonly SampleType[] = [...FLOATS, "int8", "uint8", "int16", "uint16", "int32", "uint32"];
const WIDE = { int64: BigInt64Array, uint64: BigUint64Array } as const;
const EXACT: readonly SampleType[] = [...ALL, "int64", "uint64"];
/** Grids with the patches that cut them: one to three dimensions, odd, thin, shorter than a patch, and a single sample. */
const GRIDS: readonly (readonly [Vec3, string])[] = [
  [[33, 17, 9], "16x8x4"], [[1000, 1, 1], "64x1x1"], [[37, 53, 1], "16x16x1"], [[1, 41, 29], "1x8x16"], [[70, 40, 20], "64"],
  [[5, 1, 63], "8x1x16"], [[1, 1, 1], "4"], [[65, 3, 2], "32x2x2"], [[24, 24, 24], "32"],
];
const FILL: Readonly<Record<SampleType, string>> = {
  float32: "-999.5", float64: "-1e30", int8: "-128", uint8: "255", int16: "-32768", uint16: "65535", int32: "-2147483648",
  uint32: "4294967295", int64: "-9007199254740993", uint64: "18446744073709551615",
};

function cases(): Case[] {
  const combinations = [
    ...FLOATS.map((type) => ({ coder: "wavelet-zfp", type, options: ["--tolerance", "0.01"] })),
    ...FLOATS.map((type) => ({ coder: "wavelet-zfp", type, options: ["--tolerance", "1e-9"] })),
    ...FLOATS.map((type) => ({ coder: "interpolate", type, options: ["--relative", "1e-6"] })),
    ...ALL.map((type) => ({ coder: "interpolate", type, options: ["--tolerance", "2"] })),
    ...EXACT.map((type) => ({ coder: "lossless", type, options: FLOATS.includes(type) ? ["--lossless"] : [] })),
  ];
  return combinations.flatMap((combination, i) => [false, true].map((masked, j) => {
    const [dims, patch] = GRIDS[(i + 4 * j) % GRIDS.length]!;
    return { ...combination, dims, patch, masked };
  }));
}

/** Floats that arithmetic would change: zeros with a sign, subnormal and huge numbers, and NaNs with a payload. */
function putOddBits(samples: Samples, i: number, which: number, nan: boolean): void {
  const view = new DataView(samples.buffer);
  const single = nan ? 0xffa12345 : [0x80000000, 0x00000123, 0x7f7fffff][which]!;
  const double = nan ? 0x7ff4000000012345n : [0x8000000000000000n, 0x123n, 0x7fefffffffffffffn][which]!;
  if (samples instanceof Float32Array) view.setUint32(4 * i, single, true);
  if (samples instanceof Float64Array) view.setBigUint64(8 * i, double, true);
}

/** Smooth in one part, noise in another, constant and of few values in others. */
function samplesFor({ coder, type, dims, masked }: Case, seed: number): Samples {
  const next = random(seed);
  const samples = samplesOf(type, new ArrayBuffer(dims.reduce((a, b) => a * b, SAMPLE_BYTES[type])));
  const unsigned = type.startsWith("u") ? 60 : 0;
  for (let i = 0; i < samples.length; ++i) {
    const [x, y, z] = [i % dims[0], Math.floor(i / dims[0]) % dims[1], Math.floor(i / dims[0] / dims[1])];
    let value = unsigned + 30 * Math.sin(0.2 * x) * Math.cos(0.15 * y + 0.1 * z);
    if (x > dims[0] / 2) value = y > dims[1] / 2 ? unsigned + 7 : unsigned + 60 * (next() - 0.5);
    else if (z > dims[2] / 2) value = unsigned + Math.floor(3 * next());
    const hole = masked && (next() < 0.05 || (x > 8 && x < 25 && y < 20));
    samples[i] = hole ? Number(FILL[type]) : value;
    if (isWide(type)) continue;
    if (masked && next() < 0.02) putOddBits(samples, i, 0, true);
    else if (coder === "lossless" && next() < 0.05) putOddBits(samples, i, Math.floor(3 * next()), false);
  }
  return samples;
}

/** Numbers do not hold the fill values of integers of 64 bits. */
function bytesOf(type: SampleType, samples: Samples): Uint8Array {
  if (!isWide(type)) return new Uint8Array(samples.buffer);
  const fill = Number(FILL[type]);
  const exactly = (value: number): bigint => value === fill ? BigInt(FILL[type]) : BigInt(Math.trunc(value));
  return new Uint8Array(WIDE[type].from(Array.from(samples, exactly)).buffer);
}

async function write(test: Case, name: string, samples: Samples): Promise<string> {
  const input = join(FOLDER, `${name}.raw`);
  const dataset = join(FOLDER, `${name}.quarry`);
  writeFileSync(input, bytesOf(test.type, samples));
  const fill = test.masked ? ["--fill", FILL[test.type]] : [];
  await run(join(BIN, "quarry-write-single"), [
    input, "--output", dataset, "--field", "f", "--dims", test.dims.join("x"), "--type", test.type, "--patch", test.patch,
    "--codec", test.coder, ...test.options, ...fill,
  ]);
  return dataset;
}

async function nativeLevel(dataset: string, level: number): Promise<Uint8Array> {
  const out = `${dataset}-${level}.raw`;
  const options = ["--field", "f", "--level", String(level), "--output", out];
  await run(join(BIN, "quarry"), ["get", dataset, ...options]);
  return readFileSync(out);
}

describe.skipIf(!BUILT && process.env.QUARRY_REQUIRE_DATA === undefined)(`equal to the native decoder in ${BIN}`, () => {
  const decoders = MODULES.map(([name, module]) => ({ name, decoder: new Decoder(module) }));
  const seed = Number(process.env.QUARRY_SEED ?? 1);

  it.each(cases().map((test, i) => ({ ...test, i, grid: test.dims.join("x"), bound: test.options.join(" ") })))(
    "$coder $type $grid $bound, masked: $masked", async (test) => {
      const dataset = await write(test, `case${test.i}`, samplesFor(test, seed + test.i));
      const field = readField(dataset, 0, "f");
      expect([field.coder, field.type, field.dims]).toEqual([test.coder, test.type, test.dims]);
      for (let level = 0; level < field.levels; ++level) {
        const expected = Buffer.from(await nativeLevel(dataset, level));
        for (const { name, decoder } of decoders) {
          const grid = new Grid(field, level);
          for (const patch of field.patches)
            grid.put(patch, decodeLevels(decoder, field, patch)[field.levels - 1 - level]!.samples);
          expect(expected.equals(grid.bytes), `level ${level}, ${name}`).toBe(true);
        }
      }
    }, 0);

  // The payload of a patch of one level is that of a tile.
  it.each(cases().map((test, i) => ({ ...test, i, grid: test.dims.join("x"), bound: test.options.join(" ") })))(
    "tiles of $coder $type $grid $bound, masked: $masked", async (test) => {
      const whole = { ...test, options: [...test.options, "--levels", "1"] };
      const dataset = await write(whole, `tile${test.i}`, samplesFor(test, seed + test.i));
      const field = readField(dataset, 0, "f");
      expect(field.levels).toBe(1);
      const expected = Buffer.from(await nativeLevel(dataset, 0));
      for (const { name, decoder } of decoders) {
        const grid = new Grid(field, 0);
        for (const patch of field.patches) {
          const layout = layoutOf(field, patch);
          const tile = tileWith(decoder, layout, tileContent(field.coder, patch.levels[0]!));
          grid.put(patch, new Uint8Array(decoder.tile(layout, tile)));
        }
        expect(expected.equals(grid.bytes), name).toBe(true);
      }
    }, 0);
});

afterAll(() => { rmSync(FOLDER, { recursive: true }); });
