import { levelBox, sameVec, thin } from "../geometry";
import type { Brick, GridInfo, Vec3 } from "../model";
import { niceStep } from "./axes";
import type { Bricks } from "./compose";

/** Why two fields cannot be subtracted; null if they can. */
export function whyNotComparable(a: GridInfo, b: GridInfo): string | null {
  if (!sameVec(a.dims, b.dims))
    return `grids of ${a.dims.join(" x ")} and ${b.dims.join(" x ")} samples have no difference; show them side by side`;
  if (!sameVec(a.patch, b.patch) || a.levels !== b.levels)
    return (
      `the datasets are cut into different patches, of ${a.patch.join(" x ")} and ${b.patch.join(" x ")} samples; `
      + "show them side by side"
    );
  return null;
}

function coarser(brick: Brick, level: number): Brick {
  if (brick.level === level) return brick;
  return thin("float64", brick, level, levelBox(brick.box, level - brick.level));
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

  readonly grid: GridInfo;
  readonly patches: Vec3;

  constructor(
    readonly first: Bricks,
    readonly second: Bricks,
  ) {
    ({ grid: this.grid, patches: this.patches } = first);
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
    const samples = Float64Array.from(x.samples, (value, i) => value - y.samples[i]!);
    const validity = both(x.validity, y.validity);
    const result: Brick = { patch, level, box: x.box, damaged: a.damaged || b.damaged, samples, validity };
    this.kept.set(patch, { a, b, result, far: farthest(samples, validity) });
    return result;
  }
}
