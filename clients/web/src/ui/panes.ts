/** Which pictures are on the stage, and where. */
import { clampPoint, mapVec, sameVec, wholeGrid } from "../geometry";
import type { Axis, Box, GridInfo, Vec3, ViewState } from "../model";
import { longAxes, sliceAxes } from "../render/layout";
import type { Rect } from "../render/layout";

export type PaneKind = "x" | "y" | "z" | "volume" | "line";
export type Side = "a" | "b" | "difference";

export interface Pane {
  readonly kind: PaneKind;
  readonly side: Side;
  /** With title and axes. */
  readonly cell: Rect;
  /** Room that is left for samples. */
  readonly room: Rect;
}

/** Narrower than this, one pane at a time is shown. */
export const kNarrow = 640;

const kSlices = ["x", "y", "z"] as const;

export function axisOf(kind: PaneKind): Axis | null {
  const axis = kSlices.indexOf(kind as "x");
  return axis < 0 ? null : (axis as Axis);
}

/** The panes that a grid has, in the order of their tabs. */
export function paneKinds(grid: GridInfo): readonly PaneKind[] {
  if (longAxes(grid).length <= 1) return ["line"];
  const slices = sliceAxes(grid).map((axis) => kSlices[axis]);
  return slices.length === 1 ? slices : [...slices, "volume"];
}

export function visibleKinds(grid: GridInfo, pane: ViewState["pane"], narrow: boolean): readonly PaneKind[] {
  const all = paneKinds(grid);
  if (pane !== "all" && (all as readonly string[]).includes(pane)) return [pane];
  if (all.length === 1) return all;
  return narrow ? [all[0]!] : ["z", "volume", "y", "x"];
}

export function sidesOf(compare: ViewState["compare"]): readonly Side[] {
  return compare === null ? ["a"] : compare.difference ? ["difference"] : ["a", "b"];
}

/** The finest level that the user lets a side have; 0: as the screen needs. */
export function finestOf({ level, compare }: ViewState, side: Side, grid: GridInfo): number {
  const wanted = side === "b" && compare?.difference === false ? (compare.level ?? level) : level;
  return Math.min(wanted ?? 0, grid.levels - 1);
}

/** Parts of a rectangle between shares of its width and height. */
function part(rect: Rect, left: number, right: number, top: number, bottom: number): Rect {
  const [x, y] = [Math.round(rect.x + rect.width * left), Math.round(rect.y + rect.height * top)];
  return { x, y, width: Math.round(rect.x + rect.width * right) - x, height: Math.round(rect.y + rect.height * bottom) - y };
}

/** Left to right and top to bottom; four are cut at a share of the width and of the height. */
function cells(count: number, stage: Rect, across: number, down: number): readonly Rect[] {
  if (count === 1) return [stage];
  return [
    part(stage, 0, across, 0, down),
    part(stage, across, 1, 0, down),
    part(stage, 0, across, down, 1),
    part(stage, across, 1, down, 1),
  ];
}

function roomOf(kind: PaneKind, cell: Rect): Rect {
  const [left, top, right, bottom] = kind === "volume" ? [6, 28, 6, 6] : [56, 28, 14, 40];
  return {
    x: cell.x + left,
    y: cell.y + top,
    width: Math.max(16, cell.width - left - right),
    height: Math.max(16, cell.height - top - bottom),
  };
}

function panesIn(kinds: readonly PaneKind[], sides: readonly Side[], wholes: readonly Rect[]): readonly Pane[] {
  return kinds.flatMap((kind, i) => {
    const whole = wholes[i]!;
    const beside = whole.width >= whole.height;
    return sides.map((side, j) => {
      const [from, to] = [j / sides.length, (j + 1) / sides.length];
      const cell = sides.length === 1 ? whole : beside ? part(whole, from, to, 0, 1) : part(whole, 0, 1, from, to);
      return { kind, side, cell, room: roomOf(kind, cell) };
    });
  });
}

const kShares = [0.5, 0.45, 0.55, 0.4, 0.6, 0.36, 0.64];

/** Panes where their pictures become large: `size` is the side of the square that a picture in a room would fill. */
export function layOut(
  kinds: readonly PaneKind[],
  sides: readonly Side[],
  stage: Rect,
  size: (kind: PaneKind, room: Rect) => number,
): readonly Pane[] {
  let best: { readonly panes: readonly Pane[]; readonly sum: number } | null = null;
  for (const across of kinds.length === 1 ? [0.5] : kShares)
    for (const down of kinds.length === 1 ? [0.5] : kShares) {
      const panes = panesIn(kinds, sides, cells(kinds.length, stage, across, down));
      const sum = panes.reduce((total, pane) => total + size(pane.kind, pane.room), 0);
      if (!best || sum > best.sum * 1.02) best = { panes, sum };
    }
  return best!.panes;
}

/** The box of a grid that is shown; on another grid than the box is for, the intersection. */
export function clipOf(state: ViewState, grid: GridInfo): Box {
  const { clip } = state;
  if (!clip) return wholeGrid(grid);
  const end = mapVec((a) => Math.min(clip.end[a], grid.dims[a]));
  return { begin: mapVec((a) => Math.min(clip.begin[a], end[a] - 1)), end };
}

export function clampCursor(grid: GridInfo, cursor: Vec3): Vec3 {
  return clampPoint(grid, mapVec((a) => Math.round(cursor[a])));
}

/** A box of whole samples within the grid, of at least two along each axis that has them; null where it is the whole grid. */
export function clampClip(grid: GridInfo, box: Box): Box | null {
  const { dims } = grid;
  const [from, to] = [mapVec((a) => Math.round(box.begin[a])), mapVec((a) => Math.round(box.end[a]))];
  const length = mapVec((a) => Math.min(dims[a], Math.max(2, to[a] - from[a])));
  const begin = mapVec((a) => Math.min(dims[a] - length[a], Math.max(0, from[a])));
  return sameVec(length, dims) ? null : { begin, end: mapVec((a) => begin[a] + length[a]) };
}

/** The box after its axes were made shorter by a factor, around a point that stays where it is. */
export function zoomBox(grid: GridInfo, clip: Box | null, axes: readonly Axis[], around: Vec3, factor: number): Box | null {
  const box = clip ?? wholeGrid(grid);
  const begin: [number, number, number] = [...box.begin];
  const end: [number, number, number] = [...box.end];
  for (const axis of axes) {
    const length = end[axis] - begin[axis];
    // At least a sample more or less, or small boxes would stay as they are.
    const wish =
      factor < 1 ? Math.min(length - 1, Math.round(length * factor)) : Math.max(length + 1, Math.round(length * factor));
    const share = (Math.min(end[axis], Math.max(begin[axis], around[axis])) - begin[axis]) / length;
    begin[axis] = Math.round(begin[axis] + share * (length - wish));
    end[axis] = begin[axis] + wish;
  }
  return clampClip(grid, { begin, end });
}

export function moveBox(grid: GridInfo, clip: Box, by: Vec3): Box | null {
  const moved = (corner: Vec3): Vec3 => mapVec((a) => corner[a] + Math.round(by[a]));
  return clampClip(grid, { begin: moved(clip.begin), end: moved(clip.end) });
}
