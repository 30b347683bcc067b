/**
 * Residency of each patch in the volume: the level of its samples, the level that it shows next to coarser neighbours,
 * and the least and the largest value around, so that rays skip invisible space.
 */
import { patchNumber, patchPosition, volume } from "../geometry";
import type { Vec3 } from "../model";

/** Level of a patch without any brick. */
export const kNothing = 255;

export class Residency {
  readonly levels: Uint8Array;
  private readonly low: Float32Array;
  private readonly high: Float32Array;

  constructor(readonly count: Vec3) {
    const patches = volume(count);
    this.levels = new Uint8Array(patches).fill(kNothing);
    this.low = new Float32Array(patches).fill(Infinity);
    this.high = new Float32Array(patches).fill(-Infinity);
  }

  /** Levels only become finer. The range is that of the samples at this level: the finest is the truest. */
  set(patch: number, level: number, low: number, high: number): void {
    this.levels[patch] = Math.min(this.levels[patch]!, level);
    this.low[patch] = low;
    this.high[patch] = high;
  }

  /** Four bytes a patch: own level, level beside neighbours, largest and least value rounded outwards to 255 parts. */
  table(): Uint8Array {
    const table = new Uint8Array(this.levels.length * 4);
    for (let patch = 0; patch < this.levels.length; ++patch) table.set(this.row(patch), patch * 4);
    return table;
  }

  private row(patch: number): readonly number[] {
    const [x, y, z] = patchPosition(this.count, patch);
    const own = this.levels[patch]!;
    let [beside, low, high] = [own, Infinity, -Infinity];
    for (let i = 0; i < 8; ++i) {
      const [ax, ay, az] = [x + (i & 1), y + ((i >> 1) & 1), z + (i >> 2)];
      if (ax >= this.count[0] || ay >= this.count[1] || az >= this.count[2]) continue;
      const next = patchNumber(this.count, ax, ay, az);
      const level = this.levels[next]!;
      // A patch without samples has nothing to mix with: the edge stays as it is.
      if (level === kNothing) continue;
      beside = Math.max(beside, level);
      low = Math.min(low, this.low[next]!);
      high = Math.max(high, this.high[next]!);
    }
    const byte = (value: number): number => Math.min(255, Math.max(0, value));
    return [own, beside, byte(Math.ceil(high * 255)), byte(Math.floor(low * 255))];
  }
}
