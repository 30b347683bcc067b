/** Boxes, patches and levels, and the samples of a level that are those of another one. */
import type { Axis, Box, Brick, GridInfo, SampleType, Samples, Slice, Vec3 } from "./model";

export const kAxes = [0, 1, 2] as const;

export function mapVec(f: (axis: Axis) => number): Vec3 {
  return [f(0), f(1), f(2)];
}

export function sameVec(a: Vec3, b: Vec3): boolean {
  return kAxes.every((i) => a[i] === b[i]);
}

export function volume(shape: Vec3): number {
  return shape[0] * shape[1] * shape[2];
}

export function shapeOf(box: Box): Vec3 {
  return mapVec((a) => Math.max(0, box.end[a] - box.begin[a]));
}

export function isEmpty(box: Box): boolean {
  return volume(shapeOf(box)) === 0;
}

export function sameBox(a: Box, b: Box): boolean {
  return sameVec(a.begin, b.begin) && sameVec(a.end, b.end);
}

export function intersect(a: Box, b: Box): Box {
  const begin = mapVec((i) => Math.max(a.begin[i], b.begin[i]));
  return { begin, end: mapVec((i) => Math.max(begin[i], Math.min(a.end[i], b.end[i]))) };
}

export function contains(outer: Box, inner: Box): boolean {
  return kAxes.every((i) => outer.begin[i] <= inner.begin[i] && inner.end[i] <= outer.end[i]);
}

/** Samples of a level whose level-0 position lies in the box. May be none for a thin box. */
export function levelBox(box: Box, level: number): Box {
  const scale = 2 ** level;
  return { begin: mapVec((a) => Math.ceil(box.begin[a] / scale)), end: mapVec((a) => Math.ceil(box.end[a] / scale)) };
}

/** The samples of a slice at a level: those in its plane, or the two planes around it. */
export function sliceBox(grid: Pick<GridInfo, "dims">, { axis, index }: Slice, clip: Box, level: number): Box {
  const step = 2 ** level;
  const begin: [number, number, number] = [...clip.begin];
  const end: [number, number, number] = [...clip.end];
  begin[axis] = Math.floor(index / step) * step;
  end[axis] = Math.min(grid.dims[axis], index % step === 0 ? index + 1 : begin[axis] + step + 1);
  return { begin, end };
}

export function boxText(box: Box): string {
  return kAxes.map((a) => `${box.begin[a]}:${box.end[a]}`).join(",");
}

type Grid = Pick<GridInfo, "dims" | "patch">;

export function wholeGrid(grid: Pick<Grid, "dims">): Box {
  return { begin: [0, 0, 0], end: grid.dims };
}

/** The nearest point from the first sample to the last. */
export function clampPoint({ dims }: Pick<Grid, "dims">, point: Vec3): Vec3 {
  return mapVec((a) => Math.min(dims[a] - 1, Math.max(0, point[a])));
}

/** Place of a sample in a dense box, x fastest. */
export function sampleIndex({ begin, end }: Box, x: number, y: number, z: number): number {
  return x - begin[0] + (end[0] - begin[0]) * (y - begin[1] + (end[1] - begin[1]) * (z - begin[2]));
}

/** Patches along each axis. */
export function patchCounts(grid: Grid): Vec3 {
  return mapVec((a) => Math.ceil(grid.dims[a] / grid.patch[a]));
}

export function patchNumber(counts: Vec3, x: number, y: number, z: number): number {
  return x + counts[0] * (y + counts[1] * z);
}

export function patchPosition(counts: Vec3, patch: number): Vec3 {
  const row = Math.floor(patch / counts[0]);
  return [patch % counts[0], row % counts[1], Math.floor(row / counts[1])];
}

/** The samples of a box of patch positions, cut at the edge of the grid. */
export function samplesOf(grid: Grid, patches: Box): Box {
  return {
    begin: mapVec((a) => patches.begin[a] * grid.patch[a]),
    end: mapVec((a) => Math.min(grid.dims[a], patches.end[a] * grid.patch[a])),
  };
}

export function patchBox(grid: Grid, patch: number): Box {
  const begin = patchPosition(patchCounts(grid), patch);
  return samplesOf(grid, { begin, end: mapVec((a) => begin[a] + 1) });
}

/** Positions of the patches that meet a box of samples. */
export function patchesMeeting(grid: Grid, box: Box): Box {
  const inside = intersect(box, wholeGrid(grid));
  if (isEmpty(inside)) return { begin: [0, 0, 0], end: [0, 0, 0] };
  return {
    begin: mapVec((a) => Math.floor(inside.begin[a] / grid.patch[a])),
    end: mapVec((a) => Math.ceil(inside.end[a] / grid.patch[a])),
  };
}

/** Numbers of the patches at a box of positions. */
export function* patchNumbers(counts: Vec3, positions: Box): Generator<number> {
  for (let z = positions.begin[2]; z < positions.end[2]; ++z)
    for (let y = positions.begin[1]; y < positions.end[1]; ++y)
      for (let x = positions.begin[0]; x < positions.end[0]; ++x) yield patchNumber(counts, x, y, z);
}

const kArrays = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array,
  int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
  int64: Float64Array, uint64: Float64Array,
} as const;

/** Bytes of a sample. */
export function sizeOf(type: SampleType): number {
  return kArrays[type].BYTES_PER_ELEMENT;
}

export function newSamples(type: SampleType, count: number): Samples {
  return new kArrays[type](count);
}

/** Bytes of the samples of a box of level-0 samples at a level. */
export function levelBytes(box: Box, level: number, type: SampleType): number {
  return volume(shapeOf(levelBox(box, level))) * sizeOf(type);
}

/** Calls with the index in `to` and the one in `from` of each sample of `to`. */
function forEachPair(to: Box, from: Box, pick: (index: number) => number, f: (to: number, from: number) => void): void {
  const clamp = (value: number, a: Axis): number => Math.min(from.end[a] - 1, Math.max(from.begin[a], value));
  const shape = shapeOf(from);
  let i = 0;
  for (let z = to.begin[2]; z < to.end[2]; ++z) {
    const plane = clamp(pick(z), 2) - from.begin[2];
    for (let y = to.begin[1]; y < to.end[1]; ++y) {
      const row = shape[0] * (clamp(pick(y), 1) - from.begin[1] + shape[1] * plane);
      for (let x = to.begin[0]; x < to.end[0]; ++x) f(i++, row + clamp(pick(x), 0) - from.begin[0]);
    }
  }
}

/** Samples of a box, and which of them are valid; null where none is missing. */
export interface Content {
  readonly samples: Samples;
  readonly validity: Uint8Array | null;
}

/** Samples of a box that are samples of another one: `pick` says which, along each axis. */
export function resampled(type: SampleType, from: Content, fromBox: Box, toBox: Box, pick: (index: number) => number): Content {
  const count = volume(shapeOf(toBox));
  const samples = newSamples(type, count);
  const validity = from.validity === null ? null : new Uint8Array(count);
  forEachPair(toBox, fromBox, pick, (to, at) => {
    samples[to] = from.samples[at]!;
    if (validity !== null) validity[to] = from.validity![at]!;
  });
  return { samples, validity };
}

/** A coarser brick of a finer one. */
export function thin(type: SampleType, brick: Brick, level: number, box: Box): Brick {
  const scale = 2 ** (level - brick.level);
  const content = resampled(type, brick, brick.box, box, (i) => i * scale);
  return { patch: brick.patch, level, box, damaged: brick.damaged, ...content };
}
