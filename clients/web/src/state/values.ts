/** Values of the view in a link: text to values and back. Null: the text is none. */
import type { Box, RangeMode, Vec3, ViewState } from "../model";
import { decodeText, encodeText } from "./hash";

const kMostName = 1024;

export function parseNumber(text: string): number | null {
  const plain = decodeText(text);
  if (plain === null || !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain)) return null;
  const value = Number(plain);
  return Number.isFinite(value) ? value : null;
}

/** The shortest text that is read as the same number. */
export function numberText(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value).replace("e+", "e");
}

export function parseNumbers(text: string, count: number, least = -Infinity, most = Infinity): number[] | null {
  const values = text.split(",").map(parseNumber);
  const good = values.length === count && values.every((value) => value !== null && value >= least && value <= most);
  return good ? (values as number[]) : null;
}

export function parseName(text: string): string | null {
  const name = decodeText(text);
  return name === null || name === "" || name.length > kMostName ? null : name;
}

export function oneOf<T extends string>(names: readonly T[], text: string): T | null {
  return names.find((name) => name === text) ?? null;
}

export function parseStep(text: string): number | "live" | null {
  if (text === "live") return "live";
  const step = /^\d{1,16}$/.test(text) ? Number(text) : NaN;
  return Number.isSafeInteger(step) ? step : null;
}

export function parseLevel(text: string): number | null {
  const level = parseNumber(text);
  return level !== null && Number.isInteger(level) && level >= 0 && level < 32 ? level : null;
}

export function parsePoint(text: string): Vec3 | null {
  const values = parseNumbers(text, 3, 0, 2 ** 31);
  return values === null ? null : [values[0]!, values[1]!, values[2]!];
}

/** x,y,z:x,y,z */
export function parseLine(text: string): readonly [Vec3, Vec3] | null {
  const [from, to, ...more] = text.split(":").map(parsePoint);
  return from && to && more.length === 0 ? [from, to] : null;
}

/** x0:x1,y0:y1,z0:z1, as the command line has it. */
export function parseBox(text: string): Box | null {
  const ends = text.split(",").map((range) => range.split(":").map(parseNumber));
  const good = ends.length === 3 && ends.every(([from, to, more]) => more === undefined && Number.isInteger(from) &&
                                                 Number.isInteger(to) && from! >= 0 && to! > from! && to! <= 2 ** 31);
  if (!good) return null;
  const side = (i: 0 | 1): Vec3 => [ends[0]![i]!, ends[1]![i]!, ends[2]![i]!];
  return { begin: side(0), end: side(1) };
}

export type Camera = ViewState["camera"];

export function parseCamera(text: string): Camera | null {
  const values = parseNumbers(text, 3, -1e6, 1e6);
  if (values === null || !(values[2]! > 0)) return null;
  return { azimuth: values[0]!, elevation: values[1]!, distance: values[2]! };
}

export type Volume = ViewState["volume"];
const kVolumeModes: readonly Volume["mode"][] = ["ray", "maximum", "surface"];

/** threshold,opacity,mode */
export function parseVolume(text: string): Volume | null {
  const [threshold, opacity, mode, more] = text.split(",");
  const shares = parseNumbers(`${threshold ?? ""},${opacity ?? ""}`, 2, 0, 1);
  const known = oneOf(kVolumeModes, mode ?? "");
  if (shares === null || known === null || more !== undefined) return null;
  return { threshold: shares[0]!, opacity: shares[1]!, mode: known };
}

export type Compare = NonNullable<ViewState["compare"]>;

const kLevelKey = "level=";

/** step;field;dataset, then ;level=2 and ;difference if so. A semicolon in a name is written as %3B. */
export function parseCompare(text: string): Compare | null {
  const [stepText, fieldText, datasetText, ...more] = text.split(";");
  const levelText = more[0]?.startsWith(kLevelKey) === true ? more.shift()!.slice(kLevelKey.length) : null;
  const difference = more.shift();
  const level = levelText === null ? null : parseLevel(levelText);
  const step = parseStep(stepText ?? "");
  const [field, dataset] = [parseName(fieldText ?? ""), parseName(datasetText ?? "")];
  if (step === null || field === null || dataset === null || more.length > 0) return null;
  if ((difference !== undefined && difference !== "difference") || (levelText !== null && level === null)) return null;
  return { step, field, dataset, difference: difference !== undefined, level };
}

export function compareText({ step, field, dataset, difference, level }: Compare): string {
  const name = (text: string): string => encodeText(text).replaceAll(";", "%3B");
  const more = [...(level === null ? [] : [`${kLevelKey}${level}`]), ...(difference ? ["difference"] : [])];
  return [String(step), name(field), name(dataset), ...more].join(";");
}

export const kPanes: readonly ViewState["pane"][] = ["all", "x", "y", "z", "volume"];
export const kRanges: readonly RangeMode[] = ["auto", "locked", "step"];
