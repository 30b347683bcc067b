/** Attributes in words, cut to what a page shows: they may be as long as a book. */
import type { Attribute, Attributes, AttributeValue, BrickSource, TextCoordinate } from "../model";
import { textOf } from "../model";
import { typeset } from "../render/axes";
import { cut, oneLine } from "./text";

const kMostText = 600;
const kMostItems = 12;
const kMostItemText = 80;
const kMostTitle = 200;
/** Limit for one owner. */
export const kMostRows = 200;

/** The fewest digits that tell a number from all others of its type. */
function numberText(value: number | bigint, type: string): string {
  if (typeof value === "bigint" || type !== "float32" || !Number.isFinite(value)) return typeset(String(value));
  let digits = 1;
  while (digits < 9 && Math.fround(Number(value.toPrecision(digits))) !== Math.fround(value)) ++digits;
  return typeset(String(Number(value.toPrecision(digits))));
}

function listText<T>(values: readonly T[], text: (value: T) => string): string {
  const shown = values.slice(0, kMostItems).map(text).join(", ");
  return values.length > kMostItems ? `${shown}, … (${values.length} values)` : shown;
}

export function valueText(value: AttributeValue): string {
  switch (value.kind) {
    case "text": return cut(value.text, kMostText);
    case "texts": return listText(value.texts, (text) => `"${cut(text, kMostItemText)}"`);
    case "numbers": return listText(value.numbers, (number) => numberText(number, value.type));
    case "json": return cut(value.json, kMostText);
  }
}

/** A text that is shown in one line; null for none, or an empty one. */
function lineOf(attributes: Attributes, name: string, most: number): string | null {
  const line = oneLine(textOf(attributes, name) ?? "", most);
  return line === "" ? null : line;
}

/** The descriptive name of a field, from its source; null without one. */
export function longName(attributes: Attributes, most = kMostTitle): string | null {
  return lineOf(attributes, "long_name", most);
}

/** The same, with its name among those that all agree on. */
export function fieldTitle(attributes: Attributes): string | null {
  const [long, standard] = [longName(attributes), lineOf(attributes, "standard_name", kMostTitle)];
  return long !== null && standard !== null ? `${long} (${standard})` : (long ?? standard);
}

export interface AttributeGroup {
  readonly title: string;
  readonly attributes: Attributes;
}

/** Texts as if they were attributes. */
function textGroups(title: string, texts: readonly TextCoordinate[]): readonly AttributeGroup[] {
  const row = ({ name, texts }: TextCoordinate): Attribute => ({ name, value: { kind: "texts", texts } });
  const own = texts.map(({ name, attributes }) => ({ title: `Text ${name}`, attributes }));
  return [{ title, attributes: texts.map(row) }, ...own];
}

/** Attributes of everything on screen; owners without attributes are left out. */
export function attributeGroups({ info, field, grid }: Pick<BrickSource, "info" | "field" | "grid">): readonly AttributeGroup[] {
  const groups: readonly AttributeGroup[] = [
    { title: `Field ${field.name}`, attributes: field.attributes },
    ...([0, 1, 2] as const).flatMap((axis) => [
      { title: `Axis ${grid.axisNames[axis]}`, attributes: grid.axisAttributes[axis] },
      ...textGroups(`Texts along ${grid.axisNames[axis]}`, grid.axisTexts[axis]),
    ]),
    { title: info.timeName === "" ? "Time" : `Time ${info.timeName}`, attributes: info.timeAttributes },
    { title: `Dataset ${info.name}`, attributes: info.attributes },
    ...textGroups("Texts of the dataset", info.texts),
  ];
  return groups.filter(({ attributes }) => attributes.length > 0);
}
