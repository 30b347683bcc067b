/** The worker that reads one dataset from a web server. */
import { sleep } from "../errors";
import { Asking } from "./asking";
import type { Reply, Request } from "./messages";
import { Place } from "./place";

/** The subset of its global scope that a worker uses. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<Request>) => void) | null;
  postMessage(message: Reply, transfer: Transferable[]): void;
  addEventListener(type: "securitypolicyviolation", listener: (event: SecurityPolicyViolationEvent) => void): void;
}

const kAtATime = 24;
/** The page asks again as well. */
const kRetries = 2;
const kStall = 30_000;

async function loadModule(): Promise<WebAssembly.Module> {
  // scripts/wasm.sh makes it.
  const url = new URL("../../build/wasm/quarry_bucket.wasm", import.meta.url);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname} has status ${response.status}`);
  return WebAssembly.compile(await response.arrayBuffer());
}

export function serve(scope: WorkerScope): void {
  const refused = new Set<string>();
  scope.addEventListener("securitypolicyviolation", ({ blockedURI }) => { refused.add(blockedURI); });
  let compiled: Promise<WebAssembly.Module> | null = null;
  let asking: Asking | null = null;
  const post = (reply: Reply): void => {
    scope.postMessage(reply, reply.kind === "message" ? [reply.bytes.buffer] : []);
  };
  scope.onmessage = ({ data: request }) => {
    if (request.kind === "open") {
      asking = new Asking(Place.of(request.url, request.page), {
        fetch: (input, init) => fetch(input, init), sleep, atATime: kAtATime, retries: kRetries, stall: kStall, post,
        refused: (address) => [...refused].some((uri) => uri === address || new URL(address).origin === uri),
        module: () => compiled ??= loadModule().catch((reason: unknown) => {
          compiled = null;
          throw reason;
        }),
      });
    } else if (request.kind === "ask") void asking?.ask(request.id, request.call, request.request);
    else asking?.cancel(request.id);
  };
}

if (typeof DedicatedWorkerGlobalScope !== "undefined") serve(self as unknown as WorkerScope);
