/**
 * Another field of the dataset. On a grid of its own it has other samples: what is on screen stays where it is, as far as that
 * grid goes, and never leaves it.
 */
import { clampPoint, kAxes, mapVec, sameVec } from "../geometry";
import type { Axis, Box, DatasetInfo, GridInfo, Vec3, ViewState } from "../model";
import { gridOf } from "../model";
import { gridAxis } from "../render/axes";
import { clampClip } from "./panes";
import { defaultCamera, middleOf } from "./session";

/** Where an index of one grid lies on another, perhaps outside; null where the axes do not tell: of other units, or of one sample. */
function indexOn(from: GridInfo, to: GridInfo, axis: Axis, index: number): number | null {
  if (from.dims[axis] === 1 || to.dims[axis] === 1 || from.axisUnits[axis] !== to.axisUnits[axis]) return null;
  const found = gridAxis(to, axis).index(gridAxis(from, axis).position(index));
  // Positions may be so large that they have no difference.
  return Number.isFinite(found) ? found : null;
}

/** A whole number next to an index; of two as near, the even one: between staggered grids, the cursor does not wander. */
function nearest(index: number): number {
  const low = Math.floor(index);
  if (Math.abs(index - low - 0.5) > 1e-6) return Math.round(index);
  return low % 2 === 0 ? low : low + 1;
}

/** The middle of the grid along axes that do not tell. */
function nearPoint(from: GridInfo, to: GridInfo, point: Vec3): Vec3 {
  return mapVec((axis) => indexOn(from, to, axis, point[axis]) ?? middleOf(to)[axis]);
}

/** Null for a point that is not on the grid. */
function pointOn(from: GridInfo, to: GridInfo, point: Vec3): Vec3 | null {
  const at = nearPoint(from, to, point);
  // Each sample is shown with the half of the way to its neighbours.
  const inside = at.every((index, a) => index > -0.5 - 1e-6 && index < to.dims[a]! - 0.5 + 1e-6);
  return inside ? clampPoint(to, at) : null;
}

function cursorOn(from: GridInfo, to: GridInfo, cursor: Vec3): Vec3 {
  const at = nearPoint(from, to, cursor);
  return clampPoint(to, mapVec((axis) => nearest(at[axis])));
}

/** All of an axis stays all of it, and where nothing of the box is on the grid, all is shown. */
function clipOn(from: GridInfo, to: GridInfo, clip: Box): Box | null {
  const begin: [number, number, number] = [0, 0, 0];
  const end: [number, number, number] = [...to.dims];
  for (const axis of kAxes) {
    if (clip.begin[axis] === 0 && clip.end[axis] === from.dims[axis]) continue;
    const edges = [indexOn(from, to, axis, clip.begin[axis] - 0.5), indexOn(from, to, axis, clip.end[axis] - 0.5)] as const;
    if (edges[0] === null || edges[1] === null) continue;
    // One of the axes may go downwards.
    const low = nearest(Math.min(edges[0], edges[1]) + 0.5);
    const high = nearest(Math.max(edges[0], edges[1]) + 0.5);
    if (low >= to.dims[axis] || high <= 0) continue;
    [begin[axis], end[axis]] = [Math.max(0, low), Math.min(to.dims[axis], high)];
  }
  return clampClip(to, { begin, end });
}

/** The ends of a profile, with the digits that links keep. */
export function roundedProfile(profile: readonly [Vec3, Vec3]): readonly [Vec3, Vec3] {
  const rounded = (end: Vec3): Vec3 => mapVec((a) => Math.round(end[a] * 100) / 100);
  return [rounded(profile[0]), rounded(profile[1])];
}

function profileOn(from: GridInfo, to: GridInfo, profile: readonly [Vec3, Vec3]): readonly [Vec3, Vec3] | null {
  const [begin, end] = [pointOn(from, to, profile[0]), pointOn(from, to, profile[1])];
  const ends = begin && end && roundedProfile([begin, end]);
  return ends && !sameVec(...ends) ? ends : null;
}

/** The view of another field; of no other if the dataset has none of the name. */
export function withField(info: DatasetInfo, state: ViewState, field: string): ViewState {
  if (!info.fields.some((each) => each.name === field)) return state;
  const [from, to] = [gridOf(info, state.field), gridOf(info, field)];
  if (from === to) return { ...state, field };
  const { camera, clip, level, profile } = state;
  return {
    ...state,
    field,
    cursor: cursorOn(from, to, state.cursor),
    clip: clip && clipOn(from, to, clip),
    // One that was never moved nearer or farther shows the whole box.
    camera: camera.distance === defaultCamera(from).distance ? { ...camera, distance: defaultCamera(to).distance } : camera,
    level: level === null ? null : Math.min(level, to.levels - 1),
    profile: profile && profileOn(from, to, profile),
  };
}

/** Why a field is not compared with another one of its dataset: they share box, cursor and patches. Null if it is. */
export function whyNotBeside(info: DatasetInfo, field: string, other: string): string | null {
  const [a, b] = [gridOf(info, field), gridOf(info, other)];
  if (a === b) return null;
  const shapes = `${a.dims.join(" x ")} and ${b.dims.join(" x ")}`;
  return `"${field}" and "${other}" are on different grids, of ${shapes} samples; only fields of one grid are compared`;
}
