/** The pictures and their overlay: decides their layout and needs, and draws them. */
import { shapeOf } from "../geometry";
import type { Box, BrickSource, Vec3, ViewState, Want } from "../model";
import { gridAxis } from "../render/axes";
import { sliceLevelWithin } from "../render/compose";
import { drawLegends } from "../render/legend";
import { levelForPixels, longAxes, planeAxes, sliceGeometry } from "../render/layout";
import type { Rect } from "../render/layout";
import { drawSlice, drawVolume } from "../render/overlay";
import type { Context } from "../render/overlay";
import { Renderer } from "../render/renderer";
import { readTheme } from "../render/theme";
import type { Theme } from "../render/theme";
import { levelWithin } from "../render/volume";
import type { Scene, Stage as RenderStage, View } from "../render/views";
import { h, pixelRatio, setAttribute } from "./dom";
import { drawLinePane, lineAxis } from "./linepane";
import { axisOf, clipOf, finestOf, kNarrow, layOut, sidesOf, visibleKinds } from "./panes";
import type { Pane, PaneKind } from "./panes";
import type { StageInput } from "./scenes";
import { placeText } from "./text";
import { wantsOf } from "./wants";

/**
 * Pixels along the longest edge of a volume, as a share of its pane, of which each is worth a sample. The edge itself takes
 * 0.55 of the pane, seen from a corner; rays pass many samples, so that one for two pixels is enough.
 */
const kVolumePixels = 0.4;
/** Volumes have at most so many samples on the graphics card. */
const kVolumeSamples = { card: 2 ** 25, software: 2 ** 24 };

export class Stage {
  readonly root: HTMLElement;
  readonly renderer: Renderer;
  readonly panes: HTMLElement;
  private readonly overlay: HTMLCanvasElement;
  private readonly context: Context;
  private theme: Theme;
  private input: StageInput | null = null;
  private places: readonly Pane[] = [];
  private views: readonly View[] = [];
  private waiting = 0;
  focused: string | null = null;

  constructor(onResize: () => void) {
    const canvas = h("canvas", { class: "pictures", "aria-hidden": "true" });
    this.overlay = h("canvas", { class: "overlay", "aria-hidden": "true" });
    this.panes = h("div", { class: "panes" });
    this.root = h("div", { class: "stage" }, canvas, this.overlay, this.panes);
    this.context = this.overlay.getContext("2d")!;
    this.renderer = new Renderer(canvas);
    this.theme = readTheme(document.documentElement);
    new ResizeObserver(onResize).observe(this.root);
  }

  get layout(): readonly Pane[] {
    return this.places;
  }

  get shown(): readonly View[] {
    return this.views;
  }

  get colours(): Theme {
    return this.theme;
  }

  readColours(): void {
    this.theme = readTheme(document.documentElement);
  }

  get narrow(): boolean {
    return this.root.clientWidth < kNarrow;
  }

  private legendRect(): Rect {
    const { clientWidth: width, clientHeight: height } = this.root;
    return this.narrow ? { x: 0, y: height - 52, width, height: 52 } : { x: width - 84, y: 0, width: 84, height };
  }

  private picturesRect(): Rect {
    const legend = this.legendRect();
    const { clientWidth: width, clientHeight: height } = this.root;
    return this.narrow ? { x: 0, y: 0, width, height: legend.y } : { x: 0, y: 0, width: legend.x, height };
  }

  renderStage(): RenderStage {
    return {
      width: this.root.clientWidth,
      height: this.root.clientHeight,
      ratio: pixelRatio(),
      paper: this.theme.paper,
    };
  }

  /** Takes the things to be shown, and returns their needs. */
  update(input: StageInput): void {
    this.input = input;
    const source = input.feeds.a ?? input.feeds.b;
    if (this.root.clientWidth === 0) return;
    // A field without a step shows nothing: the picture that was there is another field's.
    this.places = source ? this.place(source, input.state) : [];
    this.views = this.places.flatMap((pane) => this.viewOf(pane, input) ?? []);
    this.renderer.show(this.views, this.renderStage());
    this.placeElements(input);
    this.redraw();
  }

