/** The layers of accuracy of a field, as a choice of its largest error. */
import type { BrickSource, Opened } from "../model";
import { levelOf } from "./captions";
import { fillSelect, setAttribute } from "./dom";
import type { Option } from "./dom";
import { storedName } from "./fields";
import { bytes, short, withUnit } from "./text";

/** The last layer first: its tolerance at the step on screen, and the stored bytes of the level there with all coarser ones. */
export function accuracyOptions(
  { info, steps }: Opened,
  name: string,
  shown: Pick<BrickSource, "selection" | "status"> | null,
): readonly Option[] {
  const stored = storedName(info, name);
  const fields = steps.find(({ step }) => step === shown?.selection.step)?.fields;
  return info.fields
    .filter((each) => each.stored === stored)
    .map((each) => {
      const found = fields?.get(each.name);
      const level = shown && found?.levels[levelOf(shown)];
      const which = each.name === stored ? "full" : `layer ${each.layer}`;
      if (!found || !level) return { value: each.name, text: which };
      const error = found.tolerance > 0 ? `±${withUnit(short(found.tolerance), each.unit)}` : "exact";
      return { value: each.name, text: `${error} · ${bytes(level.bytes)} · ${which}` };
    });
}

/** The name of the choice: errors have the unit of the field, and hold for its samples at full resolution. */
export function accuracyLabel(what: string, { info }: Opened, name: string, shown: Pick<BrickSource, "status"> | null): string {
  const unit = info.fields.find((each) => each.name === name)?.unit ?? "";
  return `${what}: largest error${unit === "" ? "" : ` in ${unit}`} at level 0, bytes down to level ${shown ? levelOf(shown) : 0}`;
}

/** False: there is nothing to choose. */
export function fillAccuracy(select: HTMLSelectElement, what: string, opened: Opened, name: string, shown: BrickSource | null): boolean {
  const options = accuracyOptions(opened, name, shown);
  fillSelect(select, options, name);
  for (const attribute of ["aria-label", "title"]) setAttribute(select, attribute, accuracyLabel(what, opened, name, shown));
  return options.length > 1;
}
