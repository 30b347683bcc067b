/**
 * Slices from bricks of different levels. Everything is placed by level-0 indices: sample i of level l lies on level-0
 * sample i 2^l, so coarse samples are a part of the lattice of finer ones. Between the last sample of a brick and the first
 * of the next, the samples of both are mixed: there are no seams.
 */
import { levelBox, patchBox, patchNumber, sampleIndex } from "../geometry";
import type { Axis, Box, Brick, GridInfo, Slice, Vec3 } from "../model";
import { planeAxes, pointOn } from "./layout";

/** In composed slices, for a sample that is missing. */
export const kMissing = -1e30;
/** In composed slices, for a sample of a patch that has not arrived. */
export const kAbsent = -2e30;

/** Source of slices, such as a BrickSource. */
export interface Bricks {
  readonly grid: GridInfo;
  readonly patches: Vec3;
  /** Numbers of damaged patches. */
  readonly damaged?: ReadonlySet<number>;
  /** The brick of a whole patch; for a slice perhaps that of the part around it. */
  best(patch: number, finest: number, slice?: Slice): Brick | null;
}

/** Values as they are drawn: 0 is the least of the step, 1 the largest. So large numbers keep their digits. */
export interface Scale {
  readonly low: number;
  readonly high: number;
}

export function normalise(scale: Scale, value: number): number {
  return scale.high > scale.low ? (value - scale.low) / (scale.high - scale.low) : value - scale.low;
}

export function levelSize(samples: number, level: number): number {
  return Math.ceil(samples / 2 ** level);
}

/** Mixes two samples. A missing one has no weight, but where it is nearer the mixture is missing. */
export function mix(a: number, b: number, share: number): number {
  if (share === 0) return a;
  if (a > kMissing && b > kMissing) return a + (b - a) * share;
  return share < 0.5 ? a : b;
}

/** Samples of all levels as numbers to draw, from the best bricks that there are. Valid for one picture: keeps what it found. */
export class Lattice {
  private readonly found = new Map<number, Brick | null>();

  /** @param slice  that samples are for; others are not looked for in parts of patches */
  constructor(
    private readonly bricks: Bricks,
    private readonly finest: number,
    private readonly scale: Scale,
    private readonly slice?: Slice,
  ) {}

  brick(patch: number): Brick | null {
    let brick = this.found.get(patch);
    if (brick === undefined) {
      brick = this.bricks.best(patch, this.finest, this.slice);
      this.found.set(patch, brick);
    }
    return brick;
  }

  /** The sample of a level at its own indices, clamped to the grid. Interpolated where only coarser samples are there. */
  value(level: number, x: number, y: number, z: number): number {
    const { dims, patch } = this.bricks.grid;
    const step = 2 ** level;
    const ix = Math.min(x, levelSize(dims[0], level) - 1);
    const iy = Math.min(y, levelSize(dims[1], level) - 1);
    const iz = Math.min(z, levelSize(dims[2], level) - 1);
    const number = patchNumber(
      this.bricks.patches,
      Math.floor((ix * step) / patch[0]),
      Math.floor((iy * step) / patch[1]),
      Math.floor((iz * step) / patch[2]),
    );
    let brick = this.brick(number);
    // Next to patches that stay coarse, planes count that the part around the slice does not have.
    if (brick?.part && !this.reaches(brick, level, [ix, iy, iz])) brick = this.bricks.best(number, this.finest);
    if (!brick) return kAbsent;
    if (brick.level > level) return this.between(brick.level, 2 ** (brick.level - level), ix, iy, iz);
    const finer = 2 ** (level - brick.level);
    return this.stored(brick, ix * finer, iy * finer, iz * finer);
  }

  /** Whether the part of a patch has what a sample of a level is made of. */
  private reaches({ box, level: own }: Brick, level: number, at: Vec3): boolean {
    const axis = this.slice!.axis;
    const place = at[axis] * 2 ** (level - own);
    return Math.floor(place) >= box.begin[axis] && Math.ceil(place) < box.end[axis];
  }

  private between(level: number, ratio: number, x: number, y: number, z: number): number {
    const [bx, by, bz] = [Math.floor(x / ratio), Math.floor(y / ratio), Math.floor(z / ratio)];
    const [fx, fy, fz] = [x / ratio - bx, y / ratio - by, z / ratio - bz];
    const row = (j: number, k: number): number => {
      const first = this.value(level, bx, j, k);
      return fx === 0 ? first : this.joined(first, this.value(level, bx + 1, j, k), fx);
    };
    const plane = (k: number): number => (fy === 0 ? row(by, k) : this.joined(row(by, k), row(by + 1, k), fy));
    return fz === 0 ? plane(bz) : this.joined(plane(bz), plane(bz + 1), fz);
  }

  /** An absent sample takes the value of its neighbour, so that it covers no sample that has arrived. */
  joined(a: number, b: number, share: number): number {
    return b === kAbsent ? a : a === kAbsent ? b : mix(a, b, share);
  }

  stored(brick: Brick, x: number, y: number, z: number): number {
    const at = sampleIndex(brick.box, x, y, z);
    if (brick.validity?.[at] === 0) return kMissing;
    const value = normalise(this.scale, brick.samples[at]!);
    return Number.isFinite(value) ? value : kMissing;
  }
}

/** Where the samples of a composed slice lie, in patches and in samples of `level`. */
export interface SliceFrame {
  readonly axis: Axis;
  /** Level-0 sample that the slice passes through. */
  readonly index: number;
  /** Level of the frame's samples; bricks may be coarser. */
  readonly level: number;
  readonly firstPatch: readonly [number, number];
  readonly patchCount: readonly [number, number];
  readonly first: readonly [number, number];
  readonly size: readonly [number, number];
}

