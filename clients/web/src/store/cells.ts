/** Numbers of what bricks hold: of whole patches, and from there on of their parts around slices. */
import { intersect, patchBox, patchCounts, sliceBox, volume, wholeGrid } from "../geometry";
import type { Box, GridInfo, Slice } from "../model";

/** The samples of a level around a slice, which servers code within an error. */
export interface Window {
  readonly level: number;
  /** Level-0 samples: all of the grid along the slice. */
  readonly box: Box;
  readonly error: number;
}

/** Part of patch p in window w, counted from 0, is cell p + (w + 1) patches. Windows stay: their bricks come and go. */
export class Cells {
  private readonly windows: Window[] = [];
  /** Windows of one box and level, the latest first, whose error is the smallest. */
  private readonly ofBox = new Map<string, number[]>();
  private readonly patches: number;

  constructor(private readonly grid: Pick<GridInfo, "dims" | "patch">) {
    this.patches = volume(patchCounts(grid));
  }

  patchOf(cell: number): number {
    return cell % this.patches;
  }

  /** Null for a whole patch. */
  windowOf(cell: number): Window | null {
    return this.windows[Math.floor(cell / this.patches) - 1] ?? null;
  }

  /** Level-0 samples. */
  boxOf(cell: number): Box {
    const whole = patchBox(this.grid, this.patchOf(cell));
    const window = this.windowOf(cell);
    return window === null ? whole : intersect(whole, window.box);
  }

  /** The first cells of the windows around a slice, those of the smallest error first. */
  around(slice: Slice, level: number): readonly number[] {
    return this.windows.length === 0 ? [] : (this.ofBox.get(this.key(slice, level)) ?? []);
  }

  /** The first cell of a window around a slice, within an error. */
  within(slice: Slice & { readonly error: number }, level: number): number {
    const firsts = [...this.around(slice, level)];
    if (!(firsts.length > 0 && this.windowOf(firsts[0]!)!.error <= slice.error)) {
      this.windows.push({ level, box: sliceBox(this.grid, slice, wholeGrid(this.grid), level), error: slice.error });
      firsts.unshift(this.windows.length * this.patches);
      this.ofBox.set(this.key(slice, level), firsts);
    }
    return firsts[0]!;
  }

  /** Slices between the same planes of samples have the same window. */
  private key(slice: Slice, level: number): string {
    const step = 2 ** level;
    return [slice.axis, level, Math.floor(slice.index / step), slice.index % step === 0].join();
  }
}
