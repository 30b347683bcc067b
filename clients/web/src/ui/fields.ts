/** The fields of a dataset in lists. */
import type { DatasetInfo, FieldInfo } from "../model";
import { longName } from "./attributes";
import type { Option } from "./dom";

const kMostName = 60;

/** The two parts of complex samples stand together, where the first of them is. */
function partsTogether(fields: readonly FieldInfo[]): readonly FieldInfo[] {
  const wholes = new Set(fields.map((field) => field.complex?.of ?? field));
  const partsOf = (whole: string): readonly FieldInfo[] => fields.filter((field) => field.complex?.of === whole);
  return [...wholes].flatMap((whole) => (typeof whole === "string" ? partsOf(whole) : [whole]));
}

/** Coordinate fields come last. */
export function fieldsInOrder(info: DatasetInfo): readonly FieldInfo[] {
  const fields = partsTogether(info.fields);
  return [...fields.filter((field) => !field.coordinate), ...fields.filter((field) => field.coordinate)];
}

function fieldText({ name, unit, attributes }: FieldInfo): string {
  const long = longName(attributes, kMostName);
  return `${name}${unit === "" ? "" : ` [${unit}]`}${long === null ? "" : ` · ${long}`}`;
}

/** The heading under which a field is; null for none. */
function headingOf({ coordinate, complex }: FieldInfo): string | null {
  if (coordinate) return "Coordinates";
  return complex === null ? null : `${complex.of} (complex)`;
}

/** The name of a field in the list, where its layers of accuracy are one field. */
export function storedName(info: DatasetInfo, name: string): string {
  return info.fields.find((each) => each.name === name)?.stored ?? name;
}

/** Each stored field once. */
export function fieldOptions(info: DatasetInfo): readonly Option[] {
  const fields = fieldsInOrder(info).filter((field) => field.name === field.stored);
  return fields.map((field) => ({ value: field.name, text: fieldText(field), group: headingOf(field) }));
}
