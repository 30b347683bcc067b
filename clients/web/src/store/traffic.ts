/** Bytes that have come for the visible wants, and their expected total; and the quality of the levels that came. */
import { patchesMeeting, shapeOf, volume } from "../geometry";
import type { FieldStepInfo, GridInfo } from "../model";
import type { HeaderLevel } from "../reading";
import type { Entry, Holdings } from "./memory";
import type { Need } from "./needs";
import type { Question } from "./plan";
import type { Shown } from "./progress";

export class Traffic {
  /** Average payload of a patch at each level: of all patches at first, then of the latest requests. */
  private readonly average: number[];
  /** For each level: patches that need it and do not show it. */
  private readonly open: Int32Array;
  /** Samples of the parts of patches that are needed and not shown. */
  private openSamples = 0;
  /** Coded bytes and samples of the parts that came; half a byte a sample before any. */
  private coded = { bytes: 1, samples: 2 };
  private got = 0;
  private qualities: ({ maxError: number; coverage: number } | undefined)[] = [];

  /** @param patchBytes  of samples at level 0 where servers decode; null where payload comes */
  constructor(step: FieldStepInfo, patches: number, private readonly patchBytes: number | null) {
    const most = Math.max(1, patches);
    this.average = step.levels.map(({ bytes }, level) => (patchBytes === null ? bytes / most : patchBytes / 8 ** level));
    this.open = new Int32Array(step.levels.length);
  }

  get received(): number {
    return this.got;
  }

  get expected(): number {
    const parts = (this.openSamples * this.coded.bytes) / this.coded.samples;
    return this.got + Math.ceil(this.average.reduce((sum, bytes, level) => sum + bytes * this.open[level]!, parts));
  }

  /** Quality of the undamaged bricks at a level. */
  quality(level: number): { readonly maxError: number; readonly coverage: number } | null {
    return this.qualities[level] ?? null;
  }

  measure(levels: readonly HeaderLevel[], question: Question, grid: GridInfo): void {
    if (question.window !== null) return;
    const patches = Math.max(1, volume(shapeOf(patchesMeeting(grid, question.box))));
    const whole = volume(grid.patch);
    for (const { level, bytes, box } of levels) {
      const all = this.patchBytes === null ? bytes : (volume(shapeOf(box)) * this.patchBytes) / whole;
      this.average[level] = all / patches;
    }
  }

  restart(needs: ReadonlyMap<number, Need>, holdings: Holdings, shown: Shown): void {
    this.open.fill(0);
    this.got = this.openSamples = 0;
    this.qualities = [];
    for (const need of needs.values()) {
      this.count(need, shown(need.patch, need.target), 1);
      for (let level = need.target; level < this.open.length; ++level) {
        const entry = holdings.get(need.patch, level);
        if (entry !== null) this.take(entry);
      }
    }
  }

  /** A need shows another level than before. */
  change(need: Need, before: number, after: number): void {
    this.count(need, before, -1);
    this.count(need, after, 1);
  }

  /** An entry of a need has come. */
  take(entry: Entry): void {
    this.got += entry.payload;
    const { level, damaged, part, samples } = entry.brick;
    if (part !== undefined) this.coded = { bytes: this.coded.bytes + entry.payload, samples: this.coded.samples + samples.length };
    if (damaged) return;
    const old = this.qualities[level];
    this.qualities[level] = {
      maxError: Math.max(old?.maxError ?? 0, entry.maxError), coverage: Math.min(old?.coverage ?? 1, entry.coverage),
    };
  }

  /** It is gone. */
  lose(entry: Entry): void {
    this.got -= entry.payload;
  }

  private count(need: Need, shown: number, by: number): void {
    if (need.samples !== undefined) {
      if (shown > need.target) this.openSamples += by * need.samples;
      return;
    }
    for (let level = need.target; level <= need.start && level < this.open.length; ++level) {
      if (shown > level) this.open[level]! += by;
    }
  }
}
