import type { Brick } from "../model";
import { pixelIndices, planeAxes } from "./layout";
import type { Rect } from "./layout";
import { kColourMaps, kMapEntries, mapRow, mapTable } from "./colourmaps";
import type { Bricks } from "./compose";
import { bind, GlError, isSoftware, makeProgram, texture2d } from "./gl";
import type { Gl, Program, Target } from "./gl";
import { kCopyFragment, kFullVertex, kSliceFragment, kVolumeLevels, volumeFragment } from "./shaders";
import type { VolumeVariant } from "./shaders";
import { SlicePicture } from "./slice";
import { colourScale, devicePixels, plotOf } from "./views";
import type { SliceView, Stage, View, VolumeView } from "./views";
import { VolumePicture } from "./volume";
import { VolumePainter } from "./volumepainter";

/** Milliseconds of a frame for composing slices, and as many for uploading volumes; the rest waits for the next one. */
const kFrameWork = 8;
/**
 * Milliseconds between pictures that differ by bricks alone: in software, drawing costs more than the news is worth.
 */
const kBetween = { card: 0, software: 60 };
/** From a finished picture until it is on screen. */
const kFramesToScreen = 2;

interface SliceSlot {
  readonly kind: "slice";
  readonly picture: SlicePicture;
  readonly view: SliceView;
  stale: boolean;
}

interface VolumeSlot {
  readonly kind: "volume";
  readonly painter: VolumePainter;
  readonly view: VolumeView;
  stale: boolean;
}

type Slot = SliceSlot | VolumeSlot;

interface Tools {
  readonly slice: Program;
  readonly copy: Program;
  /** By variant. */
  readonly volumes: Map<string, Program>;
  readonly maps: WebGLTexture;
  readonly columns: WebGLTexture;
  readonly rows: WebGLTexture;
}

const kLongestSide = 8192;

/** All pictures of the page, on one canvas below its panes. */
export class Renderer {
  readonly software: boolean;
  private readonly gl: Gl;
  private tools: Tools | null = null;
  private stage: Stage | null = null;
  private readonly slots = new Map<string, Slot>();
  private views: readonly View[] = [];
  private requested = 0;
  private cleared = false;
  /** When the last frame was begun. [ms] */
  private drawn = -Infinity;
  /** Signalled once the first slices are drawn. */
  private firstSlices: WebGLSync | null = null;
  /** Frames until they are on screen; null before they are drawn. */
  private framesToScreen: number | null = null;

  /** Called after each frame that has changed something on screen. */
  onFrame: () => void = () => undefined;
  /** Called when the graphics context is lost, and when it is back. */
  onContext: (lost: boolean) => void = () => undefined;

  constructor(readonly canvas: HTMLCanvasElement) {
    const gl = canvas.getContext("webgl2", {
      alpha: false,
      antialias: false,
      depth: false,
      stencil: false,
      preserveDrawingBuffer: true,
    });
    if (!gl) throw new GlError("this browser has no WebGL2, or it is turned off; use a recent Chrome, Edge, Firefox or Safari");
    this.gl = gl;
    this.software = isSoftware(gl);
    this.tools = this.makeTools();
    canvas.addEventListener("webglcontextlost", (event) => {
      event.preventDefault();
      this.forget();
      this.onContext(true);
    });
    canvas.addEventListener("webglcontextrestored", () => {
      this.onContext(false);
      if (this.stage) this.show(this.views, this.stage);
    });
  }

  /** Everything is drawn again from bricks in memory. */
  private forget(): void {
    this.slots.clear();
    this.tools = null;
    this.cleared = false;
    this.firstSlices = null;
    this.framesToScreen = null;
  }

