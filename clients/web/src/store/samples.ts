/** Samples of patches: copied, spread over finer levels, thinned to coarser ones. Pure but for the arrays that are filled. */
import { intersect, isEmpty, newSamples, sampleIndex, shapeOf, sizeOf, volume } from "../geometry";
import type { Box, Brick, FieldInfo, SampleType, Samples } from "../model";
import { isWide, nearestNumbers } from "../wide_integers";

/** Samples as they are sent, little-endian as every machine with a browser. A copy, as views need not be aligned. */
export function samplesFrom(type: SampleType, bytes: Uint8Array): Samples {
  const whole = bytes.subarray(0, bytes.length - bytes.length % sizeOf(type));
  if (isWide(type)) return nearestNumbers(type, whole.slice().buffer);
  const out = newSamples(type, whole.length / sizeOf(type));
  new Uint8Array(out.buffer).set(whole);
  return out;
}

/** Copies what two dense boxes share. Returns the number of samples. */
export function copyBox(from: Samples, fromBox: Box, to: Samples, toBox: Box): number {
  const shared = intersect(fromBox, toBox);
  if (isEmpty(shared)) return 0;
  const run = shared.end[0] - shared.begin[0];
  for (let z = shared.begin[2]; z < shared.end[2]; ++z) {
    for (let y = shared.begin[1]; y < shared.end[1]; ++y) {
      const source = sampleIndex(fromBox, shared.begin[0], y, z);
      to.set(from.subarray(source, source + run), sampleIndex(toBox, shared.begin[0], y, z));
    }
  }
  return volume(shapeOf(shared));
}

/** Calls with the index in `to` and the one in `from` of each sample of `to`. */
function forEachPair(to: Box, from: Box, pick: (index: number) => number, f: (to: number, from: number) => void): void {
  const clamp = (value: number, a: 0 | 1 | 2): number => Math.min(from.end[a] - 1, Math.max(from.begin[a], value));
  const shape = shapeOf(from);
  let i = 0;
  for (let z = to.begin[2]; z < to.end[2]; ++z) {
    const plane = clamp(pick(z), 2) - from.begin[2];
    for (let y = to.begin[1]; y < to.end[1]; ++y) {
      const row = shape[0] * (clamp(pick(y), 1) - from.begin[1] + shape[1] * plane);
      for (let x = to.begin[0]; x < to.end[0]; ++x) f(i++, row + clamp(pick(x), 0) - from.begin[0]);
    }
  }
}

interface Content {
  readonly samples: Samples;
  readonly validity: Uint8Array | null;
}

function resampled(type: SampleType, from: Content, fromBox: Box, toBox: Box, pick: (index: number) => number): Content {
  const count = volume(shapeOf(toBox));
  const samples = newSamples(type, count);
  const validity = from.validity === null ? null : new Uint8Array(count);
  forEachPair(toBox, fromBox, pick, (to, at) => {
    samples[to] = from.samples[at]!;
    if (validity !== null) validity[to] = from.validity![at]!;
  });
  return { samples, validity };
}

/** A damaged level shows a coarser one: sample i is sample floor(i / 2^d) of it, or the first of the patch. */
export function spread(type: SampleType, from: Content, fromBox: Box, fromLevel: number, toBox: Box, toLevel: number): Content {
  const scale = 2 ** (fromLevel - toLevel);
  return resampled(type, from, fromBox, toBox, (i) => Math.floor(i / scale));
}

/** Coarse levels of such coders are filtered; of all others, a level has every second sample of the one before. */
export function canThin(field: Pick<FieldInfo, "coder">): boolean {
  return field.coder !== "wavelet-zfp";
}

/** A coarser brick of a finer one. */
export function thin(type: SampleType, brick: Brick, level: number, box: Box): Brick {
  const scale = 2 ** (level - brick.level);
  const content = resampled(type, brick, brick.box, box, (i) => i * scale);
  return { patch: brick.patch, level, box, damaged: brick.damaged, ...content };
}

/** Missing samples come as they were in the source: NaN, infinite, or with the bits of the fill value. */
export function validityOf(samples: Samples, fill: number | null): Uint8Array | null {
  const isFloat = samples instanceof Float32Array || samples instanceof Float64Array;
  if (!isFloat && fill === null) return null;
  const stored = fill !== null && samples instanceof Float32Array ? Math.fround(fill) : fill;
  let validity: Uint8Array | null = null;
  for (let i = 0; i < samples.length; ++i) {
    const value = samples[i]!;
    if (!Object.is(value, stored) && (!isFloat || Number.isFinite(value))) continue;
    validity ??= new Uint8Array(samples.length).fill(1);
    validity[i] = 0;
  }
  return validity;
}

