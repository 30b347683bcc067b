/** Progress of the wants, kept up to date brick by brick. */
import type { Need } from "./needs";

/** Finest level of a patch in memory that is not finer than the second number; Infinity where there is none. */
export type Shown = (patch: number, finest: number) => number;

export class Progress {
  /** For each level: needs that show less than it. */
  private readonly missing: Int32Array;
  private readonly finest: number;

  constructor(readonly levels: number, private readonly needs: ReadonlyMap<number, Need>, shown: Shown) {
    this.missing = new Int32Array(levels);
    let finest = Infinity;
    for (const need of needs.values()) {
      finest = Math.min(finest, need.target);
      this.count(need, shown(need.patch, need.target), 1);
    }
    this.finest = finest;
  }

  get target(): number | null {
    return Number.isFinite(this.finest) ? this.finest : null;
  }

  /** The finest level that is complete: wants that ask for less have all that they ask for. */
  get level(): number | null {
    if (this.target === null) return null;
    for (let level = this.finest; level < this.levels; ++level) if (this.missing[level] === 0) return level;
    return null;
  }

  /** A patch shows another level than before. */
  change(patch: number, before: number, after: number): void {
    const need = this.needs.get(patch);
    if (need === undefined || before === after) return;
    this.count(need, before, -1);
    this.count(need, after, 1);
  }

  get kind(): "cleared" | "missing" | "level" | "complete" {
    const { target, level } = this;
    if (target === null) return "cleared";
    if (level === null) return "missing";
    return level === target ? "complete" : "level";
  }

  private count(need: Need, shown: number, by: number): void {
    for (let level = 0; level < this.levels; ++level) {
      if (shown > Math.max(level, need.target)) this.missing[level]! += by;
    }
  }
}
