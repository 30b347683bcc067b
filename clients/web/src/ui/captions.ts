/** What is on screen, in words and as commands. */
import type { Vec3 } from "../model";
import { readingAt } from "../render/probe";
import { getCommand, grpcAddress, pythonCommand } from "../state/index";
import type { App } from "./app";
import { clipOf } from "./panes";
import { short, withError } from "./text";

/** What a saved picture shows, in a line. */
export function captionOf(app: App): string {
  const { a } = app.feeds;
  if (!a) return "";
  const { level, maxError } = a.status;
  const bound = maxError === null ? "" : `, error ≤ ${short(maxError, 2)} ${a.field.unit}`;
  const fine = level === null ? "" : ` · level ${level} of ${a.grid.levels - 1}${bound}`;
  return `${a.info.name} · ${a.field.name} · step ${a.selection.step}${fine}`;
}

/** A line for a shell or for Python that reads the box on screen; null while nothing is. */
export function commandOf(app: App, kind: "get" | "python"): string | null {
  const {
    state,
    feeds: { a },
  } = app;
  if (!state || !a) return null;
  const { level, target } = a.status;
  const { stored, layers } = a.field;
  const what = {
    selection: { ...a.selection, field: stored }, box: clipOf(state, a.grid), level: target ?? level ?? 0,
    layer: layers > 1 ? a.field.layer : undefined,
  };
  return (kind === "get" ? getCommand : pythonCommand)(grpcAddress(location, app.grpcPort), what);
}

/** First minus second at a point; null unless the difference is on screen. */
export function differenceText(app: App, index: Vec3): string | null {
  const both = app.difference;
  if (!both) return null;
  const reading = readingAt(both, index);
  if (!reading || reading.missing) return "difference missing, or not there yet";
  return `difference ${withError(reading.value, differenceError(app, reading.level))} ${app.feeds.a?.field.unit ?? ""}`;
}

/** Both fields may be wrong by their own errors. */
export function differenceError(app: App, level: number): number | null {
  const errors = [app.feeds.a, app.feeds.b].map((source) => source?.step.levels[level]?.maxError);
  return errors[0] === undefined || errors[1] === undefined ? null : errors[0] + errors[1];
}
