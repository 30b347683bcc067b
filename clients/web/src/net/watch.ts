/** Steps as they are published, over connections that break. */
import type { Client } from "@connectrpc/connect";
import type { QuarryService } from "../../build/proto/quarry/v1/service_pb";
import { backoff, isTransient, type Sleep } from "../errors";
import type { DatasetInfo, StepInfo } from "../model";
import { stepInfo } from "./convert";
import { toViewerError } from "./errors";

export interface WatchEvents {
  step(dataset: string, step: number): void;
  /** The connection is lost; it is tried again. */
  lost(dataset: string): void;
  /** The connection is there again. */
  back(dataset: string): void;
}

/** The one watch of a page. */
export class WatchSlot {
  private current: AbortController | null = null;

  take(signal: AbortSignal): AbortController {
    this.current?.abort();
    const mine = new AbortController();
    this.current = mine;
    if (signal.aborted) mine.abort();
    else signal.addEventListener("abort", () => { mine.abort(); }, { once: true, signal: mine.signal });
    return mine;
  }

  release(mine: AbortController): void {
    mine.abort();
    if (this.current === mine) this.current = null;
  }
}

export interface WatchRequest {
  readonly dataset: string;
  readonly after: number | null;
  readonly signal: AbortSignal;
  readonly events: WatchEvents | undefined;
  readonly sleep: Sleep;
}

type Describe = (signal: AbortSignal) => Promise<DatasetInfo>;

/** Ends with its signal, or when another watch takes its place; throws what waiting does not mend. */
export async function* watch(client: Client<typeof QuarryService>, slot: WatchSlot, describe: Describe,
                             request: WatchRequest): AsyncGenerator<StepInfo, void, undefined> {
  const { dataset, events } = request;
  const mine = slot.take(request.signal);
  let after = request.after;
  try {
    for (let attempt = 0; ; ++attempt) {
      try {
        const info = await describe(mine.signal);
        const options = { signal: mine.signal, onHeader: () => { events?.back(dataset); } };
        const asked = { dataset, withoutSubfiles: true };
        const question = after === null ? asked : { ...asked, after: BigInt(after) };
        for await (const message of client.watchSteps(question, options)) {
          if (message.step === undefined) continue;
          const step = stepInfo(message.step, message.date, info);
          attempt = 0;
          events?.back(dataset);
          if (after !== null && step.step <= after) continue;
          after = step.step;
          events?.step(dataset, step.step);
          yield step;
        }
      } catch (reason) {
        const error = toViewerError(reason);
        if (mine.signal.aborted) return;
        if (!isTransient(error)) throw error;
      }
      // A server that ends the stream in good order is asked again, too.
      events?.lost(dataset);
      await request.sleep(backoff(attempt, null), mine.signal);
    }
  } catch (reason) {
    if (!mine.signal.aborted) throw reason;
  } finally {
    slot.release(mine);
  }
}
