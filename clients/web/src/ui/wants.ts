import { shapeOf, volume } from "../geometry";
import type { Box, GridInfo, Vec3, Want } from "../model";
import type { View } from "../render/views";

/** The samples of a slice at a level: those in its plane, or the two planes around it. */
export function sliceBox(grid: GridInfo, axis: number, index: number, clip: Box, level: number): Box {
  const step = 2 ** level;
  const begin: [number, number, number] = [...clip.begin];
  const end: [number, number, number] = [...clip.end];
  begin[axis] = Math.floor(index / step) * step;
  end[axis] = Math.min(grid.dims[axis as 0 | 1 | 2], index % step === 0 ? index + 1 : begin[axis] + step + 1);
  return { begin, end };
}

/** Needs of the views: slices first, as people read values there; while something moves, two levels less. */
export function wantsOf(views: readonly View[], focus: Vec3, moving: boolean): readonly Want[] {
  const wants: Want[] = [];
  for (const view of views) {
    const { grid } = view.scene.bricks;
    const level = Math.min(grid.levels - 1, view.level + (moving ? 2 : 0));
    const box = view.kind === "slice" ? sliceBox(grid, view.axis, view.index, view.clip, level) : view.clip;
    wants.push({ box, level, focus, tier: "visible" });
    // Patches that stay coarse mix their last samples with the first of the patch behind the slice.
    const coarse = view.kind === "slice" ? sliceBox(grid, view.axis, view.index, view.clip, grid.levels - 1) : box;
    if (coarse.end.some((end, a) => Math.ceil(end / grid.patch[a]!) > Math.ceil(box.end[a]! / grid.patch[a]!)))
      wants.push({ box: coarse, level: grid.levels - 1, focus, tier: "prefetch" });
  }
  return wants.sort((a, b) => volume(shapeOf(a.box)) - volume(shapeOf(b.box)));
}
