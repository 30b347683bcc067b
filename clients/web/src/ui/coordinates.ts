/** Where a sample is, as fields say that are coordinates: the latitude and the longitude of a curvilinear grid. */
import { errorText } from "../errors";
import { clampPoint, mapVec } from "../geometry";
import type { BrickSource, DatasetInfo, FieldInfo, GridInfo, Opened, Selection, Source, Vec3 } from "../model";
import { longAxes } from "../render/layout";
import { Resting } from "./resting";
import { resolveStep } from "./session";
import { withError, withUnit } from "./text";

/** More have no room in a line. */
const kMost = 4;

/** Whether samples of a grid have one place on another one: along each axis that the other has. Axes of one name are one axis. */
function isAlong(of: GridInfo, to: GridInfo): boolean {
  const axes = longAxes(of);
  const same = (a: 0 | 1 | 2): boolean => of.dims[a] === to.dims[a] && of.axisNames[a] !== "" && of.axisNames[a] === to.axisNames[a];
  return axes.length > 0 && (of === to || axes.every(same));
}

/** The coordinates of a field that is none itself. */
export function coordinatesOf(info: DatasetInfo, field: FieldInfo): readonly FieldInfo[] {
  if (field.coordinate) return [];
  const grid = info.grids[field.grid]!;
  const fits = (one: FieldInfo): boolean => one.coordinate && one.name === one.stored && isAlong(info.grids[one.grid]!, grid);
  return info.fields.filter(fits).slice(0, kMost);
}

interface Subject {
  readonly selection: Selection;
  readonly unit: string;
  readonly grid: GridInfo;
}

/** The coordinates of the field on screen, each at the step on screen or its only one. */
function subjectsOf(opened: Opened, { info, field, selection }: BrickSource): readonly Subject[] {
  return coordinatesOf(info, field).flatMap(({ name, unit, grid }) => {
    const step = resolveStep(opened, name, selection.step);
    return step === null ? [] : [{ selection: { dataset: selection.dataset, field: name, step }, unit, grid: info.grids[grid]! }];
  });
}

/** The sample next to an index; null outside of the grid. */
function sampleAt({ dims }: GridInfo, index: Vec3): Vec3 | null {
  const sample = mapVec((a) => Math.round(index[a]));
  return sample.every((i, a) => i >= 0 && i < dims[a]!) ? sample : null;
}

/** Asks the server for the values at one sample, once it rests: no field is fetched for it. */
export class CoordinateFeed {
  private readonly resting: Resting<string>;
  private opened: Opened | null = null;
  private shown: BrickSource | null = null;
  private subjects: readonly Subject[] = [];

  constructor(onChange: () => void) {
    this.resting = new Resting(onChange);
  }

  /** Description of a sample on screen; empty until then. */
  at(source: Source, opened: Opened, shown: BrickSource, index: Vec3): string {
    if (opened !== this.opened || shown !== this.shown) {
      [this.opened, this.shown] = [opened, shown];
      this.subjects = opened.info === shown.info ? subjectsOf(opened, shown) : [];
    }
    const { subjects } = this;
    const sample = subjects.length === 0 ? null : sampleAt(shown.grid, index);
    // The same sample on a grid that may lack some of the axes.
    const places = sample === null ? [] : subjects.map(({ grid }) => clampPoint(grid, sample));
    const key = places.length === 0 ? "" : JSON.stringify([subjects.map(({ selection }) => selection), places]);
    return this.resting.at(key, (signal) => describe(source, subjects, places, signal)) ?? "";
  }
}

async function describe(source: Source, subjects: readonly Subject[], places: readonly Vec3[], signal: AbortSignal): Promise<string> {
  try {
    return (await Promise.all(subjects.map(async ({ selection, unit }, i) => {
      const { values, maxError } = await source.points(selection, places[i]!, signal);
      const value = values[0] ?? NaN;
      return `${selection.field} ${Number.isNaN(value) ? "missing" : withUnit(withError(value, maxError), unit)}`;
    }))).join("   ");
  } catch (error) {
    return `${subjects.map(({ selection }) => selection.field).join(", ")}: ${errorText(error)}`;
  }
}
