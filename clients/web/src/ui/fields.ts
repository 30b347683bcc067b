/** The fields of a dataset in lists. */
import type { DatasetInfo, FieldInfo } from "../model";
import { longName } from "./attributes";
import type { Option } from "./dom";

const kMostName = 60;

/** Those that say where the samples of others are come last. */
export function fieldsInOrder({ fields }: DatasetInfo): readonly FieldInfo[] {
  return [...fields.filter((field) => !field.coordinate), ...fields.filter((field) => field.coordinate)];
}

function fieldText({ name, unit, attributes }: FieldInfo): string {
  const long = longName(attributes, kMostName);
  return `${name}${unit === "" ? "" : ` [${unit}]`}${long === null ? "" : ` · ${long}`}`;
}

export function fieldOptions(info: DatasetInfo): readonly Option[] {
  return fieldsInOrder(info).map((field) => ({
    value: field.name, text: fieldText(field), ...(field.coordinate ? { group: "Coordinates" } : {}),
  }));
}