  private makeTools(): Tools {
    const { gl } = this;
    const maps = texture2d(gl, { format: gl.RGBA8, linear: true }, kMapEntries, kColourMaps.length);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, kMapEntries, kColourMaps.length, gl.RGBA, gl.UNSIGNED_BYTE, mapTable());
    const line = (): WebGLTexture => texture2d(gl, { format: gl.R32F, linear: false }, kLongestSide, 1);
    return {
      slice: makeProgram(gl, kFullVertex, kSliceFragment),
      copy: makeProgram(gl, kFullVertex, kCopyFragment),
      volumes: new Map(),
      maps,
      columns: line(),
      rows: line(),
    };
  }

  /** Replaces the views on screen. Pictures of views with the same key continue. */
  show(views: readonly View[], stage: Stage): void {
    this.views = views;
    const old = this.stage;
    this.stage = stage;
    if (this.gl.isContextLost()) return;
    this.tools ??= this.makeTools();
    const [width, height] = [Math.round(stage.width * stage.ratio), Math.round(stage.height * stage.ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
      this.cleared = false;
    }
    const places = (list: readonly View[]): string => JSON.stringify(list.map((view) => plotOf(view)));
    if (old?.paper !== stage.paper || places([...this.slots.values()].map((slot) => slot.view)) !== places(views))
      this.cleared = false;
    for (const [key, slot] of this.slots)
      if (!views.some((view) => view.key === key && view.kind === slot.kind)) this.drop(key, slot);
    for (const view of views) this.place(view, stage);
    this.request();
  }

  private drop(key: string, slot: Slot): void {
    (slot.kind === "slice" ? slot.picture : slot.painter).free();
    this.slots.delete(key);
  }

  private place(view: View, stage: Stage): void {
    const slot = this.slots.get(view.key);
    if (view.kind === "slice") {
      const picture = slot?.kind === "slice" ? slot.picture : new SlicePicture(this.gl);
      picture.set({ ...view.scene, ...view });
      this.slots.set(view.key, { kind: "slice", picture, view, stale: true });
    } else {
      const painter = slot?.kind === "volume" ? slot.painter : this.makePainter();
      painter.picture.set({ ...view.scene, ...view });
      painter.set(view, stage);
      this.slots.set(view.key, { kind: "volume", painter, view, stale: true });
    }
  }

  private makePainter(): VolumePainter {
    const { volumes } = this.tools!;
    const programs = (variant: VolumeVariant): Program => {
      const key = JSON.stringify(variant);
      const program = volumes.get(key) ?? makeProgram(this.gl, kFullVertex, volumeFragment(variant));
      volumes.set(key, program);
      return program;
    };
    return new VolumePainter(this.gl, programs, new VolumePicture(this.gl), this.software);
  }

  /** Bricks of a field have arrived. */
  add(source: Bricks, bricks: readonly Brick[]): void {
    for (const slot of this.slots.values()) {
      if (slot.view.scene.bricks !== source) continue;
      (slot.kind === "slice" ? slot : slot.painter).picture.add(bricks);
    }
    this.request();
  }

  /** All bricks of a field that are wanted have arrived. */
  rest(source: Bricks): void {
    for (const slot of this.slots.values()) if (slot.kind === "volume" && slot.view.scene.bricks === source) slot.painter.rest();
  }

  request(): void {
    if (this.requested === 0)
      this.requested = requestAnimationFrame(() => {
        this.frame();
      });
  }

  /** Nothing is left to compose, upload or draw. */
  get settled(): boolean {
    return this.requested === 0 && !this.waits;
  }

  private get waits(): boolean {
    const waiting = (slot: Slot): boolean => slot.stale || (slot.kind === "slice" ? slot.picture : slot.painter).pending;
    return [...this.slots.values()].some(waiting);
  }

  private frame(): void {
    this.requested = 0;
    const { stage, gl } = this;
    if (!stage || gl.isContextLost()) return;
    if (this.mustWait) {
      this.request();
      return;
    }
    this.drawn = performance.now();
    this.clear(stage);
    bind(gl, kVolumeLevels + 2, gl.TEXTURE_2D, this.tools!.maps);
    let changed = false;
    for (const kind of ["slice", "volume"] as const) {
      const deadline = performance.now() + kFrameWork;
      for (const slot of this.slots.values()) {
        if (slot.kind !== kind || (kind === "volume" && this.slicesComeFirst(changed))) continue;
        changed = this.frameOf(slot, stage, deadline) || changed;
      }
    }
    if (changed) this.onFrame();
    if (this.waits) this.request();
  }

  private get mustWait(): boolean {
    const between = this.software ? kBetween.software : kBetween.card;
    return performance.now() - this.drawn < between && ![...this.slots.values()].some((slot) => slot.stale);
  }

  /** Slices are on screen before the first volume is drawn, whose program takes long to compile. */
  private slicesComeFirst(drawn: boolean): boolean {
    const { gl } = this;
    if (this.framesToScreen !== null) return --this.framesToScreen >= 0;
    if (this.firstSlices === null) {
      if (drawn) this.firstSlices = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
      return drawn;
    }
    if (gl.getSyncParameter(this.firstSlices, gl.SYNC_STATUS) !== gl.SIGNALED) return true;
    gl.deleteSync(this.firstSlices);
    this.framesToScreen = kFramesToScreen;
    return true;
  }

  private frameOf(slot: Slot, stage: Stage, deadline: number): boolean {
    if (slot.kind === "slice") {
      const changed = slot.picture.update(deadline) || slot.stale;
      slot.stale = false;
      if (changed) this.drawSlice(slot, stage);
      return changed;
    }
    const picture = slot.painter.frame(deadline) ?? (slot.stale ? slot.painter.last : null);
    // The old picture belongs to another view.
    const blank = slot.stale && slot.painter.picture.isEmpty;
    slot.stale = false;
    if (picture) this.copy(picture, slot.view, stage);
    else if (blank) this.blank(slot.view, stage);
    return picture !== null || blank;
  }

  private clear(stage: Stage): void {
    if (this.cleared) return;
    const { gl } = this;
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.disable(gl.SCISSOR_TEST);
    gl.clearColor(...stage.paper.background, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    this.cleared = true;
    for (const slot of this.slots.values()) slot.stale = true;
  }

  /** Draws on the part of the canvas that a view has. */
  private aim(stage: Stage, view: View): Rect {
    const { gl } = this;
    const at = devicePixels(stage, plotOf(view));
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.enable(gl.SCISSOR_TEST);
    gl.scissor(at.x, at.y, at.width, at.height);
    return at;
  }

  private blank(view: View, stage: Stage): void {
    this.aim(stage, view);
    this.gl.clearColor(...stage.paper.background, 1);
    this.gl.clear(this.gl.COLOR_BUFFER_BIT);
  }

  private copy(picture: Target, view: View, stage: Stage): void {
    const { gl } = this;
    const { copy } = this.tools!;
    const at = this.aim(stage, view);
    gl.useProgram(copy.handle);
    bind(gl, 0, gl.TEXTURE_2D, picture.texture);
    gl.uniform1i(copy.at("uPicture"), 0);
    gl.uniform2f(copy.at("uOrigin"), at.x, at.y);
    gl.uniform2f(copy.at("uScale"), 1 / at.width, 1 / at.height);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  private drawSlice(slot: SliceSlot, stage: Stage): void {
    const { gl } = this;
    const { view, picture } = slot;
    const frame = picture.current;
    const program = this.tools!.slice;
    if (!frame) return;
    const at = this.aim(stage, view);
    gl.useProgram(program.handle);
    this.fillLines(view, at);
    picture.bindTo(0, 1);
    ["uSamples", "uStates", "uColumns", "uRows"].forEach((name, unit) => {
      gl.uniform1i(program.at(name), unit);
    });
    gl.uniform1i(program.at("uMaps"), kVolumeLevels + 2);
    gl.uniform2i(program.at("uOrigin"), at.x, at.y);
    gl.uniform2i(program.at("uSize"), frame.size[0], frame.size[1]);
    gl.uniform2f(program.at("uFirst"), frame.first[0], frame.first[1]);
    gl.uniform1f(program.at("uStep"), 2 ** frame.level);
    const { patch } = view.scene.bricks.grid;
    const [ua, va] = planeAxes(frame.axis);
    gl.uniform2f(program.at("uPatch"), patch[ua], patch[va]);
    gl.uniform2i(program.at("uFirstPatch"), frame.firstPatch[0], frame.firstPatch[1]);
    gl.uniform2i(program.at("uPatchCount"), frame.patchCount[0], frame.patchCount[1]);
    gl.uniform2fv(program.at("uColour"), colourScale(view.scene));
    gl.uniform1f(program.at("uMap"), (mapRow(view.scene.map) + 0.5) / kColourMaps.length);
    gl.uniform3fv(program.at("uBackground"), stage.paper.background);
    gl.uniform3fv(program.at("uMissing"), stage.paper.missing);
    gl.uniform1f(program.at("uPixel"), stage.ratio);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  private fillLines(view: SliceView, at: Rect): void {
    const { gl } = this;
    const { u, v, uEnds, vEnds } = view.geometry;
    const put = (unit: number, texture: WebGLTexture, values: Float32Array): void => {
      bind(gl, unit, gl.TEXTURE_2D, texture);
      gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, Math.min(kLongestSide, values.length), 1, gl.RED, gl.FLOAT, values);
    };
    put(2, this.tools!.columns, pixelIndices(u, uEnds, at.width));
    put(3, this.tools!.rows, pixelIndices(v, vEnds, at.height));
  }
}
