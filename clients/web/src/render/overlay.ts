/** Overlay of the pictures: axes, titles, cursor, boxes, legend. The same for the screen and for saved pictures. */
import { intersect, isEmpty, kAxes, mapVec, patchBox } from "../geometry";
import type { Axis, Box, GridInfo, Vec3 } from "../model";
import { gridAxis, shareAt, ticksBetween } from "./axes";
import type { GridAxis, Tick } from "./axes";
import { eyeOf, project } from "./camera";
import type { Eye } from "./camera";
import type { Bricks } from "./compose";
import { extents, kCorners, planeAxes, pointAt, pointOn, volumeEnds, xAt, yAt } from "./layout";
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

type Point = readonly [number, number];

export function polyline(context: Context, points: readonly (Point | null)[]): void {
  context.beginPath();
  points.forEach((point, i) => {
    if (point) context[i === 0 ? "moveTo" : "lineTo"](...point);
  });
  context.stroke();
}

/** A line that is seen on all colours. */
function contrasted(context: Context, points: readonly Point[], shadow: string, colour: string, width: number): void {
  for (const [style, wide] of [[shadow, width + 2], [colour, width]] as const) {
    context.strokeStyle = style;
    context.lineWidth = wide;
    polyline(context, points);
  }
}

/** Nothing is drawn outside of the rectangle until the context is restored. */
export function clipTo(context: Context, { x, y, width, height }: Rect): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
}

function crisp(value: number): number {
  return Math.round(value) + 0.5;
}

export function axisLabel(axis: GridAxis): string {
  return axis.unit === "" ? axis.name : `${axis.name} [${axis.unit}]`;
}

function drawTitle(context: Context, theme: Theme, plot: Rect, title: string): void {
  context.font = `600 12px ${theme.font}`;
  context.fillStyle = theme.text;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.fillText(title, plot.x, plot.y - 8, plot.width);
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
    const end = plot.y + plot.height;
    polyline(context, vertical ? [[plot.x - 4, at], [plot.x, at]] : [[at, end], [at, end + 4]]);
    if (vertical) context.fillText(tick.text, plot.x - 6, at);
    else context.fillText(tick.text, at, end + 6);
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
  const line = (from: Point, to: Point, colour: string): void => {
    contrasted(context, [from, to], "rgba(0,0,0,0.32)", colour, 1);
  };
  const [cx, cy] = [crisp(x - 0.5), crisp(y - 0.5)];
  const gap = 7;
  clipTo(context, plot);
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
  contrasted(context, ends, "rgba(0,0,0,0.7)", theme.accent, 2);
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
  drawTitle(context, theme, view.geometry.plot, marks.title);
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

/** The box of a volume on screen. */
interface Placed {
  readonly eye: Eye;
  readonly extent: Vec3;
  /** Where shares of the box are, from 0 to 1 along each axis; null behind the eye. */
  readonly at: (share: Vec3) => Point | null;
}

function placed({ plot, camera, clip, scene }: VolumeView): Placed {
  const extent = extents(scene.bricks.grid, clip);
  const eye = eyeOf(camera, extent, plot.width / plot.height);
  const at = (share: Vec3): Point | null => {
    const seen = project(eye, mapVec((a) => (share[a] - 0.5) * extent[a]));
    return seen && [plot.x + ((seen[0] + 1) / 2) * plot.width, plot.y + ((1 - seen[1]) / 2) * plot.height];
  };
  return { eye, extent, at };
}

/** Share of the box at which an index lies, along its axis: from 0 to 1, upwards for the one that stands. */
export function shareOf(grid: GridInfo, clip: Box, axis: Axis, index: number): number {
  return shareAt(volumeEnds(grid, clip, axis), gridAxis(grid, axis).position(index));
}

/** Around a rectangle, in shares of its sides. */
const kOutline = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]] as const;

