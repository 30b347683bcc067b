/** Overlay of the pictures: axes, titles, cursor, boxes, legend. The same for the screen and for saved pictures. */
import { intersect, isEmpty, patchBox } from "../geometry";
import type { Axis, Box, GridInfo, Vec3 } from "../model";
import { gridAxis, shareAt, ticksBetween } from "./axes";
import type { GridAxis, Tick } from "./axes";
import { eyeOf, project } from "./camera";
import type { Eye } from "./camera";
import type { Bricks } from "./compose";
import { extents, planeAxes, pointAt, volumeEnds, xAt, yAt } from "./layout";
import type { Rect, SliceGeometry } from "./layout";
import type { Theme } from "./theme";
import type { SliceView, VolumeView } from "./views";

export type Context = CanvasRenderingContext2D;

export interface Marks {
  readonly title: string;
  readonly cursor: Vec3;
  /** A line from one level-0 index to another. */
  readonly profile: readonly [Vec3, Vec3] | null;
  readonly focused: boolean;
}

function crisp(value: number): number {
  return Math.round(value) + 0.5;
}

export function axisLabel(axis: GridAxis): string {
  return axis.unit === "" ? axis.name : `${axis.name} [${axis.unit}]`;
}

function drawTitle(context: Context, theme: Theme, plot: Rect, title: string, room: number): void {
  context.font = `600 12px ${theme.font}`;
  context.fillStyle = theme.text;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.fillText(title, plot.x, plot.y - 8, room);
}

function drawTicks(
  context: Context,
  theme: Theme,
  plot: Rect,
  list: readonly Tick[],
  place: (at: number) => number,
  vertical: boolean,
): void {
  context.strokeStyle = theme.muted;
  context.fillStyle = theme.muted;
  context.textAlign = vertical ? "right" : "center";
  context.textBaseline = vertical ? "middle" : "top";
  for (const tick of list) {
    const at = crisp(place(tick.at) - 0.5);
    context.beginPath();
    if (vertical) {
      context.moveTo(plot.x - 4, at);
      context.lineTo(plot.x, at);
      context.fillText(tick.text, plot.x - 6, at);
    } else {
      context.moveTo(at, plot.y + plot.height);
      context.lineTo(at, plot.y + plot.height + 4);
      context.fillText(tick.text, at, plot.y + plot.height + 6);
    }
    context.stroke();
  }
}

/** Frame, ticks and names of the axes of a slice or a plot. */
export function drawAxes(context: Context, theme: Theme, geometry: SliceGeometry, colours: readonly [string, string]): void {
  const { plot, u, v, uEnds, vEnds } = geometry;
  context.lineWidth = 1;
  context.font = `11px ${theme.font}`;
  context.strokeStyle = theme.line;
  context.strokeRect(plot.x - 0.5, plot.y - 0.5, plot.width + 1, plot.height + 1);
  const toX = (at: number): number => xAt(geometry, at);
  const toY = (at: number): number => yAt(geometry, at);
  drawTicks(context, theme, plot, ticksBetween(uEnds, Math.max(2, Math.floor(plot.width / 64))), toX, false);
  drawTicks(context, theme, plot, ticksBetween(vEnds, Math.max(2, Math.floor(plot.height / 34))), toY, true);
  context.fillStyle = colours[0];
  context.textAlign = "center";
  context.textBaseline = "top";
  context.fillText(axisLabel(u), plot.x + plot.width / 2, plot.y + plot.height + 20);
  context.save();
  context.fillStyle = colours[1];
  context.translate(plot.x - 44, plot.y + plot.height / 2);
  context.rotate(-Math.PI / 2);
  context.fillText(axisLabel(v), 0, 0);
  context.restore();
}

function drawCross(context: Context, view: SliceView, cursor: Vec3, colours: readonly [string, string]): void {
  const { geometry } = view;
  const { plot } = geometry;
  const [ua, va] = planeAxes(view.axis);
  const [x, y] = pointAt(geometry, cursor[ua], cursor[va]);
  const line = (from: readonly [number, number], to: readonly [number, number], colour: string): void => {
    for (const [style, width] of [
      ["rgba(0,0,0,0.32)", 3],
      [colour, 1],
    ] as const) {
      context.strokeStyle = style;
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(...from);
      context.lineTo(...to);
      context.stroke();
    }
  };
  const [cx, cy] = [crisp(x - 0.5), crisp(y - 0.5)];
  const gap = 7;
  context.save();
  context.beginPath();
  context.rect(plot.x, plot.y, plot.width, plot.height);
  context.clip();
  context.globalAlpha = 0.85;
  line([cx, plot.y], [cx, cy - gap], colours[0]);
  line([cx, cy + gap], [cx, plot.y + plot.height], colours[0]);
  line([plot.x, cy], [cx - gap, cy], colours[1]);
  line([cx + gap, cy], [plot.x + plot.width, cy], colours[1]);
  context.restore();
}

