/** From wants to the patches and levels that they need, within a budget. Pure. */
import type { DatasetInfo, FieldInfo, Vec3, Want } from "../model";
import { distance2, levelBox, levelBytes, mapVec, patchBox, patchCounts, patchesMeeting, patchNumbers, patchPosition, samplesOf,
         shapeOf, volume } from "./geometry";

export type Tier = Want["tier"];

export interface Need {
  readonly patch: number;
  readonly position: Vec3;
  /** Coarsest level that is worth asking for, and the finest. */
  readonly start: number;
  readonly target: number;
  readonly tier: Tier;
  /** Number of the first want that needs it, and its focus. */
  readonly want: number;
  readonly focus: Vec3;
}

export interface Needs {
  readonly patches: ReadonlyMap<number, Need>;
  /** Of the bricks. [bytes] */
  readonly bytes: number;
  /** A want is coarser than asked for, or has fewer patches, because more does not fit. */
  readonly limited: boolean;
}

/** So much of a want is a first picture; coarser levels than this are not worth their messages. */
const kFirstSamples = 32 ** 3;
/** Most patches of a source: above, those far from the focus are left out. */
export const kMostPatches = 2 ** 17;
/** What a brick takes besides its samples, roughly. [bytes] */
export const kBrickOverhead = 256;

export type Subject = Pick<DatasetInfo, "dims" | "patch" | "levels"> & { readonly field: Pick<FieldInfo, "type">; readonly hasMissing: boolean };

/** Memory of a brick. */
export function brickBytes(subject: Subject, patch: number, level: number): number {
  const box = patchBox(subject, patch);
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
function positionsOf(subject: Subject, want: Want, most: number): { patches: number[]; cut: boolean } {
  const counts = patchCounts(subject);
  const all = patchesMeeting(subject, want.box);
  const total = volume(shapeOf(all));
  if (total <= most) return { patches: [...patchNumbers(counts, all)], cut: false };
  const centre = mapVec((a) => Math.floor(want.focus[a] / subject.patch[a]));
  let [low, high] = [0, Math.max(...shapeOf(all)) * 2];
  const around = (radius: number): typeof all => ({
    begin: mapVec((a) => Math.min(all.end[a] - 1, Math.max(all.begin[a], centre[a] - radius))),
    end: mapVec((a) => Math.max(all.begin[a] + 1, Math.min(all.end[a], centre[a] + radius + 1))),
  });
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (volume(shapeOf(around(middle))) <= most) low = middle;
    else high = middle;
  }
  return { patches: [...patchNumbers(counts, around(low))], cut: true };
}

interface Plan {
  readonly want: Want;
  readonly patches: readonly number[];
  readonly start: number;
  level: number;
}

function bytesOf(subject: Subject, plan: Plan): number {
  let sum = 0;
  for (let level = plan.level; level <= plan.start; ++level)
    for (const patch of plan.patches) sum += brickBytes(subject, patch, level);
  return sum;
}

/** Makes the most expensive want coarser until all fit; then drops the last ones. */
function fit(subject: Subject, plans: Plan[], budget: number): boolean {
  const costs = plans.map((plan) => bytesOf(subject, plan));
  let limited = false;
  for (;;) {
    const total = costs.reduce((a, b) => a + b, 0);
    if (total <= budget) return limited;
    limited = true;
    const at = costs.reduce((best, cost, i) => (plans[i]!.level < plans[i]!.start && cost > (costs[best] ?? -1) ? i : best), -1);
    if (at < 0) break;
    const plan = plans[at]!;
    ++plan.level;
    costs[at] = bytesOf(subject, plan);
  }
  return true;
}

function isFiner(a: Need, b: Need): boolean {
  return a.target < b.target || (a.target === b.target && a.start > b.start);
}

function merge(old: Need | undefined, next: Need): Need {
  if (old === undefined) return next;
  if (!isFiner(next, old)) return old.start >= next.start ? old : { ...old, start: next.start };
  return { ...old, target: next.target, start: Math.max(old.start, next.start) };
}

/** @param budget  for bricks of this source [bytes] */
export function needsOf(subject: Subject, wants: readonly Want[], tier: Tier, budget: number): Needs {
  let limited = false;
  const plans = wants.flatMap((want, i): (Plan & { index: number })[] => {
    if (want.tier !== tier) return [];
    const { patches, cut } = positionsOf(subject, want, kMostPatches);
    limited ||= cut;
    const level = Math.max(0, Math.min(subject.levels - 1, Math.floor(want.level)));
    return [{ want, patches, start: startLevel(subject, { ...want, level }), level, index: i }];
  });
  limited = fit(subject, plans, budget) || limited;
  const counts = patchCounts(subject);
  const needs = new Map<number, Need>();
  for (const { want, patches, start, level, index } of plans) {
    for (const patch of patches) {
      const position = patchPosition(counts, patch);
      needs.set(patch, merge(needs.get(patch), { patch, position, start, target: level, tier, want: index, focus: want.focus }));
    }
  }
  return within(subject, needs, budget, limited);
}

function within(subject: Subject, needs: Map<number, Need>, budget: number, limited: boolean): Needs {
  const cost = (need: Need): number => {
    let sum = 0;
    for (let level = need.target; level <= need.start; ++level) sum += brickBytes(subject, need.patch, level);
    return sum;
  };
  let bytes = 0;
  for (const need of needs.values()) bytes += cost(need);
  if (bytes <= budget) return { patches: needs, bytes, limited };
  const far = [...needs.values()].map((need) => ({ need, far: distance2(patchBox(subject, need.patch), need.focus) }));
  far.sort((a, b) => a.far - b.far);
  for (let i = far.length; bytes > budget && i-- > 0;) {
    bytes -= cost(far[i]!.need);
    needs.delete(far[i]!.need.patch);
  }
  return { patches: needs, bytes, limited: true };
}
