import { shapeOf, sliceBox, volume } from "../geometry";
import type { SampleType, Vec3, Want } from "../model";
import type { Scene, View } from "../render/views";

/**
 * The error that coding may add to slices: of 256 colours no more than one, and nothing to integers, which may be labels. A
 * power of two, so that another range of colours seldom asks again.
 */
export function codingError({ low, high }: Pick<Scene, "low" | "high">, type: SampleType): number {
  return type.startsWith("float") && high > low ? 2 ** Math.floor(Math.log2((high - low) / 256)) : 0;
}

/**
 * Needs of the views: slices first, as people read values there; while something moves, two levels less of whole patches, as
 * the next slices need them too.
 * @param coded  the type of samples whose slices may be coded; null: samples as stored
 */
export function wantsOf(views: readonly View[], focus: Vec3, moving: boolean, coded: SampleType | null): readonly Want[] {
  const wants: Want[] = [];
  for (const view of views) {
    const { grid } = view.scene.bricks;
    const level = Math.min(grid.levels - 1, view.level + (moving ? 2 : 0));
    const box = view.kind === "slice" ? sliceBox(grid, view, view.clip, level) : view.clip;
    const want: Want = { box, level, focus, tier: "visible" };
    if (view.kind === "volume" || moving || coded === null) wants.push(want);
    else wants.push({ ...want, slice: { axis: view.axis, index: view.index, error: codingError(view.scene, coded) } });
    // Patches that stay coarse mix their last samples with the first of the patch behind the slice.
    const coarse = view.kind === "slice" ? sliceBox(grid, view, view.clip, grid.levels - 1) : box;
    if (coarse.end.some((end, a) => Math.ceil(end / grid.patch[a]!) > Math.ceil(box.end[a]! / grid.patch[a]!)))
      wants.push({ box: coarse, level: grid.levels - 1, focus, tier: "prefetch" });
  }
  return wants.sort((a, b) => volume(shapeOf(a.box)) - volume(shapeOf(b.box)));
}
