/** Converts a view to a link and back: all of it, in short readable keys. */
import { boxText, clampPoint, intersect, isEmpty, sameBox, wholeGrid } from "../geometry";
import type { Box, GridInfo, Opened, ViewState } from "../model";
import { gridOf } from "../model";
import { encodeText, joinHash, type Pair, splitHash } from "./hash";
import { compareText, kPanes, kRanges, numberText, oneOf, parseBox, parseCamera, parseCompare, parseLevel, parseLine, parseName, parseNumber,
         parsePoint, parseStep, parseVolume } from "./values";

/** A link may say less than a whole view. */
export type LinkValues = {
  [K in keyof Omit<ViewState, "colour">]?: ViewState[K];
} & { colour?: Partial<ViewState["colour"]> };

export interface Link {
  readonly values: LinkValues;
  /** One line for each value that cannot be read, and is left out. */
  readonly problems: readonly string[];
  /** Keys of other versions: kept in the link, without effect. */
  readonly unknown: readonly Pair[];
}

const kVersion = "1";

type Reader = (text: string) => LinkValues | null;

function field<K extends keyof LinkValues>(key: K, parse: (text: string) => Exclude<LinkValues[K], undefined> | null): Reader {
  return (text) => {
    const value = parse(text);
    return value === null ? null : ({ [key]: value } as LinkValues);
  };
}

function colour<K extends keyof ViewState["colour"]>(key: K, parse: (text: string) => ViewState["colour"][K] | null): Reader {
  return (text) => {
    const value = parse(text);
    return value === null ? null : { colour: { [key]: value } as Partial<ViewState["colour"]> };
  };
}

const kReaders: ReadonlyMap<string, Reader> = new Map<string, Reader>([
  ["v", (text) => (text === kVersion ? {} : null)],
  ["d", field("dataset", parseName)],
  ["f", field("field", parseName)],
  ["t", field("step", parseStep)],
  ["at", field("cursor", parsePoint)],
  ["box", field("clip", parseBox)],
  ["pane", field("pane", (text) => oneOf(kPanes, text))],
  ["cam", field("camera", parseCamera)],
  ["map", colour("map", parseName)],
  ["range", colour("mode", (text) => oneOf(kRanges, text))],
  ["low", colour("low", parseNumber)],
  ["high", colour("high", parseNumber)],
  ["vol", field("volume", parseVolume)],
  ["level", field("level", parseLevel)],
  ["line", field("profile", parseLine)],
  ["with", field("compare", parseCompare)],
]);

/** Reads all valid entries, and never throws. Ignores a token, which is read elsewhere. */
export function parseLink(hash: string): Link {
  let values: LinkValues = {};
  const problems: string[] = [];
  const unknown: Pair[] = [];
  for (const [key, text] of splitHash(hash)) {
    if (key === "token") continue;
    const reader = kReaders.get(key);
    if (reader === undefined) {
      unknown.push([key, text]);
      continue;
    }
    const read = reader(text);
    if (read === null) problems.push(`the link's "${key}=${text.slice(0, 100)}" is not understood, and left out`);
    else values = { ...values, ...read, ...(read.colour === undefined ? {} : { colour: { ...values.colour, ...read.colour } }) };
  }
  return { values, problems, unknown };
}

function numbers(values: readonly number[]): string {
  return values.map(numberText).join(",");
}

/** Null values are left out of links, and a missing entry means null. */
export function formatLink(state: ViewState, unknown: readonly Pair[] = []): string {
  const { colour: { map, mode, low, high }, camera, volume } = state;
  const pairs: (Pair | null)[] = [
    ["v", kVersion],
    ["d", encodeText(state.dataset)],
    ["f", encodeText(state.field)],
    ["t", String(state.step)],
    ["at", numbers(state.cursor)],
    state.clip === null ? null : ["box", boxText(state.clip)],
    ["pane", state.pane],
    ["cam", numbers([camera.azimuth, camera.elevation, camera.distance])],
    ["map", encodeText(map)],
    ["range", mode],
    low === null ? null : ["low", numberText(low)],
    high === null ? null : ["high", numberText(high)],
    ["vol", `${numbers([volume.threshold, volume.opacity])},${volume.mode}`],
    state.level === null ? null : ["level", String(state.level)],
    state.profile === null ? null : ["line", state.profile.map(numbers).join(":")],
    state.compare === null ? null : ["with", compareText(state.compare)],
  ];
  const others = unknown.filter(([key]) => key !== "token" && !kReaders.has(key));
  return joinHash([...pairs.filter((pair) => pair !== null), ...others]);
}

function cutBox(box: Box, grid: GridInfo): Box | null {
  const cut = intersect(box, wholeGrid(grid));
  return isEmpty(cut) || sameBox(cut, wholeGrid(grid)) ? null : cut;
}

/** One step has a field that does not change, and all may be meant: the others go on from it. */
function knownStep({ info, steps }: Opened, name: string, step: number | "live"): boolean {
  const isStill = info.fields.some((one) => one.name === name && one.still);
  return step === "live" || steps.some((one) => one.step === step && (isStill || one.fields.has(name)));
}

export interface Completed {
  readonly state: ViewState;
  /** Settings that the dataset does not have, a line each. */
  readonly problems: readonly string[];
}

/**
 * A whole view of a dataset, from what a link says and defaults; what the dataset does not have is not taken over.
 * @param initial  on the grid of the field that the link names
 */
export function completeLink(values: LinkValues, opened: Opened, initial: ViewState, maps: readonly string[] = []): Completed {
  const { info, steps } = opened;
  const problems: string[] = [];
  const colour = { ...initial.colour, ...values.colour };
  const state: { -readonly [K in keyof ViewState]: ViewState[K] } = { ...initial, ...values, colour };
  if (!info.fields.some((one) => one.name === state.field)) {
    problems.push(`"${info.name}" has no field "${state.field}"; showing "${initial.field}"`);
    state.field = initial.field;
  }
  if (!knownStep(opened, state.field, state.step)) {
    const first = steps.find((one) => one.fields.has(state.field))?.step ?? initial.step;
    if (values.step !== undefined) problems.push(`"${state.field}" has no step ${state.step}; showing step ${first}`);
    state.step = first;
  }
  if (maps.length > 0 && !maps.includes(state.colour.map)) {
    problems.push(`there is no colour map "${state.colour.map}"; showing "${initial.colour.map}"`);
    state.colour = { ...state.colour, map: initial.colour.map };
  }
  const grid = gridOf(info, state.field);
  state.cursor = clampPoint(grid, state.cursor);
  state.profile &&= [clampPoint(grid, state.profile[0]), clampPoint(grid, state.profile[1])];
  state.clip &&= cutBox(state.clip, grid);
  state.level = state.level === null ? null : Math.min(state.level, grid.levels - 1);
  return { state, problems };
}
