/** A worker of the pool: messages in, a session's results out. */

import { ViewerError } from "../model";
import type { Reply, Request } from "./messages";
import { DecodeSession } from "./session";

/** The subset of its global scope that a worker uses. */
export interface WorkerScope {
  onmessage: ((event: MessageEvent<Request>) => void) | null;
  postMessage(message: Reply, transfer: Transferable[]): void;
}

export function serve(scope: WorkerScope): void {
  let session: DecodeSession | null = null;
  scope.onmessage = ({ data: request }) => {
    if (request.kind === "load") session = new DecodeSession(request.module);
    else if (request.kind === "end") session?.endAnswer(request.answer);
    else {
      try {
        if (session === null) throw new ViewerError("unavailable", "the decoder is not loaded");
        const reply = session.decode(request);
        scope.postMessage(reply, reply.validity === null ? [reply.samples] : [reply.samples, reply.validity]);
      } catch (error) {
        const [code, message] = error instanceof ViewerError ? [error.code, error.message] : ["internal", String(error)];
        scope.postMessage({ kind: "failed", id: request.id, code, message }, []);
      }
    }
  };
}

if (typeof DedicatedWorkerGlobalScope !== "undefined") serve(self as unknown as WorkerScope);
