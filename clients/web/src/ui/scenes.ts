/** Scenes from fields and colours. */
import type { BrickSource, ColourState, ViewState } from "../model";
import { isDiverging } from "../render/colourmaps";
import type { Bricks, Scale } from "../render/compose";
import { Difference, whyNotComparable } from "../render/difference";
import type { Legend } from "../render/legend";
import type { Scene } from "../render/views";
import type { Side } from "./panes";

function grown(low: number, high: number): Scale {
  return high > low ? { low, high } : { low: low - (Math.abs(low) || 1) * 0.5, high: high + (Math.abs(high) || 1) * 0.5 };
}

/** Maps with a neutral middle put it on zero where the values have both signs. */
export function fullRange(map: string, low: number, high: number): Scale {
  const far = Math.max(Math.abs(low), Math.abs(high));
  return isDiverging(map) && low < 0 && high > 0 ? { low: -far, high: far } : grown(low, high);
}

export function rangeOf(colour: ColourState, source: BrickSource): Scale {
  const automatic = fullRange(colour.map, source.step.min, source.step.max);
  if (colour.mode === "step") return automatic;
  const low = colour.low ?? automatic.low;
  const high = colour.high ?? automatic.high;
  return high > low ? { low, high } : automatic;
}

export interface Feeds {
  readonly a: BrickSource | null;
  readonly b: BrickSource | null;
}

/** Caches unchanged scenes: their pictures continue. */
export class Scenes {
  private difference: Difference | null = null;

  /** The reason why there is no difference to show; null if there is one. */
  problem(feeds: Feeds): string | null {
    return feeds.a && feeds.b ? whyNotComparable(feeds.a.grid, feeds.b.grid) : null;
  }

  bricks(feeds: Feeds, side: Side): Bricks | null {
    if (side !== "difference") return feeds[side];
    if (!feeds.a || !feeds.b || this.problem(feeds) !== null) return null;
    if (this.difference?.first !== feeds.a || this.difference.second !== feeds.b)
      this.difference = new Difference(feeds.a, feeds.b);
    return this.difference;
  }

  scene(feeds: Feeds, side: Side, state: ViewState): Scene | null {
    const bricks = this.bricks(feeds, side);
    const { a, b } = feeds;
    if (!bricks) return null;
    if (side === "difference") {
      const far = Math.max(Math.abs(a!.step.max - b!.step.min), Math.abs(b!.step.max - a!.step.min)) || 1;
      const shown = this.difference!.largest() || far;
      return {
        bricks,
        scale: { low: -far, high: far },
        hasMissing: a!.step.hasMissing || b!.step.hasMissing,
        low: -shown,
        high: shown,
        map: "balance",
      };
    }
    const source = feeds[side]!;
    const alike = side === "b" && a?.field.stored === source.field.stored && a.field.unit === source.field.unit;
    const range =
      side === "a" || alike ? rangeOf(state.colour, a ?? source) : fullRange(state.colour.map, source.step.min, source.step.max);
    return {
      bricks,
      scale: { low: source.step.min, high: source.step.max },
      hasMissing: source.step.hasMissing,
      ...range,
      map: state.colour.map,
    };
  }

  legend(feeds: Feeds, side: Side, scene: Scene): Legend {
    const source = side === "b" ? feeds.b : feeds.a;
    const damaged = (feeds.a?.status.damagedPatches ?? 0) + (side === "a" ? 0 : (feeds.b?.status.damagedPatches ?? 0)) > 0;
    return {
      title: side === "difference" ? "difference" : (source?.field.name ?? ""),
      unit: source?.field.unit ?? "",
      low: scene.low,
      high: scene.high,
      map: scene.map,
      missing: scene.hasMissing,
      damaged,
    };
  }
}

/** The contents of the stage. */
export interface StageInput {
  readonly state: ViewState;
  readonly feeds: Feeds;
  readonly scenes: Scenes;
  readonly moving: boolean;
}
