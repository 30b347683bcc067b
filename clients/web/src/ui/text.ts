import type { LoadStatus, StepInfo, Vec3 } from "../model";
import { typeset } from "../render/axes";
import type { GridAxis } from "../render/axes";

export function cut(text: string, most: number): string {
  // Not in the middle of a character.
  return text.length <= most ? text : `${text.slice(0, most).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** A text of any length, as a part of one line. */
export function oneLine(text: string, most: number): string {
  return cut(text.slice(0, 4 * most).replace(/\s+/g, " ").trim(), most);
}

/** A number with `digits` significant digits, and not more zeros than help. */
export function short(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return typeset(value.toExponential(digits - 1).replace(/\.?0+e/, "e"));
  const text = value.toPrecision(digits);
  return typeset(text.includes(".") ? text.replace(/\.?0+$/, "") : text);
}

/** The date of a step, or the number with its unit; empty if it has no time. */
export function timeText(step: Pick<StepInfo, "time" | "date">, unit: string): string {
  if (step.date !== "") return step.date.replace(/ 00:00:00$/, "");
  return step.time === null ? "" : `t = ${withUnit(short(step.time), unit)}`;
}

/** As many digits as an error bound leaves meaning; one more, so that rounding adds little to it. */
export function withError(value: number, error: number | null): string {
  if (error === null || !(error > 0) || !Number.isFinite(value)) return short(value, 7);
  const digits = Math.floor(Math.log10(Math.max(Math.abs(value), error))) - Math.floor(Math.log10(error)) + 2;
  return short(value, Math.min(12, Math.max(2, digits)));
}

export function bytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  let value = count;
  for (; value >= 999.5 && unit < units.length - 1; ++unit) value /= 1000;
  return `${unit === 0 || value >= 100 ? value.toFixed(0) : value.toPrecision(value >= 10 ? 3 : 2)} ${units[unit]!}`;
}

/** A position on an axis, with the digits for a thousandth of the visible range. */
export function position(value: number, span: number): string {
  const step = Math.abs(span) / 1000;
  if (!(step > 0)) return short(value, 6);
  const power10 = 10 ** Math.floor(Math.log10(step));
  return short(
    Math.abs(value) < power10 / 2 ? 0 : value,
    Math.min(12, Math.max(3, Math.ceil(Math.log10(Math.max(Math.abs(value), power10) / power10)))),
  );
}

/** Two counts with one unit: "3.1 of 40 MB". */
export function bytesOf(part: number, whole: number): string {
  const [, unit = "B"] = bytes(whole).split(" ");
  const size = whole > 0 ? whole / Number(bytes(whole).split(" ")[0]) : 1;
  const value = part / size;
  return `${value === 0 ? "0" : value >= 9.95 || unit === "B" ? value.toFixed(0) : value.toFixed(1)} of ${bytes(whole)}`;
}

/** Status of the picture on screen, in exact words. */
export function statusText(status: LoadStatus, levels: number, unit: string): string {
  const parts: string[] = [];
  const { level, target } = status;
  if (level === null) parts.push(status.state === "opening" ? "opening" : "no samples yet");
  else {
    const going = target !== null && target < level ? `, ${target} wanted` : "";
    const bound = status.maxError === null ? "" : `, error ≤ ${withUnit(short(status.maxError, 2), unit)}`;
    const cover = status.coverage !== null && status.coverage < 0.9995 ? `, covers ${(100 * status.coverage).toFixed(1)} %` : "";
    parts.push(`level ${level} of ${levels - 1}${going}${bound}${cover}`);
  }
  if (status.expected > 0) parts.push(bytesOf(status.received, status.expected));
  parts.push(`memory ${bytesOf(status.memory, status.budget)}`);
  if (status.damagedPatches > 0)
    parts.push(`${status.damagedPatches} damaged ${status.damagedPatches === 1 ? "patch" : "patches"}`);
  return parts.join(" · ");
}

/** "1 step", "2 steps". */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

/** Samples along the axes that have several; of several grids those of the first one. */
export function shapeText(dims: Vec3, grids: number): string {
  const shape = dims.filter((n) => n > 1).join(" × ") || "1";
  return grids === 1 ? shape : `${shape} and ${counted(grids - 1, "other grid")}`;
}

/** A number with its unit, where it has one. */
export function withUnit(text: string, unit: string): string {
  return unit === "" ? text : `${text} ${unit}`;
}

/** A line has room for so many. */
const kMostTexts = 3;
const kMostTextLength = 40;

/** The texts of a sample in one line, as the name of a station; empty where it has none. */
export function namesText(axis: GridAxis, index: number): string {
  return axis.texts(index).slice(0, kMostTexts).map((text) => oneLine(text, kMostTextLength)).join(", ");
}

/** The place of a sample with its names, where it has any. */
export function withNames(place: string, axis: GridAxis, index: number): string {
  const names = namesText(axis, index);
  return names === "" ? place : `${place} (${names})`;
}

/** Where a sample lies on its axis. */
export function placeText(axis: GridAxis, index: number): string {
  const place = withUnit(position(axis.position(index), axis.position(axis.samples - 1) - axis.position(0)), axis.unit);
  return withNames(place, axis, index);
}

export const kStateNames: Readonly<Record<LoadStatus["state"], string>> = {
  idle: "Ready",
  opening: "Opening",
  coarse: "Coarse",
  refining: "Refining",
  settled: "Settled",
  stale: "Newer step",
  failed: "Failed",
};
