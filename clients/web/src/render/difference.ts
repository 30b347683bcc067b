import type { Brick, GridInfo, Samples, Vec3 } from "../model";
import { niceStep } from "./axes";
import type { Bricks } from "./compose";

/** Why two fields cannot be subtracted; null if they can. */
export function whyNotComparable(a: GridInfo, b: GridInfo): string | null {
  if ([0, 1, 2].some((i) => a.dims[i] !== b.dims[i]))
    return `grids of ${a.dims.join(" x ")} and ${b.dims.join(" x ")} samples have no difference; show them side by side`;
  if ([0, 1, 2].some((i) => a.patch[i] !== b.patch[i]) || a.levels !== b.levels)
    return (
      `the datasets are cut into different patches, of ${a.patch.join(" x ")} and ${b.patch.join(" x ")} samples; `
      + "show them side by side"
    );
  return null;
}

function coarser(brick: Brick, level: number): Brick {
  if (brick.level === level) return brick;
  const step = 2 ** (level - brick.level);
  const from = brick.box;
  const begin = from.begin.map((b) => Math.ceil(b / step)) as unknown as Vec3;
  const end = from.end.map((e) => Math.ceil(e / step)) as unknown as Vec3;
  const [nx, ny] = [from.end[0] - from.begin[0], from.end[1] - from.begin[1]];
  const size = (end[0] - begin[0]) * (end[1] - begin[1]) * (end[2] - begin[2]);
  const samples = new Float64Array(size);
  const validity = brick.validity ? new Uint8Array(size) : null;
  let to = 0;
  for (let z = begin[2]; z < end[2]; ++z)
    for (let y = begin[1]; y < end[1]; ++y)
      for (let x = begin[0]; x < end[0]; ++x, ++to) {
        const at = x * step - from.begin[0] + nx * (y * step - from.begin[1] + ny * (z * step - from.begin[2]));
        samples[to] = brick.samples[at]!;
        if (validity) validity[to] = brick.validity![at]!;
      }
  return { ...brick, level, box: { begin, end }, samples, validity };
}

function subtract(a: Samples, b: Samples): Float64Array {
  return Float64Array.from(a, (value, i) => value - b[i]!);
}

function farthest(samples: Float64Array, validity: Uint8Array | null): number {
  let far = 0;
  for (let i = 0; i < samples.length; ++i) if (validity?.[i] !== 0 && Math.abs(samples[i]!) > far) far = Math.abs(samples[i]!);
  return far;
}

function both(a: Uint8Array | null, b: Uint8Array | null): Uint8Array | null {
  if (!a || !b) return a ?? b;
  return Uint8Array.from(a, (valid, i) => valid & b[i]!);
}

/** First minus second, of the same patches, at the coarser of their levels. */
export class Difference implements Bricks {
  private readonly kept = new Map<
    number,
    { readonly a: Brick; readonly b: Brick; readonly result: Brick; readonly far: number }
  >();

  constructor(
    readonly first: Bricks,
    readonly second: Bricks,
  ) {}

  get grid(): GridInfo {
    return this.first.grid;
  }

  get patches(): Vec3 {
    return this.first.patches;
  }

  get damaged(): ReadonlySet<number> {
    return new Set([...(this.first.damaged ?? []), ...(this.second.damaged ?? [])]);
  }

  /** The largest difference of all requested patches, rounded up to one digit and a half; 0 before any. */
  largest(): number {
    let most = 0;
    for (const { far } of this.kept.values()) most = Math.max(most, far);
    return most > 0 ? Math.ceil(most / (niceStep(most, 10) / 2)) * (niceStep(most, 10) / 2) : 0;
  }

  best(patch: number, finest: number): Brick | null {
    const a = this.first.best(patch, finest);
    const b = this.second.best(patch, finest);
    if (!a || !b) return null;
    const kept = this.kept.get(patch);
    if (kept?.a === a && kept.b === b) return kept.result;
    const level = Math.max(a.level, b.level);
    const [x, y] = [coarser(a, level), coarser(b, level)];
    const samples = subtract(x.samples, y.samples);
    const validity = both(x.validity, y.validity);
    const result: Brick = { patch, level, box: x.box, damaged: a.damaged || b.damaged, samples, validity };
    this.kept.set(patch, { a, b, result, far: farthest(samples, validity) });
    return result;
  }
}
