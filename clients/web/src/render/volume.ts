import { kAxes, levelBox, mapVec, patchesMeeting, patchNumber, patchNumbers, patchPosition, sameBox, samplesOf, shapeOf,
         volume } from "../geometry";
import type { Box, Brick, GridInfo, Vec3 } from "../model";
import { kMissing } from "./compose";
import type { Bricks, Scale } from "./compose";
import { bind, edit, texture3d } from "./gl";
import type { Gl } from "./gl";
import { Residency } from "./residency";
import { kVolumeLevels } from "./shaders";

export interface VolumeWish {
  readonly bricks: Bricks;
  readonly scale: Scale;
  readonly clip: Box;
  readonly level: number;
  readonly hasMissing: boolean;
}

/** The finest level, not finer than `level`, at which the patches of a box have at most `most` samples. */
export function levelWithin(grid: GridInfo, clip: Box, level: number, most: number): number {
  const samples = samplesOf(grid, patchesMeeting(grid, clip));
  for (let l = level; l < grid.levels; ++l) {
    const shape = shapeOf(levelBox(samples, l));
    if (volume(shape) <= most && Math.max(...shape) <= 2048) return l;
  }
  return grid.levels - 1;
}

interface Level {
  readonly texture: WebGLTexture;
  /** Samples of the level. */
  readonly box: Box;
  /** By patch of the region: 1 once its samples are in the texture. */
  readonly filled: Uint8Array;
}

/** All levels of a volume as textures, filled brick by brick. */
export class VolumePicture {
  private wish: VolumeWish | null = null;
  /** Positions of the patches that are on the graphics card. */
  patches: Box = { begin: [0, 0, 0], end: [0, 0, 0] };
  private levels: Level[] = [];
  private residency = new Residency([0, 0, 0]);
  private patchTexture: WebGLTexture | null = null;
  private queue = new Map<number, Brick>();
  private changed = false;
  private scratch = new Float32Array(0);

  constructor(private readonly gl: Gl) {}

  get pending(): boolean {
    return this.queue.size > 0;
  }

  /** Nothing has been uploaded yet. */
  isEmpty = true;

  get finest(): number {
    return this.wish?.level ?? 0;
  }

  get levelCount(): number {
    return this.levels.length;
  }

  set(wish: VolumeWish): void {
    const patches = patchesMeeting(wish.bricks.grid, wish.clip);
    const old = this.wish;
    const same =
      old?.bricks === wish.bricks
      && old.level === wish.level
      && old.scale.low === wish.scale.low
      && old.scale.high === wish.scale.high
      && sameBox(patches, this.patches);
    this.wish = wish;
    if (same) return;
    this.free();
    this.patches = patches;
    this.make(wish);
  }

  private make(wish: VolumeWish): void {
    const { gl } = this;
    const { bricks } = wish;
    const count = shapeOf(this.patches);
    const format = { format: wish.hasMissing ? gl.RG16F : gl.R16F, linear: true };
    for (let l = wish.level; l < Math.min(bricks.grid.levels, wish.level + kVolumeLevels); ++l) {
      const box = levelBox(samplesOf(bricks.grid, this.patches), l);
      this.levels.push({ texture: texture3d(gl, format, ...shapeOf(box)), box, filled: new Uint8Array(volume(count)) });
    }
    this.residency = new Residency(count);
    this.patchTexture = texture3d(gl, { format: gl.RGBA8, linear: false }, ...count);
    this.changed = true;
    const found = [...patchNumbers(bricks.patches, this.patches)].map((patch) => bricks.best(patch, wish.level));
    this.add(found.filter((brick) => brick !== null));
  }

  /** Place of a patch among those of the volume; -1 for others. */
  private placeOf(patch: number): number {
    const { begin, end } = this.patches;
    const at = patchPosition(this.wish!.bricks.patches, patch);
    const inside = kAxes.every((a) => at[a] >= begin[a] && at[a] < end[a]);
    return inside ? patchNumber(this.residency.count, ...mapVec((a) => at[a] - begin[a])) : -1;
  }

  /** Queues bricks: only the finest of a patch, and none that is coarser than the current one. */
  add(bricks: readonly Brick[]): void {
    if (!this.wish) return;
    for (const brick of bricks) {
      const place = this.placeOf(brick.patch);
      if (brick.part || place < 0 || brick.level < this.wish.level || brick.level - this.wish.level >= this.levels.length) continue;
      const waiting = this.queue.get(place);
      if ((waiting?.level ?? 255) < brick.level || this.residency.levels[place]! < brick.level - this.wish.level) continue;
      this.queue.set(place, brick);
    }
  }

