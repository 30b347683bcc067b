/** The coder library in WebAssembly: one module instance, with the functions of wasm/decoder.cc. */

import { type SampleType, type Samples, type Vec3, ViewerError } from "../model";
import { isWide, nearestNumbers } from "../wide_integers";

/** Ids of coders and types in docs/format.md. */
const CODERS: Readonly<Record<string, number>> = {
  "wavelet-zfp": 1, interpolate: 2, lossless: 3, "interpolate-zeros": 5, "interpolate-signs": 6, "interpolate-relative": 7,
};
/** Coders that know no integers. */
const OF_FLOATS = ["wavelet-zfp", "interpolate-relative"];
const TYPES: Readonly<Record<SampleType, number>> = {
  float32: 1, float64: 2, int8: 3, uint8: 4, int16: 5, uint16: 6, int32: 7, uint32: 8, int64: 9, uint64: 10,
};
const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array,
  int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
} as const;
/** The coder that knows integers of 64 bits. */
const OF_WIDE = "lossless";

/** Whether payload of this coder and type can be decoded here. */
export function canDecode(coder: string, type: SampleType): boolean {
  if (isWide(type)) return coder === OF_WIDE;
  return Object.hasOwn(CODERS, coder) && (!OF_FLOATS.includes(coder) || type === "float32" || type === "float64");
}

export function samplesOf(type: SampleType, buffer: ArrayBuffer): Samples {
  return isWide(type) ? nearestNumbers(type, buffer) : new ARRAYS[type](buffer);
}

/** A function that uses a vector instruction. */
const SIMD_PROBE = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);

export function hasSimd(): boolean {
  return WebAssembly.validate(SIMD_PROBE);
}

interface Exports {
  readonly memory: WebAssembly.Memory;
  readonly _initialize: () => void;
  readonly quarry_allocate: (bytes: number) => number;
  readonly quarry_release: (begin: number) => void;
  readonly quarry_checksum: (begin: number, bytes: number) => bigint;
  readonly quarry_reader_open: (coder: number, type: number, nx: number, ny: number, nz: number, levels: number) => number;
  readonly quarry_reader_advance: (reader: number, payload: number, size: number, mask: number, maskSize: number) => number;
  readonly quarry_reader_samples: (reader: number) => number;
  readonly quarry_reader_samples_size: (reader: number) => number;
  readonly quarry_reader_validity: (reader: number) => number;
  readonly quarry_reader_memory: (reader: number) => number;
  readonly quarry_reader_close: (reader: number) => void;
  readonly quarry_tile_decode: (type: number, nx: number, ny: number, nz: number, coded: number, size: number, samples: number) => number;
  readonly quarry_error: () => number;
}

const OUT_OF_MEMORY = "out of memory";
const DATA_LOSS = 15;

export interface PatchLayout {
  readonly coder: string;
  readonly type: SampleType;
  readonly shape: Vec3;
  readonly levels: number;
}

/** Bytes of one level. */
export interface LevelBytes {
  readonly mask: Uint8Array;
  readonly payload: Uint8Array;
}

/** A patch under way in a Decoder. A number that lies in the module: useless in another. */
export type Reader = number & { readonly reader: unique symbol };

/**
 * Methods throw ViewerErrors. After a trap, such as for memory that cannot be had, `broken` is true and the instance is good
 * for nothing but to be dropped.
 */
export class Decoder {
  broken = false;
  private readonly exports: Exports;

  constructor(module: WebAssembly.Module) {
    const instance = new WebAssembly.Instance(module, this.imports(module));
    this.exports = instance.exports as unknown as Exports;
    this.call(() => { this.exports._initialize(); });
  }

  /** [bytes] of the instance. It never shrinks. */
  get memory(): number {
    return this.exports.memory.buffer.byteLength;
  }

  /** XXH3, 64 bit. */
  checksum(bytes: Uint8Array): bigint {
    return this.withBytes([bytes], ([begin]) => BigInt.asUintN(64, this.exports.quarry_checksum(begin!, bytes.length)));
  }

  open(layout: PatchLayout): Reader {
    const [x, y, z] = layout.shape;
    // Arguments have 32 bits: a number that the conversion would change is wrong.
    if (![x, y, z, layout.levels].every((n) => n === (n | 0)))
      throw new ViewerError("invalid_argument", `no patch has the shape ${x}x${y}x${z} and ${layout.levels} levels`);
    const reader = this.call(() =>
      this.exports.quarry_reader_open(CODERS[layout.coder] ?? 0, TYPES[layout.type], x, y, z, layout.levels));
    if (reader === 0) throw new ViewerError("invalid_argument", this.errorText());
    return reader as Reader;
  }

