/** Reads the payload of datasets in folders, by docs/format.md alone: sections 13 and 14. For tests; it checks nothing. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { SampleType, Vec3 } from "../../src/model";
import type { LevelPayload } from "../../src/decode/index";

const TYPES: readonly SampleType[] = ["float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32"];
const CODERS = [
  "wavelet-zfp", "interpolate", "lossless", "validity", "interpolate-zeros", "interpolate-signs", "interpolate-relative",
] as const;
/** XXH3 of no bytes. */
export const EMPTY_CHECKSUM = 0x2d06800538d394c2n;

export interface StoredPatch {
  readonly patch: number;
  /** First sample, and samples. */
  readonly begin: Vec3;
  readonly shape: Vec3;
  /** By level, the finest first. */
  readonly levels: readonly LevelPayload[];
}

export interface StoredField {
  readonly coder: string;
  readonly type: SampleType;
  readonly dims: Vec3;
  readonly levels: number;
  /** Whether patches refer to another step: then a server decodes. */
  readonly refers: boolean;
  readonly patches: readonly StoredPatch[];
}

interface Payload {
  readonly bytes: Uint8Array;
  readonly checksum: bigint;
}

interface Subfile {
  readonly coder: string;
  readonly type: SampleType;
  readonly dims: Vec3;
  readonly patch: Vec3;
  readonly levels: number;
  readonly rows: ReadonlyMap<number, readonly Payload[]>;
}

/** Of several layers of accuracy the first, whose levels are the last of a row. */
function readSubfile(path: string): Subfile {
  const file = new Uint8Array(readFileSync(path));
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const u64 = (at: number): number => Number(view.getBigUint64(at, true));
  const old = view.getUint16(8, true) === 1;
  const levels = view.getUint8(47);
  const further = levels * view.getUint8(51);
  const [row, first] = old ? [24 + 32 * levels, 24] : [28 + 36 * (levels + further), 28];
  const table = u64(file.length - 48);
  const rows = new Map<number, Payload[]>();
  for (let at = table; at < file.length - 48; at += row) {
    const payloads = Array.from({ length: levels }, (_, level) => {
      const record = at + first + (further + level) * (old ? 32 : 36);
      const begin = u64(record);
      const bytes = file.subarray(begin, begin + view.getUint32(record + 8, true));
      return { bytes, checksum: view.getBigUint64(record + 16, true) };
    });
    rows.set(u64(at), payloads);
  }
  return {
    coder: CODERS[view.getUint8(49) - 1]!, type: TYPES[view.getUint8(48) - 1]!, levels, rows,
    dims: [32, 36, 40].map((at) => view.getUint32(at, true)) as unknown as Vec3,
    patch: [44, 45, 46].map((at) => 2 ** view.getUint8(at)) as unknown as Vec3,
  };
}

interface Described {
  readonly name: string;
  readonly references?: readonly string[];
  readonly subfiles: readonly { readonly name: string }[];
  readonly mask?: { readonly name: string; readonly subfiles: readonly { readonly name: string }[] };
}

export function readField(dataset: string, step: number, field: string): StoredField {
  const folder = join(dataset, "steps", String(step).padStart(6, "0"));
  const manifest = JSON.parse(readFileSync(join(folder, "step.json"), "utf8")) as { readonly fields: readonly Described[] };
  const described = manifest.fields.find(({ name }) => name === field)!;
  const subfiles = described.subfiles.map(({ name }) => readSubfile(join(folder, field, name)));
  const masks = described.mask?.subfiles.map(({ name }) => readSubfile(join(dataset, "masks", described.mask!.name, name))) ?? [];
  const mask = new Map(masks.flatMap(({ rows }) => [...rows]));
  const [{ coder, type, dims, patch: size, levels }] = [subfiles[0]!];
  const counts = dims.map((n, axis) => Math.ceil(n / size[axis]!));
  const patches = subfiles.flatMap(({ rows }) => [...rows]).map(([patch, payloads]): StoredPatch => {
    const row = Math.floor(patch / counts[0]!);
    const position = [patch % counts[0]!, row % counts[1]!, Math.floor(row / counts[1]!)];
    const begin = position.map((p, axis) => p * size[axis]!) as unknown as Vec3;
    return {
      patch, begin, shape: dims.map((n, axis) => Math.min(size[axis]!, n - begin[axis]!)) as unknown as Vec3,
      levels: payloads.map(({ bytes, checksum }, level) => {
        const of = mask.get(patch)?.[level];
        return { payload: bytes, checksum, mask: of?.bytes ?? new Uint8Array(0), maskChecksum: of?.checksum ?? EMPTY_CHECKSUM };
      }),
    };
  });
  return { coder, type, dims, levels, patches, refers: (described.references ?? []).length > 0 };
}

/** Samples along each axis at a level. */
export function levelShape(shape: Vec3, level: number): Vec3 {
  return shape.map((n) => Math.ceil(n / 2 ** level)) as unknown as Vec3;
}

export const SAMPLE_BYTES: Readonly<Record<SampleType, number>> = {
  float32: 4, float64: 8, int8: 1, uint8: 1, int16: 2, uint16: 2, int32: 4, uint32: 4,
};

/** The bytes of a level of the whole grid, from those of its patches. */
export class Grid {
  readonly bytes: Uint8Array;
  private readonly shape: Vec3;

  constructor(private readonly field: StoredField, private readonly level: number) {
    this.shape = levelShape(field.dims, level);
    this.bytes = new Uint8Array(this.shape.reduce((a, b) => a * b, SAMPLE_BYTES[field.type]));
  }

  put(patch: StoredPatch, samples: Uint8Array): void {
    const size = SAMPLE_BYTES[this.field.type];
    const shape = levelShape(patch.shape, this.level);
    const [x, y, z] = levelShape(patch.begin, this.level);
    if (samples.length !== shape.reduce((a, b) => a * b, size))
      throw new Error(`patch ${patch.patch} has ${samples.length} bytes`);
    for (let k = 0; k < shape[2]; ++k) {
      for (let j = 0; j < shape[1]; ++j) {
        const from = size * shape[0] * (j + shape[1] * k);
        const to = size * (x + this.shape[0] * (y + j + this.shape[1] * (z + k)));
        this.bytes.set(samples.subarray(from, from + size * shape[0]), to);
      }
    }
  }
}
