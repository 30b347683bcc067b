/** From wants to the patches and levels that they need, within a budget. Pure. */
import { intersect, isEmpty, levelBox, levelBytes, mapVec, patchCounts, patchesMeeting, patchNumbers, patchPosition, sameBox, samplesOf,
         sameVec, shapeOf, sizeOf, sliceBox, volume, wholeGrid } from "../geometry";
import type { Box, FieldInfo, GridInfo, Vec3, Want } from "../model";
import type { Cells } from "./cells";

export type Tier = Want["tier"];

export interface Need {
  /** Number of the patch, or of a part of it: see Cells. */
  readonly patch: number;
  readonly position: Vec3;
  /** Coarsest level that is worth asking for, and the finest. */
  readonly start: number;
  readonly target: number;
  readonly tier: Tier;
  /** Number of the first want that needs it, and its focus. */
  readonly want: number;
  readonly focus: Vec3;
  /** Samples of the part of a patch; left out for whole ones. */
  readonly samples?: number;
}

export interface Needs {
  readonly patches: ReadonlyMap<number, Need>;
  /** First cells of the windows that some of them are parts of. */
  readonly windows: readonly number[];
  /** Bytes of the bricks. */
  readonly bytes: number;
  /** Bytes of the bricks, with enough memory for all. */
  readonly wished: number;
  /** A want is coarser than requested, or has fewer patches, for lack of memory. */
  readonly limited: boolean;
}

/** Slices are coded where whole patches have so many times their samples: in thin patches there is nothing to gain. */
const kSliceGain = 4;
/** So much of a want is a first picture; coarser levels than this are not worth their messages. */
const kFirstSamples = 32 ** 3;
/** Most patches of a source: above, those far from the focus are left out. */
export const kMostPatches = 2 ** 17;
/** Memory of a brick besides its samples, roughly. [bytes] */
export const kBrickOverhead = 256;

export interface Subject extends Pick<GridInfo, "dims" | "patch" | "levels"> {
  readonly field: Pick<FieldInfo, "type">;
  readonly hasMissing: boolean;
  /** Servers code slices: cells for them, and whether a whole patch is in memory, as fine as a level. Null: they do not. */
  readonly slices: { readonly cells: Cells; readonly has: (patch: number, level: number) => boolean } | null;
}

/** Memory of a brick. */
export function brickBytes(subject: Subject, box: Box, level: number): number {
  const validity = subject.hasMissing ? volume(shapeOf(levelBox(box, level))) : 0;
  return levelBytes(box, level, subject.field.type) + validity + kBrickOverhead;
}

/** The level with which a want begins: the finest that is little, and no finer than the want. */
export function startLevel(subject: Subject, want: Want): number {
  const box = samplesOf(subject, patchesMeeting(subject, want.box));
  let level = subject.levels - 1;
  while (level > want.level && volume(shapeOf(levelBox(box, level - 1))) <= kFirstSamples) --level;
  return Math.max(level, Math.min(want.level, subject.levels - 1));
}

/** Patch positions of a want, at most `most`: a box around the focus where there are more. */
function positionsOf(subject: Subject, want: Want, most: number): Box {
  const all = patchesMeeting(subject, want.box);
  if (volume(shapeOf(all)) <= most) return all;
  const centre = mapVec((a) => Math.floor(want.focus[a] / subject.patch[a]));
  const around = (radius: number): Box => ({
    begin: mapVec((a) => Math.min(all.end[a] - 1, Math.max(all.begin[a], centre[a] - radius))),
    end: mapVec((a) => Math.max(all.begin[a] + 1, Math.min(all.end[a], centre[a] + radius + 1))),
  });
  let [low, high] = [0, Math.max(...shapeOf(all)) * 2];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (volume(shapeOf(around(middle))) <= most) low = middle;
    else high = middle;
  }
  return around(low);
}

interface Plan {
  readonly want: Want;
  readonly index: number;
  /** Patch positions. */
  positions: Box;
  readonly start: number;
  level: number;
  /** Parts of the patches around a slice, which come at `level` alone. */
  readonly slice: NonNullable<Want["slice"]> | null;
}

/** Level-0 samples of a plan. */
function boxOf(subject: Subject, { positions, slice, level }: Plan): Box {
  const box = samplesOf(subject, positions);
  return slice === null ? box : intersect(box, sliceBox(subject, slice, wholeGrid(subject), level));
}

/** Patches tile a box of patch positions, at every level. */
function bytesOf(subject: Subject, plan: Plan): number {
  const { positions, start, level: finest } = plan;
  const box = boxOf(subject, plan);
  const sample = sizeOf(subject.field.type) + (subject.hasMissing ? 1 : 0);
  let sum = 0;
  for (let level = finest; level <= (plan.slice === null ? start : finest); ++level) {
    sum += volume(shapeOf(levelBox(box, level))) * sample + volume(shapeOf(positions)) * kBrickOverhead;
  }
  return sum;
}