  /** Uploads until the deadline, and at least one brick; coarse ones first. Says whether the picture has changed. */
  update(deadline: number): boolean {
    const { wish } = this;
    if (!wish || (this.queue.size === 0 && !this.changed)) return false;
    const order = [...this.queue].sort(([, a], [, b]) => b.level - a.level);
    for (const [place, brick] of order) {
      this.queue.delete(place);
      this.put(wish, place, brick);
      this.isEmpty = false;
      if (performance.now() > deadline) break;
    }
    const { gl } = this;
    edit(gl, gl.TEXTURE_3D, this.patchTexture);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    const { count } = this.residency;
    gl.texSubImage3D(gl.TEXTURE_3D, 0, 0, 0, 0, ...count, gl.RGBA, gl.UNSIGNED_BYTE, this.residency.table());
    this.changed = false;
    return true;
  }

  /** Writes a brick into the texture of its level, and every 2nd, 4th, ... sample into the coarser ones that lack them. */
  private put(wish: VolumeWish, place: number, brick: Brick): void {
    const shape = shapeOf(brick.box);
    const range = { low: Infinity, high: -Infinity };
    const finest = brick.level - wish.level;
    for (let l = finest; l < this.levels.length; ++l) {
      const level = this.levels[l]!;
      if (level.filled[place] === 1 && l > finest) continue;
      const step = 2 ** (l - finest);
      // Patches begin at samples of all levels, so every step-th sample from the first on is one of the coarser level.
      const count = mapVec((a) => Math.ceil(shape[a] / step));
      this.fill(wish, brick, shape, step, count, l === finest ? range : null);
      this.upload(wish, level, mapVec((a) => brick.box.begin[a] / step - level.box.begin[a]), count);
      level.filled[place] = 1;
    }
    this.residency.set(place, finest, range.low, range.high);
  }

  private fill(
    wish: VolumeWish,
    brick: Brick,
    shape: Vec3,
    step: number,
    count: Vec3,
    range: { low: number; high: number } | null,
  ): void {
    const parts = wish.hasMissing ? 2 : 1;
    const size = volume(count) * parts;
    if (this.scratch.length < size) this.scratch = new Float32Array(size);
    const out = this.scratch;
    const { samples, validity } = brick;
    const { low: least, high: most } = wish.scale;
    // As normalise() does, without a division for each sample.
    const factor = most > least ? 1 / (most - least) : 1;
    let [to, low, high] = [0, Infinity, -Infinity];
    for (let z = 0; z < shape[2]; z += step)
      for (let y = 0; y < shape[1]; y += step)
        for (let x = 0, at = shape[0] * (y + shape[1] * z); x < shape[0]; x += step, at += step) {
          const value = validity?.[at] === 0 ? kMissing : (samples[at]! - least) * factor;
          const valid = value > kMissing && value < -kMissing;
          out[to++] = valid ? value : 0;
          if (parts === 2) out[to++] = valid ? 1 : 0;
          if (valid && value < low) low = value;
          if (valid && value > high) high = value;
        }
    if (range) [range.low, range.high] = [low, high];
  }

  private upload(wish: VolumeWish, level: Level, at: Vec3, count: Vec3): void {
    const { gl } = this;
    edit(gl, gl.TEXTURE_3D, level.texture);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 4);
    const format = wish.hasMissing ? gl.RG : gl.RED;
    gl.texSubImage3D(gl.TEXTURE_3D, 0, ...at, ...count, format, gl.FLOAT, this.scratch);
  }

  /** Binds the levels to units 0 and up, the patches to the unit after them, and sets their uniforms. */
  bindTo(at: (name: string) => WebGLUniformLocation | null): void {
    const { gl, wish } = this;
    const first = new Float32Array(kVolumeLevels * 4);
    const size = new Float32Array(kVolumeLevels * 3);
    for (let i = 0; i < kVolumeLevels; ++i) {
      const level = this.levels[i];
      if (!level || !wish) continue;
      bind(gl, i, gl.TEXTURE_3D, level.texture);
      gl.uniform1i(at(`uLevel${i}`), i);
      first.set([...level.box.begin, 1 / 2 ** (wish.level + i)], i * 4);
      size.set(shapeOf(level.box).map((n) => 1 / n), i * 3);
    }
    gl.uniform4fv(at("uLevelFirst"), first);
    gl.uniform3fv(at("uLevelSize"), size);
    bind(gl, kVolumeLevels, gl.TEXTURE_3D, this.patchTexture);
    gl.uniform1i(at("uPatches"), kVolumeLevels);
  }

  free(): void {
    for (const level of this.levels) this.gl.deleteTexture(level.texture);
    this.gl.deleteTexture(this.patchTexture);
    this.levels = [];
    this.patchTexture = null;
    this.queue = new Map();
    this.isEmpty = true;
  }
}
