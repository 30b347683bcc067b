/** Blocks of samples to bricks: whole patches, as far as they lie in the box of the answer. Blocks may be parts of a patch, or lie in several. */
import { intersect, isEmpty, levelBox, mapVec, newSamples, patchBox, patchCounts, patchNumbers, shapeOf,
         volume } from "../geometry";
import type { Box, Brick, FieldInfo, GridInfo, Samples } from "../model";
import { copyBox, validityOf } from "./samples";

/** Samples of a box of a level, and parts of it that show something rougher, for damaged payload. */
export interface Block {
  readonly box: Box;
  readonly damaged: readonly Box[];
  readonly samples: Samples;
}

interface Part {
  readonly box: Box;
  readonly samples: Samples;
  left: number;
  damaged: boolean;
}

export class Assembler {
  private readonly parts = new Map<number, Part>();

  /** @param box  of the answer, in level-0 samples */
  constructor(private readonly grid: GridInfo, private readonly field: FieldInfo, private readonly box: Box) {}

  /** Returns the bricks that are now whole. The blocks lie in the grid. */
  add(level: number, block: Block): Brick[] {
    const done: Brick[] = [];
    for (const patch of this.patchesOf(block.box, level)) this.fill(patch, level, block, done);
    return done;
  }

  private patchesOf(box: Box, level: number): Generator<number> {
    const scale = (a: 0 | 1 | 2): number => this.grid.patch[a] / 2 ** level;
    return patchNumbers(patchCounts(this.grid), {
      begin: mapVec((a) => Math.floor(box.begin[a] / Math.max(1, scale(a)))),
      end: mapVec((a) => Math.ceil(box.end[a] / Math.max(1, scale(a)))),
    });
  }

  private fill(patch: number, level: number, block: Block, done: Brick[]): void {
    const box = this.parts.get(patch)?.box ?? levelBox(intersect(patchBox(this.grid, patch), this.box), level);
    if (isEmpty(intersect(box, block.box))) return;
    let part = this.parts.get(patch);
    if (part === undefined) {
      const count = volume(shapeOf(box));
      part = { box, samples: newSamples(this.field.type, count), left: count, damaged: false };
      this.parts.set(patch, part);
    }
    part.left -= copyBox(block.samples, block.box, part.samples, box);
    part.damaged ||= block.damaged.some((one) => !isEmpty(intersect(one, box)));
    if (part.left > 0) return;
    this.parts.delete(patch);
    const validity = validityOf(part.samples, this.field.fill);
    done.push({ patch, level, box, damaged: part.damaged, samples: part.samples, validity });
  }
}
