/** Integers of 64 bits, which numbers do not hold from 2^53 on: the page draws and reads the nearest ones. */
import type { SampleType } from "./model";

const kArrays = { int64: BigInt64Array, uint64: BigUint64Array } as const;
export type WideType = keyof typeof kArrays;

export function isWide(type: SampleType): type is WideType {
  return Object.hasOwn(kArrays, type);
}

/** @param buffer samples, little-endian as every machine with a browser */
export function nearestNumbers(type: WideType, buffer: ArrayBuffer): Float64Array {
  return Float64Array.from(new kArrays[type](buffer), Number);
}
