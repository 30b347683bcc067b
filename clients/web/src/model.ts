/**
 * Shared by all rooms of the viewer: plain data, and the interfaces between them. Three numbers are x, y, z; boxes are
 * half-open. Level l holds every 2^l-th sample of the grid, from the first on: level sample i lies on level-0 sample i
 * 2^l.
 *
 *     net -> store -> render      net asks servers, store keeps bricks and decides what to ask for, render draws
 *     decode -> store             decode turns payload into samples, in workers
 *     state -> store, render, ui  state is what the user wants to see, and what the link restores
 */

export type Vec3 = readonly [number, number, number];
export type Axis = 0 | 1 | 2;

/** Half-open. In level-0 samples unless said otherwise. */
export interface Box {
  readonly begin: Vec3;
  readonly end: Vec3;
}

export type SampleType =
  | "float32" | "float64" | "int8" | "uint8" | "int16" | "uint16" | "int32" | "uint32" | "int64" | "uint64";
/** Float64Array for int64 and uint64. */
export type Samples =
  | Float32Array | Float64Array | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array;

// ---- Datasets

/** Integers of 64 bits have all their digits. */
export type AttributeValue =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "texts"; readonly texts: readonly string[] }
  /** `isList`: a list, even of one number. */
  | { readonly kind: "numbers"; readonly type: SampleType; readonly isList: boolean; readonly numbers: readonly (number | bigint)[] }
  /** Other values: a JSON text. */
  | { readonly kind: "json"; readonly json: string };

/**
 * Attribute from the source of a dataset. The page shows it, and interprets only `positive` and two descriptive names.
 */
export interface Attribute {
  readonly name: string;
  readonly value: AttributeValue;
}

/** In the order of the source; names differ. */
export type Attributes = readonly Attribute[];

/** The attribute of a name that is a text; null where there is none. */
export function textOf(attributes: Attributes, name: string): string | null {
  const value = attributes.find((each) => each.name === name)?.value;
  return value?.kind === "text" ? value.text : null;
}

/** A coordinate of text: one text for each sample along an axis, as names of stations, or one for the whole dataset. */
export interface TextCoordinate {
  readonly name: string;
  readonly texts: readonly string[];
  readonly attributes: Attributes;
}

export interface FieldInfo {
  readonly name: string;
  readonly type: SampleType;
  readonly unit: string;
  /** Name of the coder, as in the manifest. */
  readonly coder: string;
  /** Samples with this value are missing; NaN and infinity always are. */
  readonly fill: number | null;
  /** The field of the dataset: a layer of accuracy before its last is a field of its own here. */
  readonly stored: string;
  /** Which layer of accuracy this is, 0 the roughest, and of how many; most fields have one. */
  readonly layer: number;
  readonly layers: number;
  /** Whether steps may refer to others: then a server decodes. */
  readonly refers: boolean;
  /** Position of its grid in DatasetInfo.grids. */
  readonly grid: number;
  readonly attributes: Attributes;
  /** It does not change with time: one step has it, and stands for all. */
  readonly still: boolean;
  /** It says where the samples of others are, as a latitude of each sample does. */
  readonly coordinate: boolean;
  /** The complex samples that the field is a part of; null for most fields. */
  readonly complex: { readonly of: string; readonly imaginary: boolean } | null;
}

/** Where samples are, and how they are cut. An axis that the grid does not have is one with one sample. */
export interface GridInfo {
  readonly dims: Vec3;
  readonly patch: Vec3;
  readonly levels: number;
  readonly origin: Vec3;
  readonly spacing: Vec3;
  readonly axisNames: readonly [string, string, string];
  readonly axisUnits: readonly [string, string, string];
  /** Positions of all samples of an axis that is not evenly spaced; null for the others. */
  readonly coordinates: readonly [Float64Array | null, Float64Array | null, Float64Array | null];
  readonly axisAttributes: readonly [Attributes, Attributes, Attributes];
  /** Each has as many texts as the axis has samples. */
  readonly axisTexts: readonly [readonly TextCoordinate[], readonly TextCoordinate[], readonly TextCoordinate[]];
}

export interface DatasetInfo {
  readonly name: string;
  /** At least one. */
  readonly grids: readonly GridInfo[];
  readonly fields: readonly FieldInfo[];
  readonly attributes: Attributes;
  /** The texts of the whole dataset, one each. */
  readonly texts: readonly TextCoordinate[];
  /** Unit of the times of the steps; empty if unknown. */
  readonly timeUnit: string;
  /** Name of the dimension of the steps, whose coordinate is their times; empty: the coordinate is their numbers. */
  readonly timeName: string;
  readonly timeAttributes: Attributes;
}

