/** Reads the payload of datasets in folders, by docs/format.md alone: sections 13 and 14. For tests; it checks nothing. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { SampleType, Vec3 } from "../../src/model";
import type { LevelPayload } from "../../src/reading";

const TYPES: readonly SampleType[] = ["float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"];
const CODERS = [
  "wavelet-zfp", "interpolate", "lossless", "validity", "interpolate-zeros", "interpolate-signs", "interpolate-relative",
] as const;
/** XXH3 of no bytes. */
export const EMPTY_CHECKSUM = 0x2d06800538d394c2n;
const HEADER_BYTES = 144;

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

/** One part of a row, in the order of the row: bytes of its payload, and their checksum. */
interface Part {
  size: number;
  checksum: bigint;
  offset: number;
}

/** Takes the rows of a table of version 4 apart: each is as long as it needs to be. */
class ShortRows {
  readonly #view: DataView;
  #at: number;

  constructor(view: DataView, table: number) {
    this.#view = view;
    this.#at = table;
  }

  varint(): bigint {
    for (let value = 0n, shift = 0n; ; shift += 7n) {
      const byte = this.#view.getUint8(this.#at++);
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  }

  parts(count: number): Part[] {
    const bits = this.#byte();
    const widths = this.#byte();
    this.#at += (widths & 15) + (widths >> 4);
    if ((bits & 2) !== 0) this.varint();
    return Array.from({ length: count }, () => ((bits & 4) !== 0 ? { size: 0, checksum: EMPTY_CHECKSUM, offset: 0 } : this.#part()));
  }

  #byte(): number {
    return this.#view.getUint8(this.#at++);
  }

  #part(): Part {
    const widths = this.#byte();
    const size = Number(this.varint());
    const checksum = size > 0 ? this.#view.getBigUint64(this.#at, true) : EMPTY_CHECKSUM;
    this.#at += (size > 0 ? 8 : 0) + (widths & 7) + ((widths >> 3) & 15) + ((widths & 128) !== 0 ? 4 : 0);
    return { size, checksum, offset: 0 };
  }
}

/** The place of a patch among all, from its Morton code. */
function patchOfCode(code: bigint, counts: readonly number[]): number {
  const position = [0, 0, 0];
  for (let bit = 0n; code >> bit > 0n; ++bit)
    position[Number(bit % 3n)]! += Number((code >> bit) & 1n) * 2 ** Number(bit / 3n);
  return position[0]! + counts[0]! * (position[1]! + counts[1]! * position[2]!);
}

/** By patch, the parts of each row. Payloads lie one after the other behind the header. */
function readShortRows(view: DataView, table: number, parts: number, counts: readonly number[]): Map<number, Part[]> {
  const reader = new ShortRows(view, table);
  const rows = new Map<number, Part[]>();
  const patches = Number(view.getBigUint64(56, true));
  let next = 0n;
  for (let i = 0; i < patches; ++i) {
    const code = next + reader.varint();
    rows.set(patchOfCode(code, counts), reader.parts(parts));
    next = code + 1n;
  }
  let offset = HEADER_BYTES;
  const place = (part: Part): void => {
    part.offset = offset;
    offset += part.size;
  };
  const levels = view.getUint8(47);
  // So many of the finest levels of each layer lie patch by patch: all, none, or those below the coarse level.
  const order = view.getUint8(50) & 7;
  const fine = order === 1 ? levels : order === 2 ? 0 : view.getUint8(52);
  for (let layer = parts / levels - 1; layer >= 0; --layer) {
    const first = layer * levels;
    for (let level = levels - 1; level >= fine; --level) for (const row of rows.values()) place(row[first + level]!);
    for (const row of rows.values()) row.slice(first, first + fine).reverse().forEach(place);
  }
  return rows;
}

/** The rows of versions before 4, all of one size. */
function readEqualRows(view: DataView, table: number, end: number, parts: number, old: boolean): Map<number, Part[]> {
  const u64 = (at: number): number => Number(view.getBigUint64(at, true));
  const [row, first] = old ? [24 + 32 * parts, 24] : [28 + 36 * parts, 28];
  const rows = new Map<number, Part[]>();
  for (let at = table; at < end; at += row) {
    rows.set(u64(at), Array.from({ length: parts }, (_, part) => {
      const record = at + first + part * (old ? 32 : 36);
      return { offset: u64(record), size: view.getUint32(record + 8, true), checksum: view.getBigUint64(record + 16, true) };
    }));
  }
  return rows;
}

/** Reads the first of several layers of accuracy, whose levels are the last of a row. */
function readSubfile(path: string): Subfile {
  const file = new Uint8Array(readFileSync(path));
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const version = view.getUint16(8, true);
  const levels = view.getUint8(47);
  const further = levels * view.getUint8(51);
  const dims = [32, 36, 40].map((at) => view.getUint32(at, true)) as unknown as Vec3;
  const patch = [44, 45, 46].map((at) => 2 ** view.getUint8(at)) as unknown as Vec3;
  const table = Number(view.getBigUint64(file.length - 48, true));
  const parts = version >= 4
    ? readShortRows(view, table, levels + further, dims.map((n, axis) => Math.ceil(n / patch[axis]!)))
    : readEqualRows(view, table, file.length - 48, levels + further, version === 1);
  const rows = new Map([...parts].map(([index, row]): [number, Payload[]] => [index, row.slice(further).map(
    ({ offset, size, checksum }) => ({ bytes: file.subarray(offset, offset + size), checksum }))]));
  return { coder: CODERS[view.getUint8(49) - 1]!, type: TYPES[view.getUint8(48) - 1]!, levels, rows, dims, patch };
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
  float32: 4, float64: 8, int8: 1, uint8: 1, int16: 2, uint16: 2, int32: 4, uint32: 4, int64: 8, uint64: 8,
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