export function drawVolume(context: Context, theme: Theme, view: VolumeView, marks: Marks): void {
  const box = placed(view);
  clipTo(context, view.plot);
  drawBox(context, theme, box);
  drawDamage(context, theme, view, box);
  context.lineWidth = 1;
  for (const axis of kAxes) {
    const share = shareOf(view.scene.bricks.grid, view.clip, axis, marks.cursor[axis]);
    if (share < 0 || share > 1) continue;
    context.strokeStyle = theme.axes[axis];
    context.globalAlpha = 0.55;
    polyline(context, kOutline.map(([u, v]) => box.at(pointOn(axis, share, u, v))));
  }
  context.globalAlpha = 1;
  drawEdgeLabels(context, theme, view, box);
  context.restore();
  drawTitle(context, theme, view.plot, marks.title);
  drawFocus(context, theme, view.plot, marks.focused);
}

/** Edges of the box: those behind it are faint. */
function drawBox(context: Context, theme: Theme, { eye, extent, at }: Placed): void {
  context.strokeStyle = theme.muted;
  context.lineWidth = 1;
  for (const axis of kAxes) {
    const [ua, va] = planeAxes(axis);
    for (const [u, v] of kCorners) {
      const hidden = isHidden(eye, extent, ua, u) && isHidden(eye, extent, va, v);
      context.globalAlpha = hidden ? 0.25 : 0.8;
      polyline(context, [at(pointOn(axis, 0, u, v)), at(pointOn(axis, 1, u, v))]);
    }
  }
  context.globalAlpha = 1;
}

/** More are not told apart. */
const kMostDamaged = 100;

/** The edges of damaged patches, dashed: rays through them show a coarser level or a rougher layer. */
function drawDamage(context: Context, theme: Theme, view: VolumeView, { at }: Placed): void {
  const { bricks } = view.scene;
  context.strokeStyle = theme.text;
  context.lineWidth = 1;
  context.setLineDash([3, 3]);
  for (const patch of [...(bricks.damaged ?? [])].slice(0, kMostDamaged)) {
    const ends = sharesOf(bricks, view.clip, patch);
    if (ends === null) continue;
    for (const axis of kAxes)
      for (const [u, v] of kCorners) {
        const edge = [0, 1].map((along) => {
          const side = pointOn(axis, along, u, v);
          return at(mapVec((a) => ends[a]![side[a]]!));
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
  return kAxes.map((a) => {
    const share = (index: number): number => shareOf(grid, clip, a, index - 0.5);
    return [share(box.begin[a]), share(box.end[a])] as const;
  });
}

/** Whether a face of the box is turned away from the eye. */
function isHidden(eye: Eye, extent: Vec3, axis: Axis, side: 0 | 1): boolean {
  return side === 1 ? eye.at[axis] < extent[axis] / 2 : eye.at[axis] > -extent[axis] / 2;
}

/** Names and ends of the axes, on an edge of each at the outline of the box. */
function drawEdgeLabels(context: Context, theme: Theme, view: VolumeView, { eye, extent, at }: Placed): void {
  const { grid } = view.scene.bricks;
  const middle = at([0.5, 0.5, 0.5]);
  context.font = `11px ${theme.font}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const axis of kAxes) {
    const [ua, va] = planeAxes(axis);
    const edges = kCorners.filter(([u, v]) => isHidden(eye, extent, ua, u) !== isHidden(eye, extent, va, v));
    const lowest = edges
      .map((edge) => ({ edge, place: at(pointOn(axis, 0.5, edge[0], edge[1])) }))
      .sort((p, q) => (q.place?.[1] ?? 0) - (p.place?.[1] ?? 0))[0];
    if (!lowest?.place || !middle) continue;
    const away = Math.atan2(lowest.place[1] - middle[1], lowest.place[0] - middle[0]);
    const axisInfo = gridAxis(grid, axis);
    const put = (share: number, text: string, colour: string, far: number): void => {
      const point = at(pointOn(axis, share, lowest.edge[0], lowest.edge[1]));
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
