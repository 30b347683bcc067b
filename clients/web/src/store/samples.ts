/** Samples of patches: copied, and spread over finer levels. Pure but for the arrays that are filled. */
import { type Content, intersect, isEmpty, newSamples, resampled, sampleIndex, shapeOf, sizeOf, volume } from "../geometry";
import type { Box, FieldInfo, SampleType, Samples } from "../model";
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

/** A damaged level shows a coarser one: sample i is sample floor(i / 2^d) of it, or the first of the patch. */
export function spread(type: SampleType, from: Content, fromBox: Box, fromLevel: number, toBox: Box, toLevel: number): Content {
  const scale = 2 ** (fromLevel - toLevel);
  return resampled(type, from, fromBox, toBox, (i) => Math.floor(i / scale));
}

/** Coarse levels of such coders are filtered; of all others, a level has every second sample of the one before. */
export function canThin(field: Pick<FieldInfo, "coder">): boolean {
  return field.coder !== "wavelet-zfp";
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
