/** Captions of the view on screen, in words and as commands. */
import type { BrickSource, Vec3 } from "../model";
import { readingAt } from "../render/probe";
import { getCommand, grpcAddress, pythonCommand } from "../state/index";
import type { CopyKind, Shown, Viewed } from "./page";
import { clipOf } from "./panes";
import { short, withError } from "./text";

/** Caption of a saved picture, in a line. */
export function captionOf({ feeds: { a } }: Pick<Shown, "feeds">): string {
  if (!a) return "";
  const { level, maxError } = a.status;
  const bound = maxError === null ? "" : `, error ≤ ${short(maxError, 2)} ${a.field.unit}`;
  const fine = level === null ? "" : ` · level ${level} of ${a.grid.levels - 1}${bound}`;
  return `${a.info.name} · ${a.field.name} · step ${a.selection.step}${fine}`;
}

/** The level that a picture becomes, or is. */
export function levelOf({ status: { target, level } }: Pick<BrickSource, "status">): number {
  return target ?? level ?? 0;
}

/**
 * A line for a shell or for Python that reads the box on screen; null while nothing is.
 * @param grpcPort  of the server; null: not known
 */
export function commandOf(
  { state, feeds: { a } }: Pick<Viewed, "state"> & Pick<Shown, "feeds">,
  kind: Exclude<CopyKind, "link">,
  grpcPort: number | null,
): string | null {
  if (!state || !a) return null;
  const { stored, layers } = a.field;
  const what = {
    selection: { ...a.selection, field: stored }, box: clipOf(state, a.grid), level: levelOf(a),
    layer: layers > 1 ? a.field.layer : undefined,
  };
  return (kind === "get" ? getCommand : pythonCommand)(grpcAddress(location, grpcPort), what);
}

/** First minus second at a point; null unless the difference is on screen. */
export function differenceText(shown: Shown, index: Vec3): string | null {
  const both = shown.difference;
  if (!both) return null;
  const reading = readingAt(both, index);
  if (!reading || reading.missing) return "difference missing, or not there yet";
  const error = differenceError(shown, reading.level);
  return `difference ${withError(reading.value, error)} ${shown.feeds.a?.field.unit ?? ""}`;
}

/** Both fields may be wrong by their own errors. */
export function differenceError({ feeds }: Pick<Shown, "feeds">, level: number): number | null {
  const errors = [feeds.a, feeds.b].map((source) => source?.step.levels[level]?.maxError);
  return errors[0] === undefined || errors[1] === undefined ? null : errors[0] + errors[1];
}
