/** From messages to plain data. Nothing that a server sends is taken unseen. */
import type { DatasetManifest, FieldDescription, FieldStep, Grid, LevelRecord, StepManifest } from "../../build/proto/quarry/v1/dataset_pb";
import type { DatasetSummary as SummaryMessage } from "../../build/proto/quarry/v1/service_pb";
import type { Attributes, DatasetInfo, DatasetSummary, FieldInfo, FieldStepInfo, GridInfo, StepInfo, Vec3 } from "../model";
import { attributesOf } from "./attributes";
import { badAnswer } from "./errors";
import { axisTexts, textsOf } from "./texts";
import { sampleType } from "./types";

/** Limits of the format: docs/format.md. */
const kMostDim = 2 ** 31;
const kMostPatchVolume = 2 ** 26;
const kMostPatches = 2 ** 40;
const kMostFields = 10_000;
const kMostGrids = 4096;
const kMostName = 4096;

function three<T>(list: readonly T[], what: string): readonly [T, T, T] {
  if (list.length !== 3) throw badAnswer(`${what} has ${list.length} values instead of three`);
  return [list[0]!, list[1]!, list[2]!];
}

/** Three integers of at least `least`. */
export function integers(list: readonly number[], what: string, least: number, most: number = kMostDim): Vec3 {
  for (const value of list) {
    if (!Number.isInteger(value) || value < least || value > most) throw badAnswer(`${what} contains ${value}`);
  }
  return three(list, what);
}

function finite(list: readonly number[], what: string): Vec3 {
  const bad = list.find((value) => !Number.isFinite(value));
  if (bad !== undefined) throw badAnswer(`${what} contains ${bad}`);
  return three(list, what);
}

/** Positions may descend, but no two samples lie at the same place. */
function spacings(list: readonly number[], what: string): Vec3 {
  if (list.includes(0)) throw badAnswer(`${what} contains 0`);
  return finite(list, what);
}

/** A count that a double holds exactly. */
export function count(value: bigint, what: string): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw badAnswer(`${what} is ${value.toString()}`);
  return Number(value);
}

export function text(value: string, what: string): string {
  if (value.length > kMostName) throw badAnswer(`${what} has ${value.length} characters`);
  return value;
}

function texts(list: readonly string[], what: string): readonly [string, string, string] {
  return three(list.map((value) => text(value, what)), what);
}

function isMonotonic(list: Float64Array): boolean {
  const up = list.length < 2 || list[1]! > list[0]!;
  return list.every((value, i) => Number.isFinite(value) && (i === 0 || (up ? value > list[i - 1]! : value < list[i - 1]!)));
}

function coordinates(list: readonly number[] | undefined, samples: number, axis: string): Float64Array | null {
  if (list === undefined || list.length === 0) return null;
  if (list.length !== samples) throw badAnswer(`${list.length} coordinates for the ${samples} samples along ${axis}`);
  const out = Float64Array.from(list);
  if (!isMonotonic(out)) throw badAnswer(`the coordinates along ${axis} are not finite and strictly monotonic`);
  return out;
}

function patchShape(list: readonly number[], dims: Vec3, what: string): Vec3 {
  const patch = integers(list, what, 1);
  const power = patch.every((n) => Number.isInteger(Math.log2(n)));
  const patches = dims.reduce((product, n, a) => product * Math.ceil(n / patch[a]!), 1);
  if (!power || patch[0] * patch[1] * patch[2] > kMostPatchVolume || patches > kMostPatches) {
    throw badAnswer(`patches of ${patch.join("x")} in a grid of ${dims.join("x")}`);
  }
  return patch;
}

function levelCount(levels: number, dims: Vec3, patch: Vec3): number {
  const sides = patch.filter((_, a) => dims[a]! > 1);
  const most = sides.length === 0 ? 1 : Math.log2(Math.min(...sides)) + 1;
  if (levels < 1 || levels > most) throw badAnswer(`${levels} levels with patches of ${patch.join("x")}`);
  return levels;
}

/** An axis that a grid does not have is shown like any other of one sample: it must be one. */
function checkAxes(has: readonly boolean[], dims: Vec3, what: string): void {
  if (has.length > 0 && three(has, what).some((axis, a) => !axis && dims[a]! > 1)) {
    throw badAnswer(`${what} lacks an axis of a grid of ${dims.join("x")}`);
  }
}

