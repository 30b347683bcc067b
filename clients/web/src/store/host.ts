/** What a source knows, and what it asks of the page's store. */
import type { DatasetInfo, FieldInfo, FieldStepInfo, GridInfo, Selection, ViewerError } from "../model";
import type { ReadEncoding } from "../net/read";
import type { Holdings, Memory } from "./memory";
import type { PageBricks } from "./source";

export interface Host {
  readonly memory: Memory;
  /** Memory that this source may fill with what is visible. [bytes] */
  share(source: PageBricks): number;
  /** Memory that other sources leave. [bytes] */
  room(source: PageBricks): number;
  /** Looks again at what is to be asked for. */
  schedule(): void;
  /** Calls after a while, longer with each attempt. Returns what ends the wait. */
  later(attempt: number, error: ViewerError, call: () => void): () => void;
  closed(source: PageBricks): void;
}

export interface Opened {
  readonly info: DatasetInfo;
  readonly field: FieldInfo;
  readonly grid: GridInfo;
  readonly step: FieldStepInfo;
  readonly selection: Selection;
  readonly holdings: Holdings;
  readonly encoding: ReadEncoding;
  /** No later step was known. */
  readonly isNewest: boolean;
}