function drawProfile(context: Context, theme: Theme, view: SliceView, profile: readonly [Vec3, Vec3]): void {
  const [ua, va] = planeAxes(view.axis);
  const ends = profile.map((end) => pointAt(view.geometry, end[ua], end[va]));
  for (const [style, width] of [
    ["rgba(0,0,0,0.7)", 4],
    [theme.accent, 2],
  ] as const) {
    context.strokeStyle = style;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(...ends[0]!);
    context.lineTo(...ends[1]!);
    context.stroke();
  }
  context.fillStyle = theme.accent;
  for (const [x, y] of ends) {
    context.beginPath();
    context.arc(x, y, 3.5, 0, 7);
    context.fill();
  }
}

export function drawSlice(context: Context, theme: Theme, view: SliceView, marks: Marks): void {
  const [ua, va] = planeAxes(view.axis);
  const colours: readonly [string, string] = [theme.axes[ua], theme.axes[va]];
  drawAxes(context, theme, view.geometry, colours);
  drawTitle(context, theme, view.geometry.plot, marks.title, view.geometry.plot.width);
  drawCross(context, view, marks.cursor, colours);
  if (marks.profile) drawProfile(context, theme, view, marks.profile);
  drawFocus(context, theme, view.geometry.plot, marks.focused);
}

function drawFocus(context: Context, theme: Theme, plot: Rect, focused: boolean): void {
  if (!focused) return;
  context.strokeStyle = theme.accent;
  context.lineWidth = 2;
  context.strokeRect(plot.x - 2, plot.y - 2, plot.width + 4, plot.height + 4);
}

/** Where shares of the box, from 0 to 1 along each axis, are on screen. */
function placer(
  view: VolumeView,
  extent: Vec3,
): { readonly eye: Eye; readonly at: (share: Vec3) => readonly [number, number] | null } {
  const { plot } = view;
  const eye = eyeOf(view.camera, extent, plot.width / plot.height);
  const at = (share: Vec3): readonly [number, number] | null => {
    const seen = project(eye, share.map((s, a) => (s - 0.5) * extent[a]!) as unknown as Vec3);
    return seen && [plot.x + ((seen[0] + 1) / 2) * plot.width, plot.y + ((1 - seen[1]) / 2) * plot.height];
  };
  return { eye, at };
}

function polyline(context: Context, points: readonly (readonly [number, number] | null)[]): void {
  context.beginPath();
  points.forEach((point, i) => {
    if (point) context[i === 0 ? "moveTo" : "lineTo"](...point);
  });
  context.stroke();
}

/** Share of the box at which an index lies, along its axis: from 0 to 1, upwards for the one that stands. */
export function shareOf(grid: GridInfo, clip: Box, axis: Axis, index: number): number {
  return shareAt(volumeEnds(grid, clip, axis), gridAxis(grid, axis).position(index));
}

function corner(axis: Axis, along: number, u: number, v: number): Vec3 {
  const [ua, va] = planeAxes(axis);
  const at = [0, 0, 0];
  [at[axis], at[ua], at[va]] = [along, u, v];
  return at as unknown as Vec3;
}

export function drawVolume(context: Context, theme: Theme, view: VolumeView, marks: Marks): void {
  const { grid } = view.scene.bricks;
  const extent = extents(grid, view.clip);
  const { eye, at } = placer(view, extent);
  context.save();
  context.beginPath();
  context.rect(view.plot.x, view.plot.y, view.plot.width, view.plot.height);
  context.clip();
  drawBox(context, theme, eye, extent, at);
  drawDamage(context, theme, view, at);
  context.lineWidth = 1;
  for (const axis of [0, 1, 2] as const) {
    const share = shareOf(grid, view.clip, axis, marks.cursor[axis]);
    if (share < 0 || share > 1) continue;
    context.strokeStyle = theme.axes[axis];
    context.globalAlpha = 0.55;
    polyline(
      context,
      [
        [0, 0],
        [1, 0],
        [1, 1],
        [0, 1],
        [0, 0],
      ].map(([u, v]) => at(corner(axis, share, u!, v!))),
    );
  }
  context.globalAlpha = 1;
  drawEdgeLabels(context, theme, view, eye, extent, at);
  context.restore();
  drawTitle(context, theme, { ...view.plot, y: view.plot.y }, marks.title, view.plot.width);
  drawFocus(context, theme, view.plot, marks.focused);
}