  private place(source: BrickSource, state: ViewState): readonly Pane[] {
    const { grid } = source;
    const clip = clipOf(state, grid);
    const size = (kind: PaneKind, room: Rect): number => {
      const axis = axisOf(kind);
      if (axis === null) return Math.min(room.width, room.height * 1.3);
      const { plot } = sliceGeometry(grid, axis, clip, room);
      return Math.sqrt(plot.width * plot.height);
    };
    return layOut(visibleKinds(grid, state.pane, this.narrow), sidesOf(state.compare), this.picturesRect(), size);
  }

  private viewOf(pane: Pane, input: StageInput): View | null {
    const scene = pane.kind === "line" ? null : input.scenes.scene(input.feeds, pane.side, input.state);
    if (!scene) return null;
    const { state } = input;
    const { grid } = scene.bricks;
    const clip = clipOf(state, grid);
    const axis = axisOf(pane.kind);
    const key = `${pane.kind}-${pane.side}`;
    const finest = finestOf(state, pane.side, grid);
    if (axis === null) {
      const level = Math.max(finest, this.volumeLevel(scene, clip, pane.room));
      return { kind: "volume", key, scene, clip, level, plot: pane.room, camera: state.camera, volume: state.volume };
    }
    const geometry = sliceGeometry(grid, axis, clip, pane.room);
    const [ua, va] = planeAxes(axis);
    const { ratio } = this.renderStage();
    const level = Math.max(
      finest,
      Math.min(
        levelForPixels(clip.end[ua] - clip.begin[ua], geometry.plot.width * ratio, grid.levels),
        levelForPixels(clip.end[va] - clip.begin[va], geometry.plot.height * ratio, grid.levels),
      ),
    );
    const index = Math.min(grid.dims[axis] - 1, state.cursor[axis]);
    return { kind: "slice", key, scene, clip, level: sliceLevelWithin(scene.bricks, axis, clip, level), axis, index, geometry };
  }

  /** As fine as the pixels of the pane, and as the memory of the graphics card allows. */
  private volumeLevel(scene: Scene, clip: Box, room: Rect): number {
    const { grid } = scene.bricks;
    const longest = Math.max(...shapeOf(clip));
    const pixels = Math.min(room.width, room.height) * this.renderStage().ratio;
    const level = levelForPixels(longest, pixels * kVolumePixels, grid.levels);
    return levelWithin(grid, clip, level, this.renderer.software ? kVolumeSamples.software : kVolumeSamples.card);
  }

  /** Needs of a field that is to be shown on a side, as if it were there already. */
  wants(source: BrickSource, side: "a" | "b", input: StageInput): readonly Want[] {
    const feeds = { ...input.feeds, [side]: source };
    const mine = this.place(source, input.state).filter((pane) => pane.side === side || pane.side === "difference");
    if (mine.some((pane) => pane.kind === "line")) return [this.lineWant(source, side, input)];
    const views = mine.flatMap((pane) => this.viewOf({ ...pane, side }, { ...input, feeds }) ?? []);
    // A difference is one of samples as stored.
    const compared = mine.some((pane) => pane.side === "difference");
    return wantsOf(views, input.state.cursor, input.moving, compared ? null : source.field.type);
  }

  private lineWant(source: BrickSource, side: "a" | "b", { state }: StageInput): Want {
    const { grid } = source;
    const box = clipOf(state, grid);
    const axis = lineAxis(grid);
    const level = levelForPixels((box.end[axis] - box.begin[axis]) / 4, this.root.clientWidth, grid.levels);
    return { box, level: Math.max(finestOf(state, side, grid), level), focus: state.cursor, tier: "visible" };
  }

  /** The overlay is drawn in the next frame. */
  redraw(): void {
    if (this.waiting === 0)
      this.waiting = requestAnimationFrame(() => {
        this.waiting = 0;
        this.drawOverlay();
      });
  }

