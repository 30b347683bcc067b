import { kAxes, mapVec } from "../geometry";
import type { Axis, Box, GridInfo, Vec3 } from "../model";
import { axisEnds, gridAxis, positionAt, shareAt } from "./axes";
import type { Ends, GridAxis } from "./axes";

/** In CSS pixels, from the left top corner of the stage. */
export interface Rect {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** The axes of a slice across `axis`: to the right, and upwards. */
export function planeAxes(axis: Axis): readonly [Axis, Axis] {
  return axis === 0 ? [1, 2] : axis === 1 ? [0, 2] : [0, 1];
}

/** Corners of a rectangle, as shares of its sides. */
export const kCorners = [[0, 0], [1, 0], [0, 1], [1, 1]] as const;

/** A point of such a slice, from its place across the slice and those along its axes. */
export function pointOn(axis: Axis, across: number, u: number, v: number): Vec3 {
  const [ua] = planeAxes(axis);
  return mapVec((a) => (a === axis ? across : a === ua ? u : v));
}

/** Whether an axis stands in the volume. In slices, the second of `planeAxes` does. */
export function isUpright(axis: Axis): boolean {
  return axis === 2;
}

/** Positions at the ends of a box, along an axis of the volume. */
export function volumeEnds(grid: GridInfo, clip: Box, axis: Axis): Ends {
  return axisEnds(gridAxis(grid, axis), clip.begin[axis], clip.end[axis], isUpright(axis));
}

/** The axes with more than one sample. */
export function longAxes(grid: GridInfo): readonly Axis[] {
  return kAxes.filter((axis) => grid.dims[axis] > 1);
}

/** The kinds of pictures that a grid has: a line, one slice, or slices and a volume. */
export function sliceAxes(grid: GridInfo): readonly Axis[] {
  const long = longAxes(grid);
  if (long.length >= 3) return [2, 1, 0];
  if (long.length === 2) return kAxes.filter((axis) => !long.includes(axis));
  return [];
}

/**
 * Lengths of the box on screen along the axes. Axes of one unit keep their proportions, up to 1 to 20; an axis of another
 * unit has no proportion to the first, and is shown half as long as the longest.
 */
export function extents(grid: GridInfo, clip: Box): Vec3 {
  const lengths = mapVec((axis) => {
    const { from, to } = volumeEnds(grid, clip, axis);
    return grid.dims[axis] > 1 ? Math.abs(to - from) : 0;
  });
  const unit = grid.axisUnits[longAxes(grid)[0] ?? 0];
  const same = mapVec((axis) => (grid.axisUnits[axis] === unit ? lengths[axis] : 0));
  const longest = Math.max(...same) || 1;
  return mapVec((axis) => {
    if (lengths[axis] === 0) return longest / 50;
    return same[axis] === 0 ? longest / 2 : Math.max(lengths[axis], longest / 20);
  });
}

/** A slice on screen: `plot` is the part of its pane that shows samples. */
export interface SliceGeometry {
  readonly plot: Rect;
  readonly u: GridAxis;
  readonly v: GridAxis;
  readonly uEnds: Ends;
  readonly vEnds: Ends;
}

/** The largest rectangle of given proportions in the middle of another one, on whole pixels. */
export function fit(room: Rect, width: number, height: number): Rect {
  const scale = Math.min(room.width / width, room.height / height);
  const w = Math.max(1, Math.min(room.width, Math.round(width * scale)));
  const h = Math.max(1, Math.min(room.height, Math.round(height * scale)));
  return { x: Math.round(room.x + (room.width - w) / 2), y: Math.round(room.y + (room.height - h) / 2), width: w, height: h };
}

export function sliceGeometry(grid: GridInfo, axis: Axis, clip: Box, room: Rect): SliceGeometry {
  const [ua, va] = planeAxes(axis);
  const u = gridAxis(grid, ua);
  const v = gridAxis(grid, va);
  const size = extents(grid, clip);
  const linked = grid.axisUnits[ua] === grid.axisUnits[va];
  return {
    plot: linked ? fit(room, size[ua], size[va]) : fit(room, room.width, room.height),
    u,
    v,
    uEnds: axisEnds(u, clip.begin[ua], clip.end[ua], false),
    vEnds: axisEnds(v, clip.begin[va], clip.end[va], true),
  };
}

/** Level-0 indices under a point of the stage, not rounded. */
export function indexAt(geometry: SliceGeometry, x: number, y: number): readonly [number, number] {
  const { plot, uEnds, vEnds } = geometry;
  const u = positionAt(uEnds, (x - plot.x) / plot.width);
  const v = positionAt(vEnds, 1 - (y - plot.y) / plot.height);
  return [geometry.u.index(u), geometry.v.index(v)];
}

/** Where positions on the axes of a slice or a plot are on the stage. */
export function xAt({ plot, uEnds }: SliceGeometry, position: number): number {
  return plot.x + shareAt(uEnds, position) * plot.width;
}

export function yAt({ plot, vEnds }: SliceGeometry, position: number): number {
  return plot.y + (1 - shareAt(vEnds, position)) * plot.height;
}

/** The point of the stage where a level-0 index lies. */
export function pointAt(geometry: SliceGeometry, u: number, v: number): readonly [number, number] {
  return [xAt(geometry, geometry.u.position(u)), yAt(geometry, geometry.v.position(v))];
}

/** Level-0 indices at the middle of each of `pixels` pixels, from the left or from below. */
export function pixelIndices(axis: GridAxis, ends: Ends, pixels: number): Float32Array {
  const result = new Float32Array(pixels);
  for (let i = 0; i < pixels; ++i) result[i] = axis.index(positionAt(ends, (i + 0.5) / pixels));
  return result;
}

/** The level whose samples are as far apart as the pixels, by a factor of at most the square root of 2. */
export function levelForPixels(samples: number, pixels: number, levels: number): number {
  const level = Math.round(Math.log2(Math.max(1, samples / Math.max(1, pixels))));
  return Math.min(levels - 1, level);
}
