/**
 * A dataset on a web server, read by ranges of bytes without a Quarry server: what a server does runs in a worker here.
 *
 *     const dataset = openBucket("https://data.example.org/run42.quarry");
 *     for await (const message of dataset.answer("Read", request, signal)) ...
 */
import { CallError } from "../errors";
import type { Answerer } from "../reading";
import type { Reply, Request } from "./messages";
import { Place } from "./place";

/** The used part of a worker. */
export interface Port {
  onmessage: ((event: MessageEvent<Reply>) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  postMessage(message: Request): void;
}

/** The messages of an answer, as they come. */
class Answer {
  private readonly came: Uint8Array[] = [];
  private ended = false;
  private error: Error | null = null;
  private wake: (() => void) | null = null;

  add(bytes: Uint8Array): void {
    this.came.push(bytes);
    this.wake?.();
  }

  end(error: Error | null): void {
    this.ended = true;
    this.error = error;
    this.wake?.();
  }

  async *messages(): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      const next = this.came.shift();
      if (next !== undefined) yield next;
      else if (this.error !== null) throw this.error;
      else if (this.ended) return;
      else await new Promise<void>((resolve) => { this.wake = resolve; });
    }
  }
}

export class Bucket implements Answerer {
  private readonly answers = new Map<number, Answer>();
  private next = 0;

  constructor(private readonly port: Port, url: string, page: Pick<URL, "protocol" | "host">) {
    port.onmessage = ({ data }) => { this.take(data); };
    port.onerror = (event) => { this.fail(event.message); };
    port.postMessage({ kind: "open", url, page: { protocol: page.protocol, host: page.host } });
  }

  async *answer(call: string, request: Uint8Array, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array, void, undefined> {
    const id = this.next++;
    const answer = new Answer();
    this.answers.set(id, answer);
    const onAbort = (): void => { answer.end(new CallError("cancelled", "cancelled")); };
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) onAbort();
    else this.port.postMessage({ kind: "ask", id, call, request });
    try {
      yield* answer.messages();
    } finally {
      signal?.removeEventListener("abort", onAbort);
      // Also where the caller wants no more of it.
      if (this.answers.delete(id)) this.port.postMessage({ kind: "cancel", id });
    }
  }

  private take(reply: Reply): void {
    const answer = this.answers.get(reply.id);
    if (reply.kind === "message") answer?.add(reply.bytes);
    else {
      this.answers.delete(reply.id);
      answer?.end(reply.error === null ? null : new CallError(reply.error.code, reply.error.message));
    }
  }

  /** The worker could not be started, or a mistake of ours ended it. */
  private fail(why: string): void {
    for (const answer of this.answers.values()) answer.end(new CallError("internal", `what reads the dataset has ended (${why}); load the page anew`));
    this.answers.clear();
  }
}

/** Throws a ViewerError for an address that is not read. */
export function openBucket(url: string): Bucket {
  Place.of(url, location);
  return new Bucket(new Worker(new URL("./serving.ts", import.meta.url), { type: "module" }), url, location);
}