/** The frame of all patches that a slice through a box meets. */
export function sliceFrame(bricks: Bricks, axis: Axis, index: number, clip: Box, level: number): SliceFrame {
  const { dims, patch } = bricks.grid;
  const span = (a: Axis): { first: number; count: number; begin: number; size: number } => {
    const first = Math.floor(clip.begin[a] / patch[a]);
    // One sample more than the clip has: pixels of the last one reach half of the way to it.
    const last = Math.floor(Math.min(clip.end[a], dims[a] - 1) / patch[a]);
    const begin = levelSize(first * patch[a], level);
    const end = levelSize(Math.min((last + 1) * patch[a], dims[a]), level);
    return { first, count: last - first + 1, begin, size: end - begin };
  };
  const [ua, va] = planeAxes(axis);
  const [u, v] = [span(ua), span(va)];
  return {
    axis,
    index,
    level,
    firstPatch: [u.first, v.first],
    patchCount: [u.count, v.count],
    first: [u.begin, v.begin],
    size: [u.size, v.size],
  };
}

/** Samples along a side of a frame that every graphics card takes as one texture. */
const kLargestSide = 8192;

/** The finest level, not finer than `level`, whose frame fits a texture: patches of long grids may have more samples than that. */
export function sliceLevelWithin(bricks: Bricks, axis: Axis, clip: Box, level: number): number {
  for (let l = level; l < bricks.grid.levels; ++l) {
    if (Math.max(...sliceFrame(bricks, axis, 0, clip, l).size) <= kLargestSide) return l;
  }
  return bricks.grid.levels - 1;
}

export function slicePatch(bricks: Bricks, frame: SliceFrame, pu: number, pv: number): number {
  const across = Math.floor(frame.index / bricks.grid.patch[frame.axis]);
  return patchNumber(bricks.patches, ...pointOn(frame.axis, across, pu + frame.firstPatch[0], pv + frame.firstPatch[1]));
}

/** A rectangle of a frame, in its own samples. */
export interface Tile {
  readonly u: number;
  readonly v: number;
  readonly width: number;
  readonly height: number;
}

export function tileOf(bricks: Bricks, frame: SliceFrame, pu: number, pv: number): Tile {
  const [ua, va] = planeAxes(frame.axis);
  const { begin, end } = levelBox(patchBox(bricks.grid, slicePatch(bricks, frame, pu, pv)), frame.level);
  const [u, v] = [begin[ua] - frame.first[0], begin[va] - frame.first[1]];
  return { u, v, width: end[ua] - begin[ua], height: end[va] - begin[va] };
}

/** The samples of a brick's own level that lie around a tile, one more than the patch has, already mixed across the slice. */
function corners(lattice: Lattice, frame: SliceFrame, brick: Brick, width: number, height: number): Float64Array {
  const [ua, va] = planeAxes(frame.axis);
  const result = new Float64Array(width * height);
  const at: [number, number, number] = [0, 0, 0];
  const across = frame.index / 2 ** brick.level;
  const low = Math.floor(across);
  const inside = (w: number): boolean => w >= brick.box.begin[frame.axis] && w < brick.box.end[frame.axis];
  const read = (u: number, v: number, w: number): number => {
    at[ua] = u + brick.box.begin[ua];
    at[va] = v + brick.box.begin[va];
    at[frame.axis] = w;
    if (u < width - 1 && v < height - 1 && inside(w)) return lattice.stored(brick, at[0], at[1], at[2]);
    return lattice.value(brick.level, at[0], at[1], at[2]);
  };
  for (let v = 0; v < height; ++v)
    for (let u = 0; u < width; ++u) {
      const first = read(u, v, low);
      result[u + width * v] = across === low ? first : lattice.joined(first, read(u, v, low + 1), across - low);
    }
  return result;
}

/** Writes the samples of one patch into a composed slice. */
export function composeTile(
  bricks: Bricks,
  lattice: Lattice,
  frame: SliceFrame,
  pu: number,
  pv: number,
  out: Float32Array,
): void {
  const tile = tileOf(bricks, frame, pu, pv);
  const brick = lattice.brick(slicePatch(bricks, frame, pu, pv));
  const [ua, va] = planeAxes(frame.axis);
  const ratio = brick ? 2 ** (brick.level - frame.level) : 1;
  const width = brick ? brick.box.end[ua] - brick.box.begin[ua] + 1 : 0;
  const height = brick ? brick.box.end[va] - brick.box.begin[va] + 1 : 0;
  const values = brick ? corners(lattice, frame, brick, width, height) : null;
  for (let v = 0; v < tile.height; ++v)
    for (let u = 0; u < tile.width; ++u)
      out[tile.u + u + frame.size[0] * (tile.v + v)] = values
        ? fromCorners(lattice, values, width, u / ratio, v / ratio)
        : kAbsent;
}

function fromCorners(lattice: Lattice, values: Float64Array, width: number, u: number, v: number): number {
  const [bu, bv] = [Math.floor(u), Math.floor(v)];
  const at = bu + width * bv;
  if (u === bu && v === bv) return values[at]!;
  const low = lattice.joined(values[at]!, values[at + 1]!, u - bu);
  if (v === bv) return low;
  return lattice.joined(low, lattice.joined(values[at + width]!, values[at + width + 1]!, u - bu), v - bv);
}