/** Edges of the box: those behind it are faint. */
function drawBox(
  context: Context,
  theme: Theme,
  eye: Eye,
  extent: Vec3,
  at: (share: Vec3) => readonly [number, number] | null,
): void {
  context.strokeStyle = theme.muted;
  for (const axis of [0, 1, 2] as const) {
    const [ua, va] = planeAxes(axis);
    for (const [u, v] of [
      [0, 0],
      [1, 0],
      [0, 1],
      [1, 1],
    ] as const) {
      const hidden = isHidden(eye, extent, ua, u) && isHidden(eye, extent, va, v);
      context.globalAlpha = hidden ? 0.25 : 0.8;
      context.lineWidth = 1;
      polyline(context, [at(corner(axis, 0, u, v)), at(corner(axis, 1, u, v))]);
    }
  }
  context.globalAlpha = 1;
}

/** More are not told apart. */
const kMostDamaged = 100;

/** The edges of damaged patches, dashed: rays through them show a coarser level or a rougher layer. */
function drawDamage(
  context: Context,
  theme: Theme,
  view: VolumeView,
  at: (share: Vec3) => readonly [number, number] | null,
): void {
  const { bricks } = view.scene;
  context.strokeStyle = theme.text;
  context.lineWidth = 1;
  context.setLineDash([3, 3]);
  for (const patch of [...(bricks.damaged ?? [])].slice(0, kMostDamaged)) {
    const ends = sharesOf(bricks, view.clip, patch);
    if (ends === null) continue;
    for (const axis of [0, 1, 2] as const)
      for (let i = 0; i < 4; ++i) {
        const edge = [0, 1].map((along) => {
          const side = corner(axis, along, i & 1, i >> 1);
          return at(side.map((end, a) => ends[a]![end]!) as unknown as Vec3);
        });
        polyline(context, edge);
      }
  }
  context.setLineDash([]);
}

/** Where a patch begins and ends, along each axis, as shares of the box; null outside of it. */
function sharesOf(bricks: Bricks, clip: Box, patch: number): readonly (readonly [number, number])[] | null {
  const { grid } = bricks;
  const box = intersect(patchBox(grid, patch), clip);
  if (isEmpty(box)) return null;
  return ([0, 1, 2] as const).map((a) => {
    const share = (index: number): number => shareOf(grid, clip, a, index - 0.5);
    return [share(box.begin[a]), share(box.end[a])] as const;
  });
}

/** Whether a face of the box is turned away from the eye. */
function isHidden(eye: Eye, extent: Vec3, axis: Axis, side: 0 | 1): boolean {
  return side === 1 ? eye.at[axis] < extent[axis] / 2 : eye.at[axis] > -extent[axis] / 2;
}

/** Names and ends of the axes, on an edge of each at the outline of the box. */
function drawEdgeLabels(
  context: Context,
  theme: Theme,
  view: VolumeView,
  eye: Eye,
  extent: Vec3,
  at: (share: Vec3) => readonly [number, number] | null,
): void {
  const { grid } = view.scene.bricks;
  const middle = at([0.5, 0.5, 0.5]);
  context.font = `11px ${theme.font}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const axis of [0, 1, 2] as const) {
    const [ua, va] = planeAxes(axis);
    const edges = (
      [
        [0, 0],
        [1, 0],
        [0, 1],
        [1, 1],
      ] as const
    ).filter(([u, v]) => isHidden(eye, extent, ua, u) !== isHidden(eye, extent, va, v));
    const lowest = edges
      .map((edge) => ({ edge, place: at(corner(axis, 0.5, edge[0], edge[1])) }))
      .sort((p, q) => (q.place?.[1] ?? 0) - (p.place?.[1] ?? 0))[0];
    if (!lowest?.place || !middle) continue;
    const away = Math.atan2(lowest.place[1] - middle[1], lowest.place[0] - middle[0]);
    const axisInfo = gridAxis(grid, axis);
    const put = (share: number, text: string, colour: string, far: number): void => {
      const point = at(corner(axis, share, lowest.edge[0], lowest.edge[1]));
      if (!point) return;
      context.fillStyle = colour;
      const half = context.measureText(text).width / 2 + 2;
      const x = Math.max(view.plot.x + half, Math.min(view.plot.x + view.plot.width - half, point[0] + Math.cos(away) * far));
      context.fillText(text, x, point[1] + Math.sin(away) * far);
    };
    const ends = volumeEnds(grid, view.clip, axis);
    for (const tick of ticksBetween(ends, 4)) put(shareAt(ends, tick.at), tick.text, theme.muted, 12);
    put(0.5, axisLabel(axisInfo), theme.axes[axis], 30);
  }
}