  private drawOverlay(): void {
    const { width, height, ratio } = this.renderStage();
    const [w, d] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.overlay.width !== w || this.overlay.height !== d) [this.overlay.width, this.overlay.height] = [w, d];
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
    this.drawOver(this.context);
  }

  /** Axes, cursor and legend, also into a picture that is saved. */
  drawOver(context: Context): void {
    const { input } = this;
    if (!input) return;
    for (const pane of this.places) if (pane.kind === "line") drawLinePane(context, this.theme, pane, input);
    for (const view of this.views) {
      const marks = {
        title: titleOf(view, this.places, input),
        cursor: input.state.cursor,
        profile: this.profileOn(view, input),
        focused: this.focused === view.key,
      };
      if (view.kind === "slice") drawSlice(context, this.theme, view, marks);
      else drawVolume(context, this.theme, view, marks);
    }
    if (this.places.some((pane) => pane.kind === "line")) return;
    const legends = sidesOf(input.state.compare).flatMap((side) => {
      const scene = input.scenes.scene(input.feeds, side, input.state);
      return scene ? [input.scenes.legend(input.feeds, side, scene)] : [];
    });
    const same = legends.length === 2 && legends[0]!.title === legends[1]!.title && legends[0]!.low === legends[1]!.low;
    drawLegends(context, this.theme, same ? legends.slice(0, 1) : legends, this.legendRect());
  }

  private profileOn(view: View, input: StageInput): readonly [Vec3, Vec3] | null {
    if (view.kind !== "slice" || !input.state.profile) return null;
    const { profile } = input.state;
    return profile.every((end) => Math.abs(end[view.axis] - view.index) < 1) ? profile : null;
  }

  /** The elements that take pointer and keys, over the pictures. */
  private placeElements(input: StageInput): void {
    const keys = this.places.map((pane) => `${pane.kind}-${pane.side}`);
    for (const element of [...this.panes.children]) if (!keys.includes(element.id.slice(5))) element.remove();
    for (const pane of this.places) {
      const id = `pane-${pane.kind}-${pane.side}`;
      let element = document.getElementById(id);
      if (!element) {
        element = h("div", {
          id,
          class: "pane",
          tabindex: 0,
          role: "application",
          "data-kind": pane.kind,
          "data-side": pane.side,
        });
        this.panes.append(element);
      }
      Object.assign(element.style, {
        left: `${pane.cell.x}px`,
        top: `${pane.cell.y}px`,
        width: `${pane.cell.width}px`,
        height: `${pane.cell.height}px`,
      });
      setAttribute(element, "aria-label", labelOf(pane, this.views.find((view) => view.key === `${pane.kind}-${pane.side}`), input));
    }
  }
}

/** Titles have levels where levels are compared. */
function levelText(view: View, { state: { compare } }: StageInput): string {
  return compare === null || compare.level === null ? "" : `, level ${view.level}`;
}

function sideTitle(pane: Pane, view: View, input: StageInput): string {
  const { feeds, state } = input;
  if (state.compare === null) return "";
  const name = (source: BrickSource | null): string =>
    source
      ? [
          source.field.name,
          `step ${source.selection.step}`,
          ...(feeds.a?.info.name === source.info.name ? [] : [source.info.name]),
        ].join(", ")
      : "";
  if (pane.side === "difference") return `${name(feeds.a)} − ${name(feeds.b)}: `;
  return `${name(feeds[pane.side])}${levelText(view, input)}: `;
}

export function titleOf(view: View, panes: readonly Pane[], input: StageInput): string {
  const pane = panes.find((each) => `${each.kind}-${each.side}` === view.key);
  const side = pane ? sideTitle(pane, view, input) : "";
  if (view.kind === "volume") return `${side}volume`;
  const axis = gridAxis(view.scene.bricks.grid, view.axis);
  if (longAxes(view.scene.bricks.grid).length < 3) return side.replace(/: $/, "") || (input.feeds.a?.field.name ?? "");
  return `${side}${axis.name} = ${placeText(axis, view.index)}`;
}

const kPaneNames: Readonly<Record<PaneKind, string>> = {
  x: "slice across x",
  y: "slice across y",
  z: "slice across z",
  volume: "volume",
  line: "line plot",
};

function labelOf(pane: Pane, view: View | undefined, input: StageInput): string {
  const keys =
    pane.kind === "volume"
      ? "arrow keys turn, plus and minus zoom"
      : pane.kind === "line"
        ? "arrow keys move the cursor"
        : "arrow keys move the cursor, page up and down move the slice, plus and minus zoom";
  const source = pane.side === "b" ? input.feeds.b : input.feeds.a;
  const more = pane.side === "difference" ? ", difference" : view ? levelText(view, input) : "";
  const what = `${source?.field.name ?? "the field"}${more}`;
  return `${kPaneNames[pane.kind]} of ${what}; ${keys}`;
}
