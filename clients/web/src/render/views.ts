import type { Axis, Box, ViewState } from "../model";
import type { Camera } from "./camera";
import type { Bricks, Scale } from "./compose";
import type { Rect, SliceGeometry } from "./layout";

/** A field as it is drawn. */
export interface Scene {
  readonly bricks: Bricks;
  readonly scale: Scale;
  readonly hasMissing: boolean;
  /** Colour range, in the unit of the field. */
  readonly low: number;
  readonly high: number;
  readonly map: string;
}

export interface SliceView {
  readonly kind: "slice";
  /** The picture that a view with the same key goes on with. */
  readonly key: string;
  readonly scene: Scene;
  readonly clip: Box;
  readonly level: number;
  readonly axis: Axis;
  readonly index: number;
  readonly geometry: SliceGeometry;
}

export interface VolumeView {
  readonly kind: "volume";
  readonly key: string;
  readonly scene: Scene;
  readonly clip: Box;
  readonly level: number;
  readonly plot: Rect;
  readonly camera: Camera;
  readonly volume: ViewState["volume"];
}

export type View = SliceView | VolumeView;

/** Colours of the page that pictures share, red, green, blue from 0 to 1. */
export interface Paper {
  readonly background: readonly [number, number, number];
  readonly missing: readonly [number, number, number];
}

export interface Stage {
  /** CSS pixels. */
  readonly width: number;
  readonly height: number;
  /** Device pixels of a CSS pixel. */
  readonly ratio: number;
  readonly paper: Paper;
}

export function plotOf(view: View): Rect {
  return view.kind === "slice" ? view.geometry.plot : view.plot;
}

/** A rectangle of the stage in device pixels, from the left bottom corner. */
export function devicePixels(stage: Stage, rect: Rect): Rect {
  const { ratio, height } = stage;
  const x = Math.round(rect.x * ratio);
  const y = Math.round((height - rect.y - rect.height) * ratio);
  return { x, y, width: Math.round((rect.x + rect.width) * ratio) - x, height: Math.round((height - rect.y) * ratio) - y };
}

/** Offset and factor from drawn values to shares of the colour range. */
export function colourScale(scene: Scene): readonly [number, number] {
  const { low: least, high: most } = scene.scale;
  const length = most > least ? most - least : 1;
  const range = scene.high > scene.low ? scene.high - scene.low : length;
  return [(scene.low - least) / length, length / range];
}
