import type { Axis, GridInfo } from "../model";
import { textOf } from "../model";

/** One axis of a grid. Indices are level-0 samples and need not be whole; positions are in the axis' unit. */
export interface GridAxis {
  readonly samples: number;
  readonly name: string;
  readonly unit: string;
  readonly even: boolean;
  /** Positions become smaller with the index. */
  readonly descending: boolean;
  /** Positions are counted downwards, as depths are: where the axis stands upright on screen, larger ones are lower. */
  readonly down: boolean;
  /** The texts of the sample next to an index, one of each coordinate of text; most axes have none. */
  texts(index: number): readonly string[];
  position(index: number): number;
  index(position: number): number;
}

/** CF: `positive` says which way positions grow, in any case of letters. */
function isDown(grid: GridInfo, axis: Axis): boolean {
  return textOf(grid.axisAttributes[axis], "positive")?.toLowerCase() === "down";
}

/** The members that do not depend on where the samples are. */
function described(grid: GridInfo, axis: Axis): Pick<GridAxis, "samples" | "name" | "unit" | "down" | "texts"> {
  return {
    samples: grid.dims[axis],
    name: grid.axisNames[axis],
    unit: grid.axisUnits[axis],
    down: isDown(grid, axis),
    texts: (index) =>
      grid.axisTexts[axis].map(({ texts }) => texts[Math.round(index)] ?? "").filter((text) => text !== ""),
  };
}

function evenAxis(grid: GridInfo, axis: Axis): GridAxis {
  const origin = grid.origin[axis];
  const spacing = grid.spacing[axis] === 0 ? 1 : grid.spacing[axis];
  return {
    ...described(grid, axis),
    even: true,
    descending: spacing < 0,
    position: (index) => origin + index * spacing,
    index: (position) => (position - origin) / spacing,
  };
}

/** The interval of samples, of the `count - 1` there are, that holds a position. */
function interval(at: Float64Array, position: number, descending: boolean): number {
  let low = 0;
  let high = at.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (at[middle]! <= position !== descending) low = middle;
    else high = middle;
  }
  return low;
}

function unevenAxis(grid: GridInfo, axis: Axis, at: Float64Array): GridAxis {
  const descending = at[0]! > at[at.length - 1]!;
  return {
    ...described(grid, axis),
    even: false,
    descending,
    position: (index) => {
      const low = Math.min(at.length - 2, Math.max(0, Math.floor(index)));
      return at[low]! + (index - low) * (at[low + 1]! - at[low]!);
    },
    index: (position) => {
      const low = interval(at, position, descending);
      return low + (position - at[low]!) / (at[low + 1]! - at[low]!);
    },
  };
}

export function gridAxis(grid: GridInfo, axis: Axis): GridAxis {
  const at = grid.coordinates[axis];
  return at && at.length > 1 ? unevenAxis(grid, axis, at) : evenAxis(grid, axis);
}

/** The visible range of an axis: from its left end to its right one, or from its lower end to its upper one. */
export interface Ends {
  readonly from: number;
  readonly to: number;
}

/**
 * Whether indices fall from the first end on screen to the other one. All that is drawn, and all that pointer and keys do,
 * follows from this. What counts is the position: depths that descend with the index rise with it on screen.
 * @param upright  whether the axis stands on screen, and does not lie
 */
export function isTurned(axis: GridAxis, upright: boolean): boolean {
  return axis.descending !== (upright && axis.down);
}

/** Indices at the ends of the visible range: each sample is shown with the half of the way to its neighbours. */
export function indexEnds(axis: GridAxis, begin: number, end: number, upright: boolean): Ends {
  return isTurned(axis, upright) ? { from: end - 0.5, to: begin - 0.5 } : { from: begin - 0.5, to: end - 0.5 };
}

/** Positions at these ends. */
export function axisEnds(axis: GridAxis, begin: number, end: number, upright: boolean): Ends {
  const { from, to } = indexEnds(axis, begin, end, upright);
  return { from: axis.position(from), to: axis.position(to) };
}

/** How far a position is from the first end, as a share of the way to the other one. */
export function shareAt({ from, to }: Ends, position: number): number {
  return (position - from) / (to - from);
}

export function positionAt({ from, to }: Ends, share: number): number {
  return from + share * (to - from);
}

export interface Tick {
  readonly at: number;
  readonly text: string;
}

/** The least of 1, 2, 5 times a power of ten that makes at most `most` steps of a length. */
export function niceStep(length: number, most: number): number {
  const rough = length / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  for (const factor of [1, 2, 5]) if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/** A number as the page writes it: with a minus, and without a plus in its power of ten. */
export function typeset(text: string): string {
  return text.replace("e+", "e").replace("-", "−").replace("e-", "e−");
}

/** Numbers with the digits that tell neighbours at a distance `step` apart. */
export function tickText(value: number, step: number): string {
  const size = Math.max(Math.abs(value), step);
  if (size >= 1e6 || size < 1e-3) {
    const digits = Math.max(0, Math.floor(Math.log10(size)) - Math.floor(Math.log10(step) + 1e-9));
    return value === 0 ? "0" : typeset(value.toExponential(digits));
  }
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return typeset(value.toFixed(digits));
}

/** Ticks between two ends, whichever is the larger. */
export function ticksBetween({ from, to }: Ends, most: number): readonly Tick[] {
  return ticks(Math.min(from, to), Math.max(from, to), most);
}

/** Round numbers of a range, with at most `most` steps between them. Empty for a range without length. */
export function ticks(low: number, high: number, most: number): readonly Tick[] {
  if (!(high > low) || !Number.isFinite(high - low)) return [];
  const step = niceStep(high - low, most);
  const result: Tick[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && result.length <= most + 1; ++i) {
    const at = i === 0 ? 0 : i * step;
    result.push({ at, text: tickText(at, step) });
  }
  return result;
}
