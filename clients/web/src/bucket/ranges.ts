/** Ranges of bytes from a web server, by fetch: checked, tried again, so many at a time. */
import { backoff, CallError, isTransient, type Sleep } from "../errors";
import { ViewerError } from "../model";

/** Parts of an object that can be wanted. The numbers are those of Wanted::Kind in quarry/supplied. */
export const Kind = { Facts: 0, Front: 1, Back: 2, Range: 3 } as const;
export type KindOf = (typeof Kind)[keyof typeof Kind];

export interface Wanted {
  readonly kind: KindOf;
  /** Address as it is asked for, and as messages have it. */
  readonly address: string;
  readonly offset: number;
  readonly size: number;
}

export interface Came {
  /** [bytes] of the whole object; null: the server did not tell. */
  readonly total: number | null;
  /** Empty: the server did not tell. */
  readonly tag: string;
  readonly bytes: Uint8Array;
}

export interface RangeOptions {
  readonly fetch: typeof globalThis.fetch;
  readonly sleep: Sleep;
  /** Requests at a time; browsers have fewer with HTTP/1. */
  readonly atATime: number;
  /** Tries of a request after the first. */
  readonly retries: number;
  /** Whether the policy of the page has refused the origin of an address. */
  readonly refused: (address: string) => boolean;
  /** Without a byte for so long, a request is tried again. [ms] */
  readonly stall: number;
}

const kWhere = "docs/object-stores.md of Quarry has the rule";

function rangeOf({ kind, offset, size }: Wanted): string {
  if (kind === Kind.Facts) return "bytes=0-0";
  if (kind === Kind.Front) return `bytes=0-${size - 1}`;
  if (kind === Kind.Back) return `bytes=-${size}`;
  return `bytes=${offset}-${offset + size - 1}`;
}

/** "bytes 0-99/1234" or "bytes *" and "/1234": the first byte and the size. */
function parseContentRange(text: string | null): { readonly first: number | null; readonly total: number | null } {
  const found = /^bytes (?:(\d+)-\d+|\*)\/(?:(\d+)|\*)$/.exec(text ?? "");
  const number = (digits: string | undefined): number | null => (digits === undefined ? null : Number(digits));
  return { first: number(found?.[1]), total: number(found?.[2]) };
}

/** [ms] of Retry-After, in seconds; at most half a minute. */
function retryAfter(response: Response): number | null {
  const seconds = Number(response.headers.get("retry-after") ?? NaN);
  return seconds >= 0 ? Math.min(seconds, 30) * 1000 : null;
}

class Stalled extends Error {}

/** The body of an answer, at most so many bytes. */
async function bodyOf(response: Response, most: number, touch: () => void): Promise<Uint8Array | null> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  if (response.body !== null) {
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      touch();
      size += value.length;
      if (size > most) {
        void reader.cancel().catch(() => undefined);
        return null;
      }
      pieces.push(value);
    }
  }
  if (pieces.length === 1) return pieces[0]!;
  const whole = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

export class RangeReader {
  private running = 0;
  private readonly waiting: (() => void)[] = [];
  /** Origins that have answered: their rule for other origins is right. */
  private readonly answered = new Set<string>();

  constructor(private readonly options: RangeOptions) {}

  /** Throws ViewerErrors: "not_found" where there is no such object. */
  async get(wanted: Wanted, signal: AbortSignal): Promise<Came> {
    for (let attempt = 0; ; ++attempt) {
      await this.turn(signal);
      let error: ViewerError;
      try {
        return await this.once(wanted, signal, attempt > 0);
      } catch (reason) {
        if (signal.aborted) throw new CallError("cancelled", "cancelled");
        if (!(reason instanceof ViewerError)) throw reason;
        error = reason;
      } finally {
        --this.running;
        this.waiting.shift()?.();
      }
      if (attempt >= this.options.retries || !isTransient(error)) throw error;
      await this.options.sleep(backoff(attempt, error), signal);
    }
  }

  private async turn(signal: AbortSignal): Promise<void> {
    while (this.running >= this.options.atATime) await new Promise<void>((resolve) => { this.waiting.push(resolve); });
    if (signal.aborted) {
      this.waiting.shift()?.();
      throw new CallError("cancelled", "cancelled");
    }
    ++this.running;
  }

