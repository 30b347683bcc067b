import { ticks } from "./axes";
import { mapColour } from "./colourmaps";
import type { Rect } from "./layout";
import { clipTo, polyline } from "./overlay";
import type { Context } from "./overlay";
import type { Theme } from "./theme";

export interface Legend {
  readonly title: string;
  readonly unit: string;
  readonly low: number;
  readonly high: number;
  readonly map: string;
  readonly missing: boolean;
  readonly damaged: boolean;
}

function bar(context: Context, rect: Rect, map: string, vertical: boolean): void {
  const length = vertical ? rect.height : rect.width;
  for (let i = 0; i < length; ++i) {
    const share = (i + 0.5) / length;
    context.fillStyle = `rgb(${mapColour(map, share).join(",")})`;
    if (vertical) context.fillRect(rect.x, rect.y + rect.height - 1 - i, rect.width, 1);
    else context.fillRect(rect.x + i, rect.y, 1, rect.height);
  }
}

/** The same hatching as in the pictures. */
function swatch(context: Context, theme: Theme, x: number, y: number, damaged: boolean): void {
  clipTo(context, { x, y, width: 14, height: 12 });
  const grey = theme.paper.missing.map((c) => Math.round(c * 255)).join(",");
  context.fillStyle = damaged ? theme.background : `rgb(${grey})`;
  context.fillRect(x, y, 14, 12);
  context.lineWidth = 1.5;
  for (let i = -14; i < 28; i += damaged ? 6 : 5) {
    context.strokeStyle = damaged ? theme.text : "rgba(128,128,128,0.9)";
    polyline(context, damaged ? [[x + i, y], [x + i + 12, y + 12]] : [[x + i, y + 12], [x + i + 12, y]]);
  }
  context.restore();
  context.strokeStyle = theme.muted;
  context.lineWidth = 1;
  context.strokeRect(x - 0.5, y - 0.5, 15, 13);
}

function marks(legend: Legend): readonly (readonly [string, boolean])[] {
  return [...(legend.missing ? [["missing", false] as const] : []), ...(legend.damaged ? [["damaged", true] as const] : [])];
}

function drawVertical(context: Context, theme: Theme, legend: Legend, rect: Rect): void {
  const list = marks(legend);
  const plot = {
    x: rect.x + 4,
    y: rect.y + 44,
    width: 14,
    height: Math.max(24, Math.min(360, rect.height - 64 - list.length * 20)),
  };
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.fillStyle = theme.text;
  context.font = `600 12px ${theme.font}`;
  context.fillText(legend.title, rect.x + 4, rect.y + 18, rect.width - 8);
  context.font = `11px ${theme.font}`;
  context.fillStyle = theme.muted;
  if (legend.unit !== "") context.fillText(`[${legend.unit}]`, rect.x + 4, rect.y + 34, rect.width - 8);
  bar(context, plot, legend.map, true);
  context.strokeStyle = theme.line;
  context.strokeRect(plot.x - 0.5, plot.y - 0.5, plot.width + 1, plot.height + 1);
  context.textBaseline = "middle";
  context.strokeStyle = theme.muted;
  context.fillStyle = theme.muted;
  for (const tick of ticks(legend.low, legend.high, Math.max(2, Math.floor(plot.height / 36)))) {
    const y = Math.round(plot.y + plot.height * (1 - (tick.at - legend.low) / (legend.high - legend.low))) + 0.5;
    polyline(context, [[plot.x + plot.width, y], [plot.x + plot.width + 4, y]]);
    context.fillText(tick.text, plot.x + plot.width + 7, y, rect.width - 30);
  }
  list.forEach(([text, damaged], i) => {
    const y = plot.y + plot.height + 16 + i * 20;
    swatch(context, theme, plot.x, y, damaged);
    context.fillStyle = theme.muted;
    context.fillText(text, plot.x + 20, y + 7, rect.width - 26);
  });
}

function drawHorizontal(context: Context, theme: Theme, legend: Legend, rect: Rect): void {
  const list = marks(legend);
  const room = rect.width - 24 - list.length * 76;
  const plot = { x: rect.x + 12, y: rect.y + 20, width: Math.max(40, room), height: 10 };
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.fillStyle = theme.text;
  context.font = `600 11px ${theme.font}`;
  context.fillText(legend.unit === "" ? legend.title : `${legend.title} [${legend.unit}]`, plot.x, rect.y + 14, rect.width - 24);
  bar(context, plot, legend.map, false);
  context.font = `11px ${theme.font}`;
  context.fillStyle = theme.muted;
  context.textBaseline = "top";
  context.textAlign = "center";
  for (const tick of ticks(legend.low, legend.high, Math.max(2, Math.floor(plot.width / 60)))) {
    const x = plot.x + (plot.width * (tick.at - legend.low)) / (legend.high - legend.low);
    context.fillText(tick.text, Math.min(plot.x + plot.width - 8, Math.max(plot.x + 8, x)), plot.y + plot.height + 4);
  }
  context.textAlign = "left";
  list.forEach(([text, damaged], i) => {
    const x = plot.x + plot.width + 12 + i * 76;
    swatch(context, theme, x, plot.y - 2, damaged);
    context.fillStyle = theme.muted;
    context.fillText(text, x + 19, plot.y - 2);
  });
}

export function drawLegends(context: Context, theme: Theme, legends: readonly Legend[], rect: Rect): void {
  const vertical = rect.height > rect.width;
  legends.forEach((legend, i) => {
    const part = vertical
      ? { ...rect, y: rect.y + (rect.height / legends.length) * i, height: rect.height / legends.length }
      : { ...rect, x: rect.x + (rect.width / legends.length) * i, width: rect.width / legends.length };
    (vertical ? drawVertical : drawHorizontal)(context, theme, legend, part);
  });
}