/** The grid of a field; the first one where there is no such field. */
export function gridOf(info: DatasetInfo, field: string): GridInfo {
  return info.grids[info.fields.find((each) => each.name === field)?.grid ?? 0]!;
}

/** A field at a step, as its error records describe it. */
export interface FieldStepInfo {
  readonly min: number;
  readonly max: number;
  readonly valid: number;
  readonly tolerance: number;
  readonly hasMissing: boolean;
  /** Finest first. Bytes: payload of the level and all coarser ones, in this layer of accuracy and all before it. */
  readonly levels: readonly { readonly maxError: number; readonly bytes: number; readonly coverage: number }[];
}

export interface StepInfo {
  readonly step: number;
  /** Physical time, if known. */
  readonly time: number | null;
  /** Its date in the calendar of the dataset, as the server says it; empty where the unit has no reference date. */
  readonly date: string;
  readonly fields: ReadonlyMap<string, FieldStepInfo>;
}

/** A dataset, and its steps so far. */
export interface Opened {
  readonly info: DatasetInfo;
  readonly steps: readonly StepInfo[];
}

/** Whether the name of a dataset is its address on a web server, where no Quarry server answers. */
export function isAddress(dataset: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(dataset);
}

/** Codes of gRPC, in lower case: "not_found", "unauthenticated", "unavailable", "data_loss", ... */
export class ViewerError extends Error {
  constructor(readonly code: string, message: string) {
    super(message);
  }
}

// ---- Bricks: what is drawn

/** A plane across an axis. */
export interface Slice {
  readonly axis: Axis;
  /** Level-0 sample, on which it lies. */
  readonly index: number;
}

/** The samples of one patch at one level, or of a part of it. Never changes. */
export interface Brick {
  readonly patch: number;
  readonly level: number;
  /** In samples of `level`, of the whole grid. */
  readonly box: Box;
  /** Payload is damaged: the samples are of a coarser level, or of a rougher layer. */
  readonly damaged: boolean;
  /** Dense, x fastest, of the shape of `box`. */
  readonly samples: Samples;
  /** Validity of the samples, 1 or 0; null where none is missing. */
  readonly validity: Uint8Array | null;
  /**
   * Left out: the whole patch, as stored. Otherwise the samples around a slice, which a server has coded for it: its number in
   * place of that of the patch, and the largest error of storing and coding together.
   */
  readonly part?: { readonly cell: number; readonly maxError: number };
}

/** The needs of a view, in the order of their importance; the store decides how to get them. */
export interface Want {
  /** In level-0 samples. One sample thick for a slice. */
  readonly box: Box;
  /** The finest level that is worth having. */
  readonly level: number;
  /** Patches near this point come first. In level-0 samples. */
  readonly focus: Vec3;
  readonly tier: "visible" | "prefetch";
  /** The box is that of this slice, whose samples may be wrong by this much more than as stored; 0: by nothing. */
  readonly slice?: Slice & { readonly error: number };
}

/** A field at a step. */
export interface Selection {
  readonly dataset: string;
  readonly field: string;
  readonly step: number;
}

export type LoadState = "idle" | "opening" | "coarse" | "refining" | "settled" | "stale" | "failed";

export interface LoadStatus {
  readonly state: LoadState;
  /** The error, and what happens next. */
  readonly message: string | null;
  /** For all visible wants: the finest level that is complete, and the level that is wanted. */
  readonly level: number | null;
  readonly target: number | null;
  /** Largest error at the complete level, in the unit of the field, and the share that it can show. */
  readonly maxError: number | null;
  readonly coverage: number | null;
  /** Received so far, and all that the visible wants need. [bytes] */
  readonly received: number;
  readonly expected: number;
  /** Bricks in memory, and the most that is kept. [bytes] */
  readonly memory: number;
  readonly budget: number;
  readonly damagedPatches: number;
}

