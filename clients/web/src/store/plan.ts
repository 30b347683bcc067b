/** From needs to questions: which boxes, which levels, in which order. Pure. */
import { intersect, mapVec, samplesOf, shapeOf, volume } from "../geometry";
import type { Box, GridInfo, Vec3 } from "../model";
import type { Cells, Window } from "./cells";
import type { Need } from "./needs";

export interface Question {
  /** Level-0 samples: whole patches, or their parts in a window. */
  readonly box: Box;
  /** The window whose samples a server codes; null: whole patches, as stored. */
  readonly window: Window | null;
  /** Coarsest level and the finest. */
  readonly first: number;
  readonly level: number;
  /** Patches or parts of them to ask for; the box may have others, which are there already. */
  readonly patches: readonly number[];
  readonly focus: Vec3;
  /** Number of the want that it serves first. */
  readonly want: number;
}

interface Group {
  readonly needs: readonly Need[];
  /** Patch positions. */
  readonly box: Box;
  /** Patches of the box that are not in the group. */
  readonly waste: number;
}

function union(a: Box, b: Box): Box {
  return { begin: mapVec((i) => Math.min(a.begin[i], b.begin[i])), end: mapVec((i) => Math.max(a.end[i], b.end[i])) };
}

function bounding(needs: readonly Need[]): Box {
  const first = needs[0]!.position;
  const [begin, end] = [[...first], first.map((i) => i + 1)];
  for (const { position } of needs) {
    for (let a = 0; a < 3; ++a) {
      begin[a] = Math.min(begin[a]!, position[a]!);
      end[a] = Math.max(end[a]!, position[a]! + 1);
    }
  }
  return { begin: mapVec((a) => begin[a]!), end: mapVec((a) => end[a]!) };
}

function group(needs: readonly Need[]): Group {
  const box = bounding(needs);
  return { needs, box, waste: volume(shapeOf(box)) - needs.length };
}

/** Bounding boxes of the needs below and above each plane across an axis, as volumes. */
function cutVolumes(whole: Group, axis: 0 | 1 | 2): { at: number; sum: number } | null {
  const [from, to] = [whole.box.begin[axis], whole.box.end[axis]];
  if (to - from < 2) return null;
  const slabs: Need[][] = Array.from({ length: to - from }, () => []);
  for (const need of whole.needs) slabs[need.position[axis] - from]!.push(need);
  const sweep = (order: readonly Need[][]): number[] => {
    const volumes: number[] = [];
    let box: Box | null = null;
    for (const slab of order) {
      if (slab.length > 0) {
        const next: Box = bounding(slab);
        box = union(box ?? next, next);
      }
      volumes.push(box === null ? 0 : volume(shapeOf(box)));
    }
    return volumes;
  };
  const below = sweep(slabs);
  const above = sweep(slabs.reverse()).reverse();
  let best: { at: number; sum: number } | null = null;
  for (let i = 1; i < to - from; ++i) {
    const sum = below[i - 1]! + above[i]!;
    if (best === null || sum < best.sum) best = { at: from + i, sum };
  }
  return best;
}

function split(whole: Group): readonly [Group, Group] | null {
  let best: { axis: 0 | 1 | 2; at: number; sum: number } | null = null;
  for (const axis of [0, 1, 2] as const) {
    const cut = cutVolumes(whole, axis);
    if (cut !== null && (best === null || cut.sum < best.sum)) best = { axis, ...cut };
  }
  if (best === null) return null;
  const { axis, at } = best;
  const isBelow = (one: Need): boolean => one.position[axis] < at;
  return [group(whole.needs.filter(isBelow)), group(whole.needs.filter((one) => !isBelow(one)))];
}

/** Questions about one layer, at most. */
const kMostBoxes = 12;

/** Boxes that hold all needs and little else: the most wasteful one is cut. */
function boxesOf(needs: readonly Need[]): Group[] {
  const groups = [group(needs)];
  while (groups.length < kMostBoxes) {
    const worst = groups.reduce((best, one, i) => (one.waste > groups[best]!.waste ? i : best), 0);
    const parts = groups[worst]!.waste === 0 ? null : split(groups[worst]!);
    if (parts === null) break;
    groups.splice(worst, 1, ...parts);
  }
  return groups;
}

/** Levels that the same patches need. */
interface Layer {
  readonly first: number;
  level: number;
  readonly needs: readonly Need[];
}

/**
 * Patches that lack several levels have them in one answer, which decodes each level once. Where some of the patches of a
 * layer lack no finer level, the others have those in a layer of their own: it waits for the picture of the coarser one.
 */
function layersOf(needs: readonly Need[], levels: number, has: (patch: number, level: number) => boolean): Layer[] {
  const layers: Layer[] = [];
  for (let level = levels - 1; level >= 0; --level) {
    const missing = new Set(needs.filter((need) => need.target <= level && level <= need.start && !has(need.patch, level)));
    for (const layer of layers) {
      if (layer.level !== level + 1 || !layer.needs.every((need) => missing.has(need))) continue;
      layer.level = level;
      for (const need of layer.needs) missing.delete(need);
    }
    if (missing.size > 0) layers.push({ first: level, level, needs: [...missing] });
  }
  return layers;
}

/** The needs of whole patches, and of each window. */
function byWindow(needs: Iterable<Need>, cells: Cells | null): Map<Window | null, Need[]> {
  const groups = new Map<Window | null, Need[]>();
  for (const need of needs) {
    const window = need.samples === undefined ? null : cells!.windowOf(need.patch);
    const some = groups.get(window);
    if (some === undefined) groups.set(window, [need]);
    else some.push(need);
  }
  return groups;
}

/** The samples of patches at some positions, or of their parts. */
function boxIn(grid: Pick<GridInfo, "dims" | "patch">, positions: Box, window: Window | null): Box {
  const box = samplesOf(grid, positions);
  return window === null ? box : intersect(box, window.box);
}

/**
 * Coarse layers come first; within a layer, the boxes of earlier wants.
 * @param has    whether a cell's level is in memory or on its way
 * @param cells  null: all needs are of whole patches
 */
export function plan(grid: Pick<GridInfo, "dims" | "patch" | "levels">, needs: Iterable<Need>,
                     has: (patch: number, level: number) => boolean, cells: Cells | null = null): Question[] {
  const questions = [...byWindow(needs, cells)].flatMap(([window, some]) => layersOf(some, grid.levels, has).flatMap(
    ({ first, level, needs: missing }) => boxesOf(missing).map((one): Question => {
      const { focus, want } = one.needs.reduce((a, b) => (b.want < a.want ? b : a));
      return { box: boxIn(grid, one.box, window), window, first, level, patches: one.needs.map((need) => need.patch), focus, want };
    })));
  return questions.sort((a, b) => b.first - a.first || a.want - b.want);
}

/** Two halves of a question about several patches, to find the one that cannot be answered. */
export function halves(grid: Pick<GridInfo, "dims" | "patch">, question: Question, needs: readonly Need[]): Question[] {
  const box = bounding(needs);
  const shape = shapeOf(box);
  const axis = ([0, 1, 2] as const).reduce((a, b) => (shape[b] > shape[a] ? b : a));
  const at = box.begin[axis] + Math.ceil(shape[axis] / 2);
  const sides = [needs.filter((one) => one.position[axis] < at), needs.filter((one) => one.position[axis] >= at)];
  return sides.filter((side) => side.length > 0).map((side) => ({
    ...question, box: boxIn(grid, bounding(side), question.window), patches: side.map((need) => need.patch),
  }));
}