/** Makes the most expensive want coarser until all fit; then takes fewer patches of it. Returns what all take. */
function fit(subject: Subject, plans: Plan[], budget: number): { bytes: number; limited: boolean } {
  const costs = plans.map((plan) => bytesOf(subject, plan));
  for (let limited = false; ; limited = true) {
    const bytes = costs.reduce((a, b) => a + b, 0);
    const most = costs.reduce((best, cost, i) => (cost > (costs[best] ?? 0) ? i : best), -1);
    if (bytes <= budget || most < 0) return { bytes, limited };
    const canBeCoarser = (i: number): boolean => plans[i]!.level < plans[i]!.start;
    const coarser = costs.reduce((best, cost, i) => (canBeCoarser(i) && cost > (costs[best] ?? 0) ? i : best), -1);
    const at = coarser < 0 ? most : coarser;
    const plan = plans[at]!;
    if (coarser >= 0) ++plan.level;
    else plan.positions = fewer(subject, plan);
    costs[at] = bytesOf(subject, plan);
  }
}

/** Half of the patches of a want, those around its focus; none instead of one. */
function fewer(subject: Subject, { want, positions }: Plan): Box {
  const patches = volume(shapeOf(positions));
  if (patches <= 1) return { begin: positions.begin, end: positions.begin };
  return positionsOf(subject, { ...want, box: samplesOf(subject, positions) }, Math.floor(patches / 2));
}

/** A patch of several wants comes to the finest level of all. */
function merge(old: Need | undefined, next: Need): Need {
  if (old === undefined) return next;
  return { ...old, target: Math.min(old.target, next.target), start: Math.max(old.start, next.start) };
}

/** The plan of a want; of a slice that servers code, a first picture of whole patches and the parts around it. */
function plansOf(subject: Subject, want: Want, index: number, positions: Box): Plan[] {
  const level = Math.max(0, Math.min(subject.levels - 1, Math.floor(want.level)));
  const start = startLevel(subject, { ...want, level });
  const whole: Plan = { want, index, positions, start, level, slice: null };
  if (subject.slices === null || want.slice === undefined || level === start) return [whole];
  const part: Plan = { ...whole, slice: want.slice };
  const samples = ({ slice }: Plan): number => volume(shapeOf(levelBox(boxOf(subject, { ...part, slice }), level)));
  return samples(whole) < kSliceGain * samples(part) ? [whole] : [{ ...whole, level: start }, part];
}

/** Adds the needs of a plan. Parts whose patch is there whole, or will be, are no parts. */
function addNeeds(subject: Subject, needs: Map<number, Need>, windows: Set<number>, plan: Plan, tier: Tier): void {
  const { want: { focus }, index: want, start, level, slice } = plan;
  const counts = patchCounts(subject);
  const add = (need: Need): void => { needs.set(need.patch, merge(needs.get(need.patch), need)); };
  for (const patch of patchNumbers(counts, plan.positions)) {
    const need: Need = { patch, position: patchPosition(counts, patch), start, target: level, tier, want, focus };
    if (slice === null) add(need);
    else if (level < start && (needs.get(patch)?.target ?? Infinity) > level) {
      const { cells, has } = subject.slices!;
      if (has(patch, level)) {
        add({ ...need, start: level });
        continue;
      }
      const first = cells.within(slice, level);
      const box = levelBox(cells.boxOf(first + patch), level);
      // The second of the two planes may lie in other patches.
      if (isEmpty(box)) continue;
      windows.add(first);
      add({ ...need, patch: first + patch, start: level, samples: volume(shapeOf(box)) });
    }
  }
}

/** @param budget  for bricks of this source [bytes] */
export function needsOf(subject: Subject, wants: readonly Want[], tier: Tier, budget: number): Needs {
  let cut = false;
  const plans = wants.flatMap((want, index): Plan[] => {
    if (want.tier !== tier) return [];
    const positions = positionsOf(subject, want, kMostPatches);
    cut ||= volume(shapeOf(positions)) < volume(shapeOf(patchesMeeting(subject, want.box)));
    return plansOf(subject, want, index, positions);
  });
  const wished = plans.reduce((sum, one) => sum + bytesOf(subject, one), 0);
  const { bytes, limited } = fit(subject, plans, budget);
  const needs = new Map<number, Need>();
  const windows = new Set<number>();
  for (const plan of plans) if (plan.slice === null) addNeeds(subject, needs, windows, plan, tier);
  for (const plan of plans) if (plan.slice !== null) addNeeds(subject, needs, windows, plan, tier);
  return { patches: needs, windows: [...windows], bytes, wished, limited: limited || cut };
}

export function sameWants(a: readonly Want[], b: readonly Want[]): boolean {
  return a.length === b.length && a.every((one, i) => {
    const other = b[i]!;
    return one.level === other.level && one.tier === other.tier && sameVec(one.focus, other.focus) && sameBox(one.box, other.box)
      && one.slice?.error === other.slice?.error && one.slice?.axis === other.slice?.axis && one.slice?.index === other.slice?.index;
  });
}