/** The bricks of one field at one step. */
export interface BrickSource {
  readonly selection: Selection;
  readonly info: DatasetInfo;
  readonly field: FieldInfo;
  /** Grid of the field. */
  readonly grid: GridInfo;
  readonly step: FieldStepInfo;
  /** Patches along each axis. Patch (px, py, pz) has the number px + nx (py + ny pz). */
  readonly patches: Vec3;
  /**
   * The finest brick of a patch that is in memory and not finer than `finest`: a whole one, or for a slice that of the part
   * around it if that is finer.
   */
  best(patch: number, finest: number, slice?: Slice): Brick | null;
  /** Replaces the wants. Requests that no want needs any more are aborted. */
  want(wants: readonly Want[]): void;
  readonly status: LoadStatus;
  /** Patches whose payload is damaged, as far as it was read. */
  readonly damaged: ReadonlySet<number>;
  /** Bricks that have arrived, or null: another status only. Ends with the source. */
  subscribe(listener: (bricks: readonly Brick[] | null) => void): void;
  close(): void;
}

/** A dataset in a list. */
export interface DatasetSummary {
  readonly name: string;
  /** Shape of the first grid, and the number of grids; null, and 0, of a damaged dataset and of a late one. */
  readonly dims: Vec3 | null;
  readonly grids: number;
  readonly steps: number;
  readonly fields: number;
  /** Its storage did not answer the server in time. */
  readonly late: boolean;
}

/** Everything that the viewer asks of servers. */
export interface Source {
  /** All datasets. */
  list(signal?: AbortSignal): Promise<readonly DatasetSummary[]>;
  open(dataset: string, signal?: AbortSignal): Promise<Opened>;
  /** Steps as they are published; ends with the signal, and comes back by itself after a broken connection. */
  watch(dataset: string, after: number | null, signal: AbortSignal): AsyncIterable<StepInfo>;
  /** Statistics of a box at a level; percentiles in percent. */
  statistics(selection: Selection, box: Box, level: number, options: { readonly percentiles: readonly number[]; readonly bins: number }, signal?: AbortSignal): Promise<BoxStatistics>;
  /** The field between its samples; NaN where samples are missing. Three numbers a point: indices of full resolution, which may lie between samples. */
  points(selection: Selection, indices: readonly number[], signal?: AbortSignal): Promise<{ readonly values: readonly number[]; readonly maxError: number }>;
  /** The bricks of a field at a step, which share one memory budget and one queue. */
  bricks(opened: Opened, selection: Selection): BrickSource;
}

/** A statistic of the level, and an interval that holds it for the original samples. */
export interface Bounded {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  /** Whether the interval of a percentile holds so many samples that it says little. */
  readonly unresolved: boolean;
}

export interface BoxStatistics {
  /** As it was asked for: another one may be on screen by now. */
  readonly field: string;
  readonly level: number;
  readonly valid: number;
  readonly missing: number;
  readonly min: Bounded;
  readonly max: Bounded;
  readonly mean: Bounded;
  readonly stddev: Bounded;
  readonly percentiles: readonly { readonly percent: number; readonly at: Bounded }[];
  readonly histogram: { readonly begin: number; readonly end: number; readonly counts: readonly number[] } | null;
}

// ---- What the user wants to see: all of it is in the link

export type RangeMode = "auto" | "locked" | "step";

export interface ColourState {
  readonly map: string;
  /** auto: of the step, following it; locked: low and high stay; step: of the step on screen, on each change. */
  readonly mode: RangeMode;
  readonly low: number | null;
  readonly high: number | null;
}

export interface ViewState {
  readonly dataset: string;
  readonly field: string;
  /** "live" follows the newest step. */
  readonly step: number | "live";
  /** Level-0 samples of the grid of the field, as all places here. The three slices pass through it. */
  readonly cursor: Vec3;
  /** The box that is shown; null: the whole grid. */
  readonly clip: Box | null;
  /** All four panes, or one of them: a slice across an axis, or the volume. */
  readonly pane: "all" | "x" | "y" | "z" | "volume";
  /** Longitude and latitude of the eye [degrees], its distance [diagonals of the box]. */
  readonly camera: { readonly azimuth: number; readonly elevation: number; readonly distance: number };
  readonly colour: ColourState;
  /** Share of the colour range from which on the volume is opaque, and how opaque it is, both 0 to 1. */
  readonly volume: { readonly threshold: number; readonly opacity: number; readonly mode: "ray" | "maximum" | "surface" };
  /** The finest level to load; null: as the screen needs. */
  readonly level: number | null;
  /** From one level-0 index to another, not rounded: values are shown along it. Null: none. */
  readonly profile: readonly [Vec3, Vec3] | null;
  /** Beside the main picture; null: nothing. */
  readonly compare: {
    readonly field: string;
    readonly step: number | "live";
    readonly dataset: string;
    readonly difference: boolean;
    /** The finest level to load for it; null: as beside it. A difference is one of equal levels, whatever this is. */
    readonly level: number | null;
  } | null;
}