/** No list: no axis has any. */
function axisAttributes({ axisAttributes: lists }: Grid, of: string): readonly [Attributes, Attributes, Attributes] {
  if (lists.length === 0) return [[], [], []];
  const [x, y, z] = three(lists, `${of}.axis_attributes`);
  return [attributesOf(x.attributes, `x of ${of}`), attributesOf(y.attributes, `y of ${of}`), attributesOf(z.attributes, `z of ${of}`)];
}

function gridInfo(grid: Grid, of: string): Omit<GridInfo, "axisTexts"> {
  const dims = integers(grid.dims, `${of}.dims`, 1);
  const patch = patchShape(grid.patch, dims, `${of}.patch`);
  checkAxes(grid.hasAxis, dims, `${of}.has_axis`);
  const lists = grid.coordinates;
  return {
    dims, patch,
    levels: levelCount(grid.levels, dims, patch),
    origin: finite(grid.origin, `${of}.origin`),
    spacing: spacings(grid.spacing, `${of}.spacing`),
    axisNames: texts(grid.axisNames, `${of}.axis_names`),
    axisUnits: texts(grid.axisUnits, `${of}.axis_units`),
    coordinates: [coordinates(lists?.x, dims[0], "x"), coordinates(lists?.y, dims[1], "y"), coordinates(lists?.z, dims[2], "z")],
    axisAttributes: axisAttributes(grid, of),
  };
}

/** A dataset without a grid has no shape: there is at least one. */
function someGrids(grids: readonly Grid[], name: string): readonly [Grid, ...Grid[]] {
  const [first, ...others] = grids;
  if (first === undefined || grids.length > kMostGrids) {
    throw badAnswer(`"${name}" comes with ${grids.length} grids; there can be 1 to ${kMostGrids}`);
  }
  return [first, ...others];
}

export function datasetSummary(message: SummaryMessage): DatasetSummary {
  const name = text(message.name, "the name of a dataset");
  const { late } = message;
  if (message.grids.length === 0) return { name, dims: null, grids: 0, steps: 0, fields: 0, late };
  const grids = someGrids(message.grids, name);
  return {
    name, late, dims: integers(grids[0].dims, "grids[0].dims", 1), grids: grids.length,
    steps: count(message.steps, "steps"), fields: count(message.fields, "fields"),
  };
}

/** A layer of accuracy before the last, as a field. Links have these names. */
function layerName(stored: string, layer: number): string {
  return `${stored}, layer ${layer}`;
}

/** A field, and its layers before the last: the finer first. */
function fieldInfos(field: FieldDescription, grids: number): FieldInfo[] {
  const last = fieldInfo(field, grids);
  const rougher = field.rougher.map((_, layer): FieldInfo => ({ ...last, name: layerName(last.name, layer), layer }));
  return [last, ...rougher.reverse()];
}

/** A field that has the name of a layer hides it. */
function allFields(fields: readonly FieldDescription[], grids: number): FieldInfo[] {
  const names = new Set(fields.map((field) => field.name));
  return fields.flatMap((field) => fieldInfos(field, grids)).filter((one) => one.name === one.stored || !names.has(one.name));
}

function complexPart({ complex }: FieldDescription): FieldInfo["complex"] {
  if (complex === undefined) return null;
  return { of: text(complex.of, "the name of complex samples"), imaginary: complex.imaginary };
}

function fieldInfo(field: FieldDescription, grids: number): FieldInfo {
  const name = text(field.name, "the name of a field");
  if (field.grid >= grids) throw badAnswer(`"${name}" is on grid ${field.grid} of ${grids}`);
  return {
    name,
    stored: name,
    layer: field.rougher.length,
    type: sampleType(field.dtype),
    unit: text(field.units, "a unit"),
    coder: text(field.codec, "the name of a coder"),
    fill: field.fill ?? (field.fillInteger === undefined ? null : Number(field.fillInteger)),
    layers: field.rougher.length + 1,
    refers: field.keyframe > 0,
    grid: field.grid,
    attributes: attributesOf(field.attributes, `"${name}"`),
    still: field.still,
    coordinate: field.coordinate,
    complex: complexPart(field),
  };
}

