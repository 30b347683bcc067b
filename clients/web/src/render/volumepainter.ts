import { kAxes, shapeOf } from "../geometry";
import type { GridInfo } from "../model";
import { gridAxis, indexEnds, positionAt, shareAt } from "./axes";
import { eyeOf } from "./camera";
import { isDiverging, kColourMaps, mapRow } from "./colourmaps";
import { bind, Target, texture2d } from "./gl";
import type { Gl, Program } from "./gl";
import { extents, isUpright, volumeEnds } from "./layout";
import type { Rect } from "./layout";
import { kVolumeLevels } from "./shaders";
import type { VolumeVariant } from "./shaders";
import { colourScale, devicePixels } from "./views";
import type { Stage, VolumeView } from "./views";
import type { VolumePicture } from "./volume";

const kPositions = 1024;
/** Milliseconds that a picture may take while the camera moves, and that a part of the final one may take. */
const kMoving = 22;
/** Milliseconds from one picture to the next, at least, while bricks arrive. */
const kBetween = 60;
const kMostParts = 16;
/** Milliseconds without a change before the final picture is begun. */
const kQuiet = { resting: 120, expecting: 500 };
const kPart = { card: 20, software: 70 };

/** Key of a picture: it must be drawn again when this changes. */
function wishText(view: VolumeView, stage: Stage): string {
  const { plot, camera, volume, clip, scene } = view;
  return JSON.stringify([plot, camera, volume, clip, scene.low, scene.high, scene.map, stage.ratio, stage.paper]);
}

/**
 * Draws one volume into a picture of its own: quick and small while something changes, then in full, a few rows a frame.
 * It learns from how long pictures take what is quick enough.
 */
export class VolumePainter {
  private quick: Target | null = null;
  private full: Target | null = null;
  /** The last picture of this view that was finished, while a finer one is made. */
  private done: Target | null = null;
  private pass = 0;
  private rows = 0;
  private text = "";
  private view: VolumeView | null = null;
  private stage: Stage | null = null;
  private quickStale = true;
  /** The picture is stale only because bricks have arrived. */
  private onlyBricks = false;
  /** More bricks will come. */
  private expecting = false;
  private quietSince = 0;
  /** When the last quick picture was begun, and what the last one that was measured took. [ms] */
  private quickBegun = -Infinity;
  private quickTook = 40;
  private share: number;
  /** Shares of the resolution, one after the other, once all rests. */
  private readonly passes: readonly number[];
  private readonly pixel = new Uint8Array(4);
  private rowsAtOnce = 64;
  private positions: WebGLTexture | null = null;
  private positionGrid: GridInfo | null = null;
  private positionText = "";

  constructor(
    private readonly gl: Gl,
    private readonly programs: (variant: VolumeVariant) => Program,
    readonly picture: VolumePicture,
    private readonly software: boolean,
  ) {
    this.share = software ? 0.34 : 0.6;
    this.passes = software ? [0.4, 1] : [1];
  }

  get pending(): boolean {
    return this.picture.pending || (!this.picture.isEmpty && (this.quickStale || !this.complete));
  }

  /** The final picture is there. */
  get complete(): boolean {
    return this.pass >= this.passes.length;
  }

  set(view: VolumeView, stage: Stage): void {
    const text = wishText(view, stage);
    this.view = view;
    this.stage = stage;
    if (text !== this.text) this.touch();
    this.text = text;
  }

  private touch(onlyBricks = false): void {
    this.onlyBricks = onlyBricks && (this.onlyBricks || !this.quickStale);
    this.expecting ||= onlyBricks;
    this.quickStale = true;
    this.rows = 0;
    this.pass = 0;
    this.quietSince = performance.now();
  }

  /** Uploads and draws for a frame. Gives the picture to show if it has changed. */
  frame(deadline: number): Target | null {
    const { view, stage } = this;
    if (!view || !stage) return null;
    const wasEmpty = this.picture.isEmpty;
    if (this.picture.update(deadline)) this.touch(true);
    if (this.picture.isEmpty) return null;
    if (wasEmpty) this.onlyBricks = true;
    if (this.quickStale) return this.onlyBricks && this.mustWait ? null : this.drawQuick(view, stage);
    const isQuiet = performance.now() - this.quietSince > (this.expecting ? kQuiet.expecting : kQuiet.resting);
    return isQuiet && !this.complete && !this.picture.pending ? this.drawPart(view, stage) : null;
  }

