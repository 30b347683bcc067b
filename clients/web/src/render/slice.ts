import { patchPosition } from "../geometry";
import type { Axis, Box, Brick } from "../model";
import { composeTile, kAbsent, Lattice, sliceFrame, slicePatch, tileOf } from "./compose";
import type { Bricks, Scale, SliceFrame } from "./compose";
import { bind, edit, texture2d } from "./gl";
import type { Gl } from "./gl";
import { kCorners, planeAxes } from "./layout";

/** Contents of a slice: everything but its position on screen and the colours. */
export interface SliceWish {
  readonly bricks: Bricks;
  readonly scale: Scale;
  readonly axis: Axis;
  readonly index: number;
  readonly clip: Box;
  /** The finest level that is worth showing. */
  readonly level: number;
}

function sameFrame(a: SliceFrame, b: SliceFrame): boolean {
  return (
    a.axis === b.axis
    && a.index === b.index
    && a.level === b.level
    && [0, 1].every((i) => a.first[i] === b.first[i] && a.size[i] === b.size[i])
  );
}

/** A slice in memory and on the graphics card, composed patch by patch. */
export class SlicePicture {
  private frame: SliceFrame | null = null;
  private wish: SliceWish | null = null;
  /** Nothing of this frame was ever shown: it appears as a whole. */
  private fresh = true;
  private values = new Float32Array(0);
  private states = new Uint8Array(0);
  private readonly dirty = new Set<number>();
  private samples: WebGLTexture | null = null;
  private stateTexture: WebGLTexture | null = null;

  constructor(private readonly gl: Gl) {}

  get current(): SliceFrame | null {
    return this.frame;
  }

  /** Whether something is left to compose. */
  get pending(): boolean {
    return this.dirty.size > 0;
  }

  set(wish: SliceWish): void {
    const same =
      this.wish?.bricks === wish.bricks
      && this.wish.scale.low === wish.scale.low
      && this.wish.scale.high === wish.scale.high
      && this.wish.level === wish.level;
    this.wish = wish;
    const frame = this.bestFrame(wish);
    if (same && this.frame && sameFrame(this.frame, frame)) return;
    this.begin(frame);
  }

  /** The frame has the finest level that a patch shows: nothing finer is worth its memory. */
  private bestFrame(wish: SliceWish): SliceFrame {
    const frame = sliceFrame(wish.bricks, wish.axis, wish.index, wish.clip, wish.level);
    let finest = wish.bricks.grid.levels - 1;
    for (let v = 0; v < frame.patchCount[1]; ++v)
      for (let u = 0; u < frame.patchCount[0] && finest > wish.level; ++u)
        finest = Math.min(finest, wish.bricks.best(slicePatch(wish.bricks, frame, u, v), wish.level, frame)?.level ?? finest);
    return sliceFrame(wish.bricks, wish.axis, wish.index, wish.clip, finest);
  }

  private begin(frame: SliceFrame): void {
    const old = this.frame;
    this.frame = frame;
    const size = frame.size[0] * frame.size[1];
    const patches = frame.patchCount[0] * frame.patchCount[1];
    if (old?.size[0] !== frame.size[0] || old.size[1] !== frame.size[1] || !this.samples) {
      this.fresh = true;
      this.values = new Float32Array(size).fill(kAbsent);
      this.states = new Uint8Array(patches * 4);
      this.gl.deleteTexture(this.samples);
      this.samples = texture2d(this.gl, { format: this.gl.R32F, linear: false }, frame.size[0], frame.size[1]);
    }
    if (old?.patchCount[0] !== frame.patchCount[0] || old.patchCount[1] !== frame.patchCount[1] || !this.stateTexture) {
      this.gl.deleteTexture(this.stateTexture);
      this.stateTexture = texture2d(this.gl, { format: this.gl.RGBA8, linear: false }, frame.patchCount[0], frame.patchCount[1]);
    }
    if (this.states.length !== patches * 4) this.states = new Uint8Array(patches * 4);
    this.dirty.clear();
    for (let i = 0; i < patches; ++i) this.dirty.add(i);
  }