export function datasetInfo(name: string, manifest: DatasetManifest | undefined): DatasetInfo {
  if (manifest === undefined) throw badAnswer(`"${name}" comes without its grids`);
  if (manifest.fields.length > kMostFields) throw badAnswer(`${manifest.fields.length} fields`);
  const grids = someGrids(manifest.grids, name).map((grid, number) => gridInfo(grid, `grids[${number}]`));
  const texts = textsOf(manifest, grids);
  return {
    name,
    grids: grids.map((grid) => ({ ...grid, axisTexts: axisTexts(grid, texts) })),
    fields: allFields(manifest.fields, grids.length),
    attributes: attributesOf(manifest.attributes, `"${name}"`),
    texts: texts.filter(({ along }) => along === null).map(({ coordinate }) => coordinate),
    timeUnit: text(manifest.time?.units ?? "", "the unit of the times"),
    timeName: text(manifest.time?.name ?? "", "the name of the times"),
    timeAttributes: attributesOf(manifest.time?.attributes ?? [], "the time"),
  };
}

function notNegative(value: number, what: string): number {
  if (!(value >= 0)) throw badAnswer(`${what} is ${value}`);
  return value;
}

/** A share; version 1 of the format has none and means 1. */
export function share(value: number | undefined, what: string): number {
  if (value === undefined) return 1;
  if (!(value >= 0 && value <= 1)) throw badAnswer(`${what} is ${value}`);
  return value;
}

function range(field: FieldStep, valid: number): { min: number; max: number } {
  if (valid === 0) return { min: NaN, max: NaN };
  if (!Number.isFinite(field.min) || !Number.isFinite(field.max) || field.min > field.max) {
    throw badAnswer(`the range of "${field.name}" is ${field.min} to ${field.max}`);
  }
  return { min: field.min, max: field.max };
}

function fieldStep(field: FieldStep, grid: GridInfo, version: number): FieldStepInfo {
  const samples = grid.dims[0] * grid.dims[1] * grid.dims[2];
  const valid = version === 1 ? samples : count(field.valid, "valid");
  return {
    ...range(field, valid), valid,
    tolerance: notNegative(field.tolerance, "a tolerance"),
    hasMissing: field.mask !== undefined,
    levels: levelRecords(field.name, field.levels, grid, version),
  };
}

function levelRecords(name: string, records: readonly LevelRecord[], grid: GridInfo, version: number): FieldStepInfo["levels"] {
  if (records.length !== grid.levels) throw badAnswer(`"${name}" has ${records.length} of ${grid.levels} levels`);
  return records.map((level) => ({
    maxError: notNegative(level.maxError, "an error"),
    bytes: count(level.bytes, "the bytes of a level"),
    coverage: version === 1 ? 1 : share(level.coverage, "a coverage"),
  }));
}

/**
 * A field at a step, and its layers before the last. The bytes of a level include those that it needs: of coarser levels,
 * and of the layers before. Nothing for a field that the dataset had not when it was opened: its grid is not known.
 */
function fieldSteps(field: FieldStep, info: DatasetInfo, version: number): [string, FieldStepInfo][] {
  const known = info.fields.filter((one) => one.stored === field.name);
  if (known[0] === undefined) return [];
  const grid = info.grids[known[0].grid]!;
  const last = fieldStep(field, grid, version);
  if (known.some((one) => one.layers !== field.rougher.length + 1)) throw badAnswer(`"${field.name}" has ${field.rougher.length + 1} layers`);
  const layers = field.rougher.map((one): FieldStepInfo => ({
    ...last, tolerance: notNegative(one.tolerance, "a tolerance"), levels: levelRecords(field.name, one.levels, grid, version),
  }));
  layers.push(last);
  const upTo = (layer: number, level: number): number =>
    layers.slice(0, layer + 1).flatMap(({ levels }) => levels.slice(level)).reduce((sum, { bytes }) => sum + bytes, 0);
  return known.map((one): [string, FieldStepInfo] => {
    const found = layers[one.layer]!;
    return [one.name, { ...found, levels: found.levels.map((level, l) => ({ ...level, bytes: upTo(one.layer, l) })) }];
  });
}

export function stepInfo(manifest: StepManifest, date: string, info: DatasetInfo): StepInfo {
  const step = count(manifest.step, "the number of a step");
  if (manifest.fields.length > kMostFields) throw badAnswer(`${manifest.fields.length} fields in step ${step}`);
  const time = manifest.time ?? null;
  if (time !== null && !Number.isFinite(time)) throw badAnswer(`the time of step ${step} is ${time}`);
  return {
    step,
    time,
    date: text(date, `the date of step ${step}`),
    fields: new Map(manifest.fields.flatMap((field) => fieldSteps(field, info, manifest.formatVersion))),
  };
}