  /** All bricks have arrived: the final picture does not wait for more. */
  rest(): void {
    this.expecting = false;
  }

  /** Bricks are uploaded sooner if not every one of them is drawn: pictures take a quarter of the time. */
  private get mustWait(): boolean {
    return performance.now() - this.quickBegun < Math.max(kBetween, 4 * this.quickTook);
  }

  /** The picture shown last, for when the screen is drawn again. */
  get last(): Target | null {
    if (this.picture.isEmpty) return null;
    return this.pass > 0 ? this.done : this.quick;
  }

  /** Waits until the graphics card has drawn, and says how long that took: reading a pixel is the only way that is exact. */
  private took(begin: number, target: Target): number {
    const { gl } = this;
    gl.bindFramebuffer(gl.FRAMEBUFFER, target.frame);
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, this.pixel);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    return Math.max(0.5, performance.now() - begin);
  }

  /** A picture of a share of the size of the pane. */
  private target(old: Target | null, size: Rect, share: number): Target {
    const [width, height] = [Math.max(1, Math.round(size.width * share)), Math.max(1, Math.round(size.height * share))];
    if (old?.width === width && old.height === height) return old;
    old?.free();
    return new Target(this.gl, width, height);
  }

  private drawQuick(view: VolumeView, stage: Stage): Target {
    const size = devicePixels(stage, view.plot);
    // Steps of an eighth, so that textures are not made for each frame.
    const share = Math.max(1, Math.round(this.share * 8)) / 8;
    this.quick = this.target(this.quick, size, share);
    this.quickBegun = performance.now();
    this.draw(view, stage, this.quick, 0, this.quick.height, false);
    this.quickStale = false;
    // Nothing waits for the graphics card while bricks arrive.
    if (this.onlyBricks) return this.quick;
    this.quickTook = this.took(this.quickBegun, this.quick);
    // Half of the way to what would fit, so that one slow frame does not blur the next ones.
    this.share = Math.min(1, Math.max(0.15, this.share * (0.5 + 0.5 * Math.sqrt(kMoving / this.quickTook))));
    return this.quick;
  }

  private drawPart(view: VolumeView, stage: Stage): Target | null {
    const size = devicePixels(stage, view.plot);
    const share = this.passes[this.pass]! * (this.software ? Math.min(1, 1 / stage.ratio) : 1);
    const before = this.full;
    this.full = this.target(before, size, share);
    if (this.full !== before) this.rows = 0;
    const rows = Math.min(this.rowsAtOnce, this.full.height - this.rows);
    const begin = performance.now();
    this.draw(view, stage, this.full, this.rows, rows, true);
    this.rows += rows;
    const better = (this.software ? kPart.software : kPart.card) / this.took(begin, this.full);
    // A limit of parts: each costs a frame, with any contents.
    this.rowsAtOnce = Math.min(
      4096,
      Math.max(Math.ceil(this.full.height / kMostParts), Math.round(rows * Math.min(4, Math.max(0.25, better)))),
    );
    if (this.rows < this.full.height) return null;
    // The picture of the pass before may go; its place is taken by the next one.
    [this.done, this.full] = [this.full, this.done];
    this.rows = 0;
    ++this.pass;
    return this.done;
  }

  private draw(view: VolumeView, stage: Stage, target: Target, firstRow: number, rows: number, fine: boolean): void {
    const { gl } = this;
    gl.bindFramebuffer(gl.FRAMEBUFFER, target.frame);
    gl.viewport(0, 0, target.width, target.height);
    gl.enable(gl.SCISSOR_TEST);
    gl.scissor(0, firstRow, target.width, rows);
    const { mode } = view.volume;
    const { handle, at } = this.programs({
      levels: this.picture.levelCount,
      mode,
      shade: mode === "surface" || (mode === "ray" && fine),
    });
    gl.useProgram(handle);
    this.picture.bindTo(at);
    this.uniforms(view, stage, target, fine, at);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  }

  private uniforms(view: VolumeView, stage: Stage, target: Target, fine: boolean, at: Program["at"]): void {
    const { gl } = this;
    const { scene, volume } = view;
    const extent = extents(scene.bricks.grid, view.clip);
    const eye = eyeOf(view.camera, extent, view.plot.width / view.plot.height);
    gl.uniform3fv(at("uEye"), eye.at);
    gl.uniform3fv(at("uRight"), eye.right);
    gl.uniform3fv(at("uUp"), eye.up);
    gl.uniform3fv(at("uAhead"), eye.ahead);
    gl.uniform3fv(at("uExtent"), extent);
    gl.uniform2f(at("uOrigin"), 0, 0);
    gl.uniform2f(at("uScale"), 2 / target.width, 2 / target.height);
    gl.uniform2fv(at("uColour"), colourScale(scene));
    gl.uniform1f(at("uMap"), (mapRow(scene.map) + 0.5) / kColourMaps.length);
    gl.uniform1i(at("uMaps"), kVolumeLevels + 2);
    gl.uniform1f(at("uThreshold"), volume.threshold);
    gl.uniform1f(at("uOpacity"), volume.opacity);
    gl.uniform1i(at("uSigned"), isDiverging(scene.map) ? 1 : 0);
    gl.uniform1i(at("uMasked"), scene.hasMissing ? 1 : 0);
    gl.uniform1i(at("uSteps"), fine ? (this.software ? 280 : 900) : this.software ? 96 : 220);
    gl.uniform1f(at("uStepScale"), fine ? (this.software ? 0.8 : 0.5) : 1.5);
    gl.uniform3fv(at("uBackground"), stage.paper.background);
    this.place(view, at);
  }

  /** Where samples lie in the box. */
  private place(view: VolumeView, at: Program["at"]): void {
    const { gl } = this;
    const { grid } = view.scene.bricks;
    const { begin, end } = view.clip;
    const axes = kAxes.map((a) => gridAxis(grid, a));
    const ends = kAxes.map((a) => indexEnds(axes[a]!, begin[a], end[a], isUpright(a)));
    gl.uniform3fv(at("uIndexLow"), ends.map(({ from }) => from));
    gl.uniform3fv(at("uIndexHigh"), ends.map(({ to }) => to));
    gl.uniform3fv(at("uGrid"), grid.dims);
    gl.uniform1f(at("uFinestStep"), 2 ** this.picture.finest);
    gl.uniform3fv(at("uPatch"), grid.patch);
    gl.uniform3fv(at("uFirstPatch"), this.picture.patches.begin);
    gl.uniform3fv(at("uPatchCount"), shapeOf(this.picture.patches));
    const uneven = axes.some((axis) => !axis.even);
    gl.uniform1i(at("uUneven"), uneven ? 1 : 0);
    gl.uniform1i(at("uPositions"), kVolumeLevels + 1);
    this.fillPositions(view);
    bind(gl, kVolumeLevels + 1, gl.TEXTURE_2D, this.positions);
  }

  /** In the first row, the indices at even distances of the box; in the second, where patches begin. */
  private fillPositions(view: VolumeView): void {
    const { gl } = this;
    const { grid } = view.scene.bricks;
    const first = this.picture.patches.begin;
    const count = shapeOf(this.picture.patches);
    const text = JSON.stringify(view.clip);
    if (this.positions && grid === this.positionGrid && text === this.positionText) return;
    [this.positionGrid, this.positionText] = [grid, text];
    gl.deleteTexture(this.positions);
    this.positions = texture2d(gl, { format: gl.RGBA32F, linear: false }, kPositions, 2);
    const table = new Float32Array(kPositions * 8);
    for (const a of kAxes) {
      const axis = gridAxis(grid, a);
      const ends = volumeEnds(grid, view.clip, a);
      for (let i = 0; i < kPositions; ++i) table[i * 4 + a] = axis.index(positionAt(ends, i / (kPositions - 1)));
      for (let i = 0; i <= Math.min(count[a], kPositions - 1); ++i)
        table[(kPositions + i) * 4 + a] = shareAt(ends, axis.position((first[a] + i) * grid.patch[a]));
    }
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, kPositions, 2, gl.RGBA, gl.FLOAT, table);
  }

  free(): void {
    this.quick?.free();
    this.full?.free();
    this.done?.free();
    this.gl.deleteTexture(this.positions);
    this.picture.free();
  }
}
