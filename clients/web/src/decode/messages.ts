/** Messages between a pool and its workers. */

import type { DecodeJob } from "../reading";

/** A job with its payload in one buffer, which moves to the worker. */
export interface DecodeRequest extends Omit<DecodeJob, "payloads" | "priority"> {
  readonly kind: "decode";
  readonly id: number;
  /** Level by level: the mask, then the samples. */
  readonly bytes: ArrayBuffer;
  readonly sizes: readonly { readonly mask: number; readonly payload: number }[];
  readonly checksums: readonly { readonly mask: bigint; readonly payload: bigint }[];
}

export type Request =
  | { readonly kind: "load"; readonly module: WebAssembly.Module }
  | DecodeRequest
  | { readonly kind: "end"; readonly answer: number };

export interface DecodeReply {
  readonly kind: "decoded";
  readonly id: number;
  readonly level: number;
  readonly samples: ArrayBuffer;
  readonly validity: ArrayBuffer | null;
  readonly damage: string | null;
}

export type Reply =
  | DecodeReply
  | { readonly kind: "failed"; readonly id: number; readonly code: string; readonly message: string };