  /** Decodes the next finer level. After an error the reader can only be closed. */
  advance(reader: Reader, level: LevelBytes): void {
    const code = this.withBytes([level.payload, level.mask], ([payload, mask]) =>
      this.exports.quarry_reader_advance(reader, payload!, level.payload.length, mask!, level.mask.length));
    this.check(code);
  }

  /** The samples of a tile of a coded answer. */
  tile({ type, shape: [x, y, z] }: Pick<PatchLayout, "type" | "shape">, coded: Uint8Array): ArrayBuffer {
    const room = new Uint8Array(x * y * z * (isWide(type) ? 8 : ARRAYS[type].BYTES_PER_ELEMENT));
    // Room for samples comes first, where it is aligned.
    const { code, samples } = this.withBytes([room, coded], ([to, from]) => ({
      code: this.exports.quarry_tile_decode(TYPES[type], x, y, z, from!, coded.length, to!),
      samples: this.exports.memory.buffer.slice(to, to! + room.length),
    }));
    this.check(code);
    return samples;
  }

  /** A copy of the samples of the last level. */
  samples(reader: Reader): ArrayBuffer {
    const begin = this.call(() => this.exports.quarry_reader_samples(reader));
    const size = this.call(() => this.exports.quarry_reader_samples_size(reader));
    return this.exports.memory.buffer.slice(begin, begin + size);
  }

  /** A copy of their validity; null where no sample of the patch is missing. */
  validity(reader: Reader, count: number): ArrayBuffer | null {
    const begin = this.call(() => this.exports.quarry_reader_validity(reader));
    return begin === 0 ? null : this.exports.memory.buffer.slice(begin, begin + count);
  }

  readerMemory(reader: Reader): number {
    return this.call(() => this.exports.quarry_reader_memory(reader)) >>> 0;
  }

  close(reader: Reader): void {
    this.call(() => { this.exports.quarry_reader_close(reader); });
  }

  /** The module asks the system for nothing but its environment, which is empty. All else means that it stops. */
  private imports(module: WebAssembly.Module): WebAssembly.Imports {
    const known: Record<string, (first: number, second: number) => number | undefined> = {
      emscripten_notify_memory_growth: () => undefined,
      environ_sizes_get: (count, size) => {
        const memory = new DataView(this.exports.memory.buffer);
        memory.setUint32(count, 0, true);
        memory.setUint32(size, 0, true);
        return 0;
      },
      environ_get: () => 0,
    };
    const imports: WebAssembly.Imports = {};
    for (const { module: from, name } of WebAssembly.Module.imports(module)) {
      const stops = (): never => {
        throw new Error(`the decoder stops (${name})`);
      };
      imports[from] = { ...imports[from], [name]: known[name] ?? stops };
    }
    return imports;
  }

  /** Any exception from inside leaves the module in an unknown state. */
  private call<T>(use: () => T): T {
    if (this.broken) throw new ViewerError("internal", "the decoder has stopped");
    try {
      return use();
    } catch (error) {
      this.broken = true;
      if (this.readText().startsWith(OUT_OF_MEMORY)) throw tooLarge();
      throw new ViewerError("internal", `the decoder has stopped: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  /** Copies arrays into the module, next to each other, for as long as `use` runs. */
  private withBytes<T>(arrays: readonly Uint8Array[], use: (begins: readonly number[]) => T): T {
    const total = arrays.reduce((sum, array) => sum + array.length, 0);
    const begin = this.call(() => this.exports.quarry_allocate(total)) >>> 0;
    if (begin === 0) throw tooLarge();
    const begins: number[] = [];
    let at = begin;
    for (const array of arrays) {
      new Uint8Array(this.exports.memory.buffer).set(array, at);
      begins.push(at);
      at += array.length;
    }
    const result = this.call(() => use(begins));
    this.call(() => { this.exports.quarry_release(begin); });
    return result;
  }

  private check(code: number): void {
    if (code === 0) return;
    const text = this.errorText();
    if (text.startsWith(OUT_OF_MEMORY)) throw tooLarge();
    throw new ViewerError(code === DATA_LOSS ? "data_loss" : "internal", text);
  }

  private errorText(): string {
    return this.call(() => this.readText());
  }

  private readText(): string {
    const bytes = new Uint8Array(this.exports.memory.buffer, this.exports.quarry_error() >>> 0, 1024);
    return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
  }
}

function tooLarge(): ViewerError {
  return new ViewerError("resource_exhausted", "a patch does not fit into the memory of the decoder; ask for a coarser level");
}
