/** Lines of values over positions: fields of one dimension, and profiles. */
import type { Ends, GridAxis } from "./axes";
import { xAt, yAt } from "./layout";
import type { SliceGeometry } from "./layout";
import { clipTo, drawAxes, polyline } from "./overlay";
import type { Context } from "./overlay";
import { envelope } from "./probe";
import type { Theme } from "./theme";

export interface Curve {
  /** At even distances over the range, or with positions of their own. */
  readonly values: readonly number[];
  readonly positions: readonly number[] | null;
  readonly colour: string;
}

/** An axis of no grid: its positions are numbers as they are. */
export function plainAxis(name: string, unit: string): GridAxis {
  const numbers = { texts: () => [], position: (i: number) => i, index: (p: number) => p };
  return { samples: 2, name, unit, even: true, descending: false, down: false, ...numbers };
}

/** A little more than the values need, so that the line does not touch the frame. */
export function roomFor(curves: readonly Curve[]): Ends {
  const values = curves.flatMap((curve) => curve.values).filter((value) => Number.isFinite(value));
  const [low, high] = values.reduce<[number, number]>(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
  if (low > high) return { from: 0, to: 1 };
  const margin = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return { from: low - margin, to: high + margin };
}

/** Where a value of a curve is, by its number. */
function curveX(geometry: SliceGeometry, { values, positions }: Curve, i: number): number {
  const { plot } = geometry;
  const last = values.length - 1;
  if (positions) return xAt(geometry, positions[Math.min(last, Math.max(0, i))]!);
  return plot.x + (i / Math.max(1, last)) * plot.width;
}

function drawCurve(context: Context, geometry: SliceGeometry, curve: Curve): void {
  const { plot } = geometry;
  const y = (value: number): number => yAt(geometry, value);
  const x = (i: number): number => curveX(geometry, curve, i);
  context.strokeStyle = curve.colour;
  context.fillStyle = curve.colour;
  context.lineWidth = 1.5;
  context.lineJoin = "round";
  context.beginPath();
  const groups = Math.round(plot.width);
  if (curve.values.length > groups * 3 && !curve.positions) {
    const { low, high } = envelope(curve.values, groups);
    low.forEach((value, i) => {
      if (Number.isNaN(value)) return;
      context.moveTo(plot.x + i + 0.5, y(value) + 0.75);
      context.lineTo(plot.x + i + 0.5, y(high[i]!) - 0.75);
    });
  } else {
    curve.values.forEach((value, i) => {
      if (Number.isNaN(value)) return;
      const first = i === 0 || Number.isNaN(curve.values[i - 1]!);
      const alone = first && (i === curve.values.length - 1 || Number.isNaN(curve.values[i + 1]!));
      if (alone) context.rect(x(i) - 1, y(value) - 1, 2, 2);
      else context[first ? "moveTo" : "lineTo"](x(i), y(value));
    });
  }
  context.stroke();
}

/** Parts of the axis without values are hatched, like missing samples of pictures. */
function drawGaps(context: Context, theme: Theme, geometry: SliceGeometry, curve: Curve): void {
  const { plot } = geometry;
  const n = curve.values.length;
  context.fillStyle = theme.muted;
  context.globalAlpha = 0.22;
  for (let i = 0; i < n; ++i) {
    if (!Number.isNaN(curve.values[i]!)) continue;
    let end = i;
    while (end < n && Number.isNaN(curve.values[end]!)) ++end;
    // From the last value before the gap to the first one after it.
    const [from, to] = [curveX(geometry, curve, i - 1), curveX(geometry, curve, end)];
    context.fillRect(from, plot.y, to - from, plot.height);
    i = end;
  }
  context.globalAlpha = 1;
}

export function drawPlot(
  context: Context,
  theme: Theme,
  geometry: SliceGeometry,
  curves: readonly Curve[],
  mark: number | null,
): void {
  const { plot } = geometry;
  context.fillStyle = theme.background;
  context.fillRect(plot.x, plot.y, plot.width, plot.height);
  drawAxes(context, theme, geometry, [theme.text, theme.text]);
  clipTo(context, plot);
  if (curves[0]) drawGaps(context, theme, geometry, curves[0]);
  for (const curve of curves) drawCurve(context, geometry, curve);
  if (mark !== null) {
    const x = Math.round(xAt(geometry, mark)) + 0.5;
    context.strokeStyle = theme.accent;
    context.lineWidth = 1;
    polyline(context, [[x, plot.y], [x, plot.y + plot.height]]);
  }
  context.restore();
}