  /** Bricks have arrived: their patches, and those before them, which mix their last samples with them, are made again. */
  add(bricks: readonly Brick[]): void {
    const { wish, frame } = this;
    if (!wish || !frame) return;
    if (bricks.some((brick) => brick.level < frame.level)) {
      const better = this.bestFrame(wish);
      if (!sameFrame(better, frame)) {
        this.begin(better);
        return;
      }
    }
    for (const brick of bricks) this.mark(wish, frame, brick.patch);
  }

  private mark(wish: SliceWish, frame: SliceFrame, patch: number): void {
    const { patches, grid } = wish.bricks;
    const at = patchPosition(patches, patch);
    const across = at[frame.axis] - Math.floor(frame.index / grid.patch[frame.axis]);
    if (across !== 0 && across !== 1) return;
    const [ua, va] = planeAxes(frame.axis);
    const [u, v] = [at[ua] - frame.firstPatch[0], at[va] - frame.firstPatch[1]];
    for (const [du, dv] of kCorners) {
      const [tu, tv] = [u - du, v - dv];
      if (tu >= 0 && tv >= 0 && tu < frame.patchCount[0] && tv < frame.patchCount[1])
        this.dirty.add(tu + frame.patchCount[0] * tv);
    }
  }

  /** Composes until the deadline, and at least one patch. Says whether the picture has changed. */
  update(deadline: number): boolean {
    const { wish, frame } = this;
    if (!wish || !frame || this.dirty.size === 0) return false;
    const { bricks } = wish;
    const lattice = new Lattice(bricks, frame.level, wish.scale, frame);
    const done: number[] = [];
    for (const i of this.dirty) {
      const [u, v] = [i % frame.patchCount[0], Math.floor(i / frame.patchCount[0])];
      composeTile(bricks, lattice, frame, u, v, this.values);
      const brick = lattice.brick(slicePatch(bricks, frame, u, v));
      this.states.set([brick ? brick.level + 1 : 0, brick?.damaged ? 255 : 0, 0, 255], i * 4);
      done.push(i);
      if (!this.fresh && performance.now() > deadline) break;
    }
    this.fresh = false;
    for (const i of done) this.dirty.delete(i);
    this.upload(bricks, frame, done);
    return true;
  }

  private upload(bricks: Bricks, frame: SliceFrame, done: readonly number[]): void {
    const { gl } = this;
    const everything = done.length * 2 > frame.patchCount[0] * frame.patchCount[1];
    edit(gl, gl.TEXTURE_2D, this.samples);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    gl.pixelStorei(gl.UNPACK_ROW_LENGTH, frame.size[0]);
    const put = (u: number, v: number, width: number, height: number): void => {
      gl.texSubImage2D(gl.TEXTURE_2D, 0, u, v, width, height, gl.RED, gl.FLOAT, this.values, u + frame.size[0] * v);
    };
    if (everything) put(0, 0, frame.size[0], frame.size[1]);
    else
      for (const i of done) {
        const tile = tileOf(bricks, frame, i % frame.patchCount[0], Math.floor(i / frame.patchCount[0]));
        put(tile.u, tile.v, tile.width, tile.height);
      }
    gl.pixelStorei(gl.UNPACK_ROW_LENGTH, 0);
    edit(gl, gl.TEXTURE_2D, this.stateTexture);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, frame.patchCount[0], frame.patchCount[1], gl.RGBA, gl.UNSIGNED_BYTE, this.states);
  }

  bindTo(samplesUnit: number, statesUnit: number): void {
    bind(this.gl, samplesUnit, this.gl.TEXTURE_2D, this.samples);
    bind(this.gl, statesUnit, this.gl.TEXTURE_2D, this.stateTexture);
  }

  free(): void {
    this.gl.deleteTexture(this.samples);
    this.gl.deleteTexture(this.stateTexture);
    this.samples = null;
    this.stateTexture = null;
    this.frame = null;
  }
}
