/** From messages to plain data. Nothing that a server sends is taken unseen. */
import type { DatasetManifest, FieldDescription, FieldStep, Grid, LevelRecord, StepManifest } from "../../build/proto/quarry/v1/dataset_pb";
import { DataType } from "../../build/proto/quarry/v1/dataset_pb";
import type { DatasetInfo, FieldInfo, FieldStepInfo, SampleType, StepInfo, Vec3 } from "../model";
import { badAnswer } from "./errors";

const kTypes: ReadonlyMap<DataType, SampleType> = new Map([
  [DataType.FLOAT32, "float32"], [DataType.FLOAT64, "float64"], [DataType.INT8, "int8"], [DataType.UINT8, "uint8"],
  [DataType.INT16, "int16"], [DataType.UINT16, "uint16"], [DataType.INT32, "int32"], [DataType.UINT32, "uint32"],
  [DataType.INT64, "int64"], [DataType.UINT64, "uint64"],
]);

/** Limits of the format: docs/format.md. */
const kMostDim = 2 ** 31;
const kMostPatchVolume = 2 ** 26;
const kMostPatches = 2 ** 40;
const kMostFields = 10_000;
const kMostName = 4096;

export function sampleType(type: DataType): SampleType {
  const found = kTypes.get(type);
  if (found === undefined) throw badAnswer(`sample type ${type} is unknown`);
  return found;
}

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
function spacings(list: readonly number[]): Vec3 {
  if (list.includes(0)) throw badAnswer("grid.spacing contains 0");
  return finite(list, "grid.spacing");
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

export function gridDims(grid: Grid | undefined): Vec3 {
  return integers(grid?.dims ?? [], "grid.dims", 1);
}

function patchShape(list: readonly number[], dims: Vec3): Vec3 {
  const patch = integers(list, "patch", 1);
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

function boundText(bound: FieldDescription["bound"]): string {
  if (bound.case === "tolerance") return `absolute ${bound.value}`;
  if (bound.case === "relativeTolerance") return `relative ${bound.value}`;
  if (bound.case === "pointwiseRelativeTolerance") return `${bound.value} of each sample`;
  return bound.case === "lossless" ? "lossless" : "unknown";
}

/** A layer of accuracy before the last, as a field. */
function layerName(stored: string, layer: number): string {
  return `${stored}, layer ${layer}`;
}

/** A field, and its layers before the last: the finer first. */
function fieldInfos(field: FieldDescription): FieldInfo[] {
  const last = fieldInfo(field);
  const unit = field.rougherRelative ? "relative" : "absolute";
  const rougher = field.rougher.map((tolerance, layer): FieldInfo => ({
    ...last, name: layerName(last.name, layer), layer, bound: `${unit} ${tolerance}`,
  }));
  return [last, ...rougher.reverse()];
}

/** A field that has the name of a layer hides it. */
function allFields(fields: readonly FieldDescription[]): FieldInfo[] {
  const names = new Set(fields.map((field) => field.name));
  return fields.flatMap(fieldInfos).filter((one) => one.name === one.stored || !names.has(one.name));
}

function fieldInfo(field: FieldDescription): FieldInfo {
  const name = text(field.name, "the name of a field");
  return {
    name,
    stored: name,
    layer: field.rougher.length,
    type: sampleType(field.dtype),
    unit: text(field.units, "a unit"),
    coder: text(field.codec, "the name of a coder"),
    fill: field.fill ?? (field.fillInteger === undefined ? null : Number(field.fillInteger)),
    bound: boundText(field.bound),
    layers: field.rougher.length + 1,
    refers: field.keyframe > 0,
  };
}

export function datasetInfo(name: string, manifest: DatasetManifest | undefined): DatasetInfo {
  const grid = manifest?.grid;
  if (manifest === undefined || grid === undefined) throw badAnswer(`"${name}" comes without its grid`);
  if (manifest.fields.length > kMostFields) throw badAnswer(`${manifest.fields.length} fields`);
  const dims = gridDims(grid);
  const patch = patchShape(manifest.patch, dims);
  const lists = grid.coordinates;
  return {
    name, dims, patch,
    levels: levelCount(manifest.levels, dims, patch),
    origin: finite(grid.origin, "grid.origin"),
    spacing: spacings(grid.spacing),
    axisNames: texts(grid.axisNames, "grid.axis_names"),
    axisUnits: texts(grid.axisUnits, "grid.axis_units"),
    coordinates: [coordinates(lists?.x, dims[0], "x"), coordinates(lists?.y, dims[1], "y"), coordinates(lists?.z, dims[2], "z")],
    fields: allFields(manifest.fields),
    timeUnit: text(manifest.time?.units ?? "", "the unit of the times"),
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

function fieldStep(field: FieldStep, info: DatasetInfo, version: number): FieldStepInfo {
  const samples = info.dims[0] * info.dims[1] * info.dims[2];
  const valid = version === 1 ? samples : count(field.valid, "valid");
  return {
    ...range(field, valid), valid,
    tolerance: notNegative(field.tolerance, "a tolerance"),
    hasMissing: field.mask !== undefined,
    levels: levelRecords(field.name, field.levels, info, version),
  };
}

function levelRecords(name: string, records: readonly LevelRecord[], info: DatasetInfo, version: number): FieldStepInfo["levels"] {
  if (records.length !== info.levels) throw badAnswer(`"${name}" has ${records.length} of ${info.levels} levels`);
  return records.map((level) => ({
    maxError: notNegative(level.maxError, "an error"),
    bytes: count(level.bytes, "the bytes of a level"),
    coverage: version === 1 ? 1 : share(level.coverage, "a coverage"),
  }));
}

/** A field at a step, and its layers before the last. What a layer needs of those before it counts as its own. */
function fieldSteps(field: FieldStep, info: DatasetInfo, version: number): [string, FieldStepInfo][] {
  const last = fieldStep(field, info, version);
  const known = info.fields.filter((one) => one.stored === field.name);
  if (known.some((one) => one.layers !== field.rougher.length + 1)) throw badAnswer(`"${field.name}" has ${field.rougher.length + 1} layers`);
  const layers = field.rougher.map((one): FieldStepInfo => ({
    ...last, tolerance: notNegative(one.tolerance, "a tolerance"), levels: levelRecords(field.name, one.levels, info, version),
  }));
  layers.push(last);
  const upTo = (layer: number, level: number): number => layers.slice(0, layer + 1).reduce((sum, one) => sum + one.levels[level]!.bytes, 0);
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
