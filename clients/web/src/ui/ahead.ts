import type { BrickSource, Opened, Selection, Source, Want } from "../model";
import { isOf, patchesOf } from "./session";

function isComplete(source: BrickSource, wants: readonly Want[]): boolean {
  return wants.every(({ box, level, slice }) => patchesOf(source, box).every((patch) => source.best(patch, level, slice)?.level === level));
}

/** Prefetches the steps around the one on screen while steps are played, once everything on screen is complete. */
export class Ahead {
  private next: BrickSource | null = null;
  private before: BrickSource | null = null;
  private askBefore: () => void = () => undefined;

  /** @param before  for a step back: often still in memory, and requested only once all of the next step is there */
  ask(from: Source, opened: Opened, next: Selection, before: Selection | null, wants: readonly Want[]): void {
    const later = wants.map((want): Want => ({ ...want, tier: "prefetch" }));
    if (!isOf(this.next, opened, next)) this.open(from.bricks(opened, next));
    this.askBefore = () => {
      // Until then its bricks must not be held: the next step has their memory if there is no other.
      if (!before || !this.next || !isComplete(this.next, later)) this.before?.want([]);
      else (this.before ??= from.bricks(opened, before)).want(later);
    };
    this.next!.want(later);
    this.askBefore();
  }

  private open(next: BrickSource): void {
    this.close();
    this.next = next;
    next.subscribe(() => {
      this.askBefore();
    });
  }

  close(): void {
    this.next?.close();
    this.before?.close();
    this.next = this.before = null;
  }
}
