/** Facts that a source knows, and requests to the page's store. */
import type { DatasetInfo, FieldInfo, FieldStepInfo, GridInfo, Selection, ViewerError } from "../model";
import type { ReadEncoding } from "../reading";
import type { Holdings, Memory } from "./memory";

/** Memory that a source uses, as the store knows it. [bytes] */
export interface MemoryUser {
  /** For its visible wants. */
  readonly visibleBytes: number;
  /** For its visible wants at the levels that they ask for. */
  readonly wishedBytes: number;
  /** For its prefetched wants. */
  readonly prefetchBytes: number;
}

export interface Host {
  readonly memory: Memory;
  /** Memory that this source may fill with visible bricks. [bytes] */
  share(source: MemoryUser): number;
  /** Memory that other sources leave. [bytes] */
  room(source: MemoryUser): number;
  /** Schedules another look at the needs. */
  schedule(): void;
  /** Calls after a while, longer with each attempt. Returns what ends the wait. */
  later(attempt: number, error: ViewerError, call: () => void): () => void;
  closed(source: MemoryUser): void;
}

export interface Opened {
  readonly info: DatasetInfo;
  readonly field: FieldInfo;
  readonly grid: GridInfo;
  readonly step: FieldStepInfo;
  readonly selection: Selection;
  readonly holdings: Holdings;
  readonly encoding: ReadEncoding;
  /** Whether slices may come coded. */
  readonly codes: boolean;
  /** No later step was known. */
  readonly isNewest: boolean;
}
