import type { Axis, BrickSource, GridInfo } from "../model";
import { axisEnds, gridAxis } from "../render/axes";
import { longAxes } from "../render/layout";
import type { Context } from "../render/overlay";
import { drawPlot, plainAxis, roomFor } from "../render/plot";
import type { Curve } from "../render/plot";
import { lineAlong } from "../render/probe";
import type { Theme } from "../render/theme";
import { clipOf, finestOf } from "./panes";
import type { Pane } from "./panes";
import type { StageInput } from "./scenes";

/** Lines are made of at most so many samples; more would be below the pixels. */
const kMost = 20000;

export function lineAxis(grid: GridInfo): Axis {
  return longAxes(grid)[0] ?? 0;
}

function curveOf(source: BrickSource, side: "a" | "b", input: StageInput, colour: string): Curve {
  const axis = lineAxis(source.grid);
  const box = clipOf(input.state, source.grid);
  const points = lineAlong(source, axis, [0, 0, 0], box.begin[axis], box.end[axis], kMost, finestOf(input.state, side, source.grid));
  const at = gridAxis(source.grid, axis);
  const distinct = points.filter((point, i) => i === 0 || point.index !== points[i - 1]!.index);
  return {
    values: distinct.map((point) => point.value),
    positions: at.even && distinct.length > 4000 ? null : distinct.map((point) => at.position(point.index)),
    colour,
  };
}

export function drawLinePane(context: Context, theme: Theme, pane: Pane, input: StageInput): void {
  const { a, b } = input.feeds;
  if (!a) return;
  const curves = [
    curveOf(a, "a", input, theme.accent),
    ...(b && input.state.compare ? [curveOf(b, "b", input, theme.axes[0])] : []),
  ];
  const axis = lineAxis(a.grid);
  const u = gridAxis(a.grid, axis);
  const box = clipOf(input.state, a.grid);
  const { mode, low, high } = input.state.colour;
  const isLocked = mode === "locked" && low !== null && high !== null && high > low;
  const geometry = {
    plot: pane.room,
    u,
    v: plainAxis(a.field.name, a.field.unit),
    uEnds: axisEnds(u, box.begin[axis], box.end[axis], false),
    vEnds: isLocked ? { from: low, to: high } : roomFor(curves),
  };
  drawPlot(context, theme, geometry, curves, u.position(input.state.cursor[axis]));
}
