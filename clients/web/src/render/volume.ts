import { patchNumber } from "../geometry";
import type { Box, Brick, Vec3 } from "../model";
import { kMissing, levelSize } from "./compose";
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

/** The patches that a volume has on the graphics card. */
export interface Region {
  readonly first: Vec3;
  readonly count: Vec3;
}

const kAxes = [0, 1, 2] as const;

function vec(make: (axis: 0 | 1 | 2) => number): Vec3 {
  return [make(0), make(1), make(2)];
}

export function regionOf(bricks: Bricks, clip: Box): Region {
  const { patch } = bricks.grid;
  const first = vec((a) => Math.floor(clip.begin[a] / patch[a]));
  return { first, count: vec((a) => Math.ceil(clip.end[a] / patch[a]) - first[a]) };
}

/** First sample and shape of a region at a level. */
export function regionSamples(bricks: Bricks, region: Region, level: number): { readonly begin: Vec3; readonly shape: Vec3 } {
  const { dims, patch } = bricks.grid;
  const begin = vec((a) => levelSize(region.first[a] * patch[a], level));
  const end = vec((a) => levelSize(Math.min((region.first[a] + region.count[a]) * patch[a], dims[a]), level));
  return { begin, shape: vec((a) => end[a] - begin[a]) };
}

/** The finest level, not finer than `level`, at which a region has at most `most` samples. */
export function levelWithin(bricks: Bricks, region: Region, level: number, most: number): number {
  for (let l = level; l < bricks.grid.levels; ++l) {
    const { shape } = regionSamples(bricks, region, l);
    if (shape[0] * shape[1] * shape[2] <= most && Math.max(...shape) <= 2048) return l;
  }
  return bricks.grid.levels - 1;
}

interface Level {
  readonly texture: WebGLTexture;
  readonly begin: Vec3;
  readonly shape: Vec3;
  /** By patch of the region: 1 once its samples are in the texture. */
  readonly filled: Uint8Array;
}

/** All levels of a volume as textures, filled brick by brick. */
export class VolumePicture {
  private wish: VolumeWish | null = null;
  private region: Region = { first: [0, 0, 0], count: [0, 0, 0] };
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

  get patches(): Region {
    return this.region;
  }

  set(wish: VolumeWish): boolean {
    const region = regionOf(wish.bricks, wish.clip);
    const old = this.wish;
    const same =
      old?.bricks === wish.bricks
      && old.level === wish.level
      && old.scale.low === wish.scale.low
      && old.scale.high === wish.scale.high
      && kAxes.every((a) => region.first[a] === this.region.first[a] && region.count[a] === this.region.count[a]);
    this.wish = wish;
    if (same) return false;
    this.free();
    this.region = region;
    this.make(wish);
    return true;
  }

  private make(wish: VolumeWish): void {
    const { gl } = this;
    const patches = this.region.count[0] * this.region.count[1] * this.region.count[2];
    const format = { format: wish.hasMissing ? gl.RG16F : gl.R16F, linear: true };
    for (let l = wish.level; l < Math.min(wish.bricks.grid.levels, wish.level + kVolumeLevels); ++l) {
      const { begin, shape } = regionSamples(wish.bricks, this.region, l);
      this.levels.push({
        texture: texture3d(gl, format, ...(shape as [number, number, number])),
        begin,
        shape,
        filled: new Uint8Array(patches),
      });
    }
    this.residency = new Residency(this.region.count);
    const size = this.region.count as [number, number, number];
    this.patchTexture = texture3d(gl, { format: gl.RGBA8, linear: false }, ...size);
    this.changed = true;
    const found: Brick[] = [];
    for (let z = 0; z < size[2]; ++z)
      for (let y = 0; y < size[1]; ++y)
        for (let x = 0; x < size[0]; ++x) {
          const [fx, fy, fz] = this.region.first;
          const brick = wish.bricks.best(patchNumber(wish.bricks.patches, x + fx, y + fy, z + fz), wish.level);
          if (brick) found.push(brick);
        }
    this.add(found);
  }

  /** Place of a patch in the region; -1 outside of it. */
  private placeOf(patch: number): number {
    const { patches } = this.wish!.bricks;
    const at = vec(
      (a) =>
        (a === 0
          ? patch % patches[0]
          : a === 1
            ? Math.floor(patch / patches[0]) % patches[1]
            : Math.floor(patch / (patches[0] * patches[1]))) - this.region.first[a],
    );
    return kAxes.some((a) => at[a] < 0 || at[a] >= this.region.count[a]) ? -1 : this.residency.number(at[0], at[1], at[2]);
  }

  /** Queues bricks: only the finest of a patch, and none that is coarser than the current one. */
  add(bricks: readonly Brick[]): void {
    if (!this.wish) return;
    for (const brick of bricks) {
      const place = this.placeOf(brick.patch);
      if (place < 0 || brick.level < this.wish.level || brick.level - this.wish.level >= this.levels.length) continue;
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
    gl.texSubImage3D(
      gl.TEXTURE_3D,
      0,
      0,
      0,
      0,
      ...(this.region.count as [number, number, number]),
      gl.RGBA,
      gl.UNSIGNED_BYTE,
      this.residency.table(),
    );
    this.changed = false;
    return true;
  }

  /** Writes a brick into the texture of its level, and every 2nd, 4th, ... sample into the coarser ones that lack them. */
  private put(wish: VolumeWish, place: number, brick: Brick): void {
    const shape = vec((a) => brick.box.end[a] - brick.box.begin[a]);
    const range = { low: Infinity, high: -Infinity };
    const finest = brick.level - wish.level;
    for (let l = finest; l < this.levels.length; ++l) {
      const level = this.levels[l]!;
      if (level.filled[place] === 1 && l > finest) continue;
      const step = 2 ** (l - finest);
      // Patches begin at samples of all levels, so every step-th sample from the first on is one of the coarser level.
      const count = vec((a) => Math.ceil(shape[a] / step));
      this.fill(wish, brick, shape, step, count, l === finest ? range : null);
      this.upload(
        wish,
        level,
        vec((a) => brick.box.begin[a] / step - level.begin[a]),
        count,
      );
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
    const size = count[0] * count[1] * count[2] * parts;
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
    gl.texSubImage3D(
      gl.TEXTURE_3D,
      0,
      ...(at as [number, number, number]),
      ...(count as [number, number, number]),
      wish.hasMissing ? gl.RG : gl.RED,
      gl.FLOAT,
      this.scratch,
    );
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
      first.set([...level.begin, 1 / 2 ** (wish.level + i)], i * 4);
      size.set(
        level.shape.map((n) => 1 / n),
        i * 3,
      );
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