  /** @param again  the browser may have kept bytes of an older object */
  private async once(wanted: Wanted, signal: AbortSignal, again: boolean): Promise<Came> {
    const { address } = wanted;
    const stalled = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const touch = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => { stalled.abort(new Stalled()); }, this.options.stall);
    };
    const onAbort = (): void => { stalled.abort(); };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      touch();
      const isManifest = wanted.kind !== Kind.Range;
      const response = await this.options.fetch(address, {
        headers: { range: rangeOf(wanted) }, credentials: "omit", referrerPolicy: "no-referrer", signal: stalled.signal,
        cache: again ? "reload" : isManifest ? "no-cache" : "default",
      });
      this.answered.add(new URL(address).origin);
      return await this.take(wanted, response, touch);
    } catch (reason) {
      if (reason instanceof ViewerError) throw reason;
      if (stalled.signal.aborted && !signal.aborted) {
        throw new CallError("unavailable", `nothing came of "${address}" for ${this.options.stall / 1000} s; try again later`);
      }
      // The event of the page's policy may come after fetch has failed.
      await this.options.sleep(0, signal);
      throw this.unreachable(address, reason);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** A browser does not say why: no network, no such host, or no permission for this page. */
  private unreachable(address: string, reason: unknown): ViewerError {
    const { origin } = new URL(address);
    if (this.options.refused(address)) {
      return new CallError("permission_denied", `the server of this page does not let it read from ${origin}; start quarry-server with ` +
        `--http-connect ${origin}, or serve the page from elsewhere`);
    }
    if (this.answered.has(origin)) {
      return new CallError("unavailable", `the connection to ${origin} broke (${reason instanceof Error ? reason.message : String(reason)}); look whether it is there`);
    }
    return new CallError("failed_precondition", `"${address}" cannot be read by this page: either ${origin} does not answer, or it lacks a CORS rule that ` +
      `allows GET with the header Range from this page (${kWhere})`);
  }

  private async take(wanted: Wanted, response: Response, touch: () => void): Promise<Came> {
    const { address } = wanted;
    const { status } = response;
    if (status === 200 || status === 206 || status === 416) return this.bytes(wanted, response, touch);
    void response.body?.cancel().catch(() => undefined);
    if (status === 404 || status === 410) throw new CallError("not_found", `"${address}" is not there (status ${status})`);
    if (status === 401 || status === 403) {
      throw new CallError("permission_denied", `"${address}" may not be read (status ${status}): it is not public, or not there`);
    }
    const busy = [408, 429, 500, 502, 503, 504].includes(status);
    throw new CallError(busy ? "unavailable" : "internal", `"${address}" cannot be read: the server answers ${status}`, retryAfter(response));
  }

  private async bytes(wanted: Wanted, response: Response, touch: () => void): Promise<Came> {
    const { address, kind } = wanted;
    const tag = response.headers.get("etag") ?? "";
    const { first, total } = parseContentRange(response.headers.get("content-range"));
    const size = kind === Kind.Facts ? 1 : wanted.size;
    if (response.status === 416) {
      void response.body?.cancel().catch(() => undefined);
      if (kind === Kind.Range && total === null) throw new CallError("data_loss", `"${address}" ends before byte ${wanted.offset + size}; it is truncated`);
      return { total: total ?? 0, tag, bytes: new Uint8Array() };
    }
    const whole = response.status === 200;
    const told = Number(response.headers.get("content-length") ?? NaN);
    if (whole && (kind === Kind.Back || (kind === Kind.Range && wanted.offset > 0) || told > size)) {
      void response.body?.cancel().catch(() => undefined);
      throw this.noRanges(address);
    }
    if (first !== null && kind !== Kind.Back && first !== wanted.offset) {
      throw new CallError("internal", `"${address}": byte ${wanted.offset} was asked for, and the server sends those from ${first} on`);
    }
    const bytes = await bodyOf(response, size, touch);
    if (bytes === null) {
      if (whole) throw this.noRanges(address);
      throw new CallError("internal", `"${address}": the server sends more than the ${size} bytes that were asked for`);
    }
    if (whole) return { total: bytes.length, tag, bytes };
    return this.checked(wanted, { total, tag, bytes });
  }

  private checked({ address, kind, offset, size }: Wanted, came: Came): Came {
    if (kind === Kind.Range) {
      const due = came.total === null ? size : Math.max(0, Math.min(size, came.total - offset));
      if (came.bytes.length < due) throw new CallError("unavailable", `"${address}" broke off after ${came.bytes.length} of ${due} bytes`);
      return came;
    }
    const due = kind === Kind.Facts ? 1 : size;
    if (came.total !== null) {
      const all = Math.min(due, came.total);
      if (came.bytes.length < all) throw new CallError("unavailable", `"${address}" broke off after ${came.bytes.length} of ${all} bytes`);
      return came;
    }
    if (kind === Kind.Front && came.bytes.length < due) return { ...came, total: came.bytes.length };
    throw new CallError("failed_precondition", `"${address}": its server does not show pages the header Content-Range; its CORS rule must expose it (${kWhere})`);
  }

  private noRanges(address: string): ViewerError {
    return new CallError("failed_precondition", `"${address}": its server answers a range of bytes with the whole file; Quarry reads ranges, so copy the dataset ` +
      "to a server that answers them, such as nginx or a bucket");
  }
}
