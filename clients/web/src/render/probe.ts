import { kAxes, mapVec, patchNumber, sampleIndex } from "../geometry";
import type { Axis, Brick, Vec3 } from "../model";
import type { Bricks } from "./compose";

/** The sample nearest to a point, as it is in memory: as stored, or as coded for a slice. */
export interface Reading {
  readonly value: number;
  readonly missing: boolean;
  readonly level: number;
  readonly damaged: boolean;
  /** The largest error of storing and coding together, where it was coded for a slice; null: it is as stored. */
  readonly codedWithin: number | null;
  /** Level-0 index of the sample. */
  readonly sample: Vec3;
}

/**
 * The nearest sample of the finest brick there; null where no brick is, or outside of the grid.
 * @param slices  those through the point count as well
 */
export function readingAt(bricks: Bricks, index: Vec3, finest = 0, slices = false): Reading | null {
  const { dims, patch } = bricks.grid;
  const whole = mapVec((a) => Math.min(dims[a] - 1, Math.round(index[a])));
  if (whole.some((i) => i < 0)) return null;
  const number = patchNumber(bricks.patches, ...mapVec((a) => Math.floor(whole[a] / patch[a])));
  let brick: Brick | null = null;
  for (const slice of [undefined, ...(slices ? kAxes.map((axis) => ({ axis, index: whole[axis] })) : [])]) {
    const other = bricks.best(number, finest, slice);
    if (other && !(brick && brick.level <= other.level)) brick = other;
  }
  if (!brick) return null;
  const step = 2 ** brick.level;
  const { begin, end } = brick.box;
  const at = mapVec((a) => Math.min(end[a] - 1, Math.max(begin[a], Math.round(whole[a] / step))));
  const place = sampleIndex(brick.box, ...at);
  const value = brick.samples[place]!;
  const missing = brick.validity?.[place] === 0 || !Number.isFinite(value);
  const codedWithin = brick.part?.maxError ?? null;
  return { value, missing, level: brick.level, damaged: brick.damaged, codedWithin, sample: mapVec((a) => at[a] * step) };
}

export interface LinePoint {
  /** Level-0 index. */
  readonly index: number;
  /** NaN where missing or not there yet. */
  readonly value: number;
}

/** Samples along an axis through a point, from memory and not finer than `finest`; at most `most`. */
export function lineAlong(
  bricks: Bricks,
  axis: Axis,
  through: Vec3,
  begin: number,
  end: number,
  most: number,
  finest = 0,
): readonly LinePoint[] {
  const stride = Math.max(1, Math.ceil((end - begin) / most));
  const points: LinePoint[] = [];
  const at: [number, number, number] = [...through];
  for (let i = begin; i < end; i += stride) {
    at[axis] = i;
    const reading = readingAt(bricks, at, finest);
    points.push({ index: reading?.sample[axis] ?? i, value: !reading || reading.missing ? NaN : reading.value });
  }
  return points;
}

/** Minimum and maximum of groups of neighbours, so that a long line keeps its peaks. NaN for a group without any. */
export function envelope(
  values: readonly number[],
  groups: number,
): { readonly low: readonly number[]; readonly high: readonly number[] } {
  const low: number[] = [];
  const high: number[] = [];
  for (let g = 0; g < groups; ++g) {
    let [least, most] = [Infinity, -Infinity];
    const end = Math.max(Math.floor((g * values.length) / groups) + 1, Math.floor(((g + 1) * values.length) / groups));
    for (let i = Math.floor((g * values.length) / groups); i < end; ++i) {
      const value = values[i]!;
      if (Number.isNaN(value)) continue;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
    low.push(least > most ? NaN : least);
    high.push(least > most ? NaN : most);
  }
  return { low, high };
}
