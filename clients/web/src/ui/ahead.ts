import type { BrickSource, Selection, Source, Want } from "../model";
import type { Opened } from "./session";

/** The step that comes next while steps are played: its bricks are asked for when nothing on screen needs any more. */
export class Ahead {
  private source: BrickSource | null = null;

  ask(from: Source, opened: Opened, selection: Selection, wants: readonly Want[]): void {
    if (
      this.source?.selection.step !== selection.step
      || this.source.selection.field !== selection.field
      || this.source.info !== opened.info
    ) {
      this.close();
      this.source = from.bricks(opened, selection);
    }
    this.source.want(wants.map((want) => ({ ...want, tier: "prefetch" })));
  }

  close(): void {
    this.source?.close();
    this.source = null;
  }
}
