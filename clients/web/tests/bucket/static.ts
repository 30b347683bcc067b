/** A folder as a web server shows it, in place of fetch; and what reads datasets there, without a worker. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Asking } from "../../src/bucket/asking";
import { Bucket, type Port } from "../../src/bucket/index";
import type { Reply, Request } from "../../src/bucket/messages";
import { Place } from "../../src/bucket/place";
import { ROOT } from "../decode/modules";

export const kOrigin = "https://data.example.org";
const kPage = { protocol: "https:", host: "viewer.example.org" };

export function bucketModule(): WebAssembly.Module {
  const path = join(ROOT, "clients/web/build/wasm/quarry_bucket.wasm");
  if (!existsSync(path)) throw new Error(`${path} is not there; run scripts/wasm.sh`);
  return new WebAssembly.Module(readFileSync(path));
}

/** Each file below a folder, in ranges. */
export class StaticSite {
  readonly asked: string[] = [];
  bytes = 0;
  /** Rounds: a request belongs to a later one than all that were answered before it began. */
  waits = 0;
  private pending = 0;
  /** Changes an answer. */
  change: (path: string, response: Response) => Response = (_, response) => response;
  /** Held back while it is set. */
  hold: Promise<void> | null = null;

  constructor(private readonly folder: string) {}

  readonly fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const path = decodeURIComponent(new URL(input as string).pathname);
    this.asked.push(`${path} ${new Headers(init?.headers).get("range")}`);
    if (this.pending++ === 0) ++this.waits;
    // All that is asked for meanwhile belongs to the same round.
    await new Promise((resolve) => { setTimeout(resolve, 2); });
    if (this.hold !== null) await this.hold;
    --this.pending;
    init?.signal?.throwIfAborted();
    return this.change(path, this.answer(path, new Headers(init?.headers).get("range")!));
  };

  private answer(path: string, range: string): Response {
    const file = join(this.folder, path);
    if (!existsSync(file)) return new Response(null, { status: 404 });
    const whole = readFileSync(file);
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range)!;
    const [begin, end] = [Number(first), Math.min(whole.length, Number(last) + 1)];
    const headers = { etag: `"${whole.length}"`, "content-range": begin < end ? `bytes ${begin}-${end - 1}/${whole.length}` : `bytes */${whole.length}` };
    if (begin >= end) return new Response(null, { status: 416, headers });
    this.bytes += end - begin;
    return new Response(new Uint8Array(whole.subarray(begin, end)), { status: 206, headers });
  }
}

/** A page's end of a worker, with the worker's work done here. */
export function openHere(site: Pick<StaticSite, "fetch">, address: string, module: () => WebAssembly.Module): Bucket {
  const port: Port & { asking?: Asking } = {
    onmessage: null, onerror: null,
    postMessage(request: Request): void {
      if (request.kind === "open") {
        port.asking = new Asking(Place.of(request.url, request.page), {
          fetch: site.fetch, sleep: () => Promise.resolve(), atATime: 24, retries: 2, stall: 60_000, refused: () => false,
          post: (reply: Reply) => { port.onmessage?.({ data: reply } as MessageEvent<Reply>); }, module: () => Promise.resolve(module()),
        });
      } else if (request.kind === "ask") void port.asking!.ask(request.id, request.call, request.request);
      else port.asking!.cancel(request.id);
    },
  };
  return new Bucket(port, address, kPage);
}
