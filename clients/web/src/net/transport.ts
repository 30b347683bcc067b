/** gRPC-Web over fetch, with a token, and with a limit on the memory of one message. */
import type { Interceptor, Transport } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { badAnswer } from "./errors";

export type { Transport };

/** The record of a step with very many subfiles is the largest message; the C++ client takes as much. */
const kMostMessage = 64 * 2 ** 20;

/** Watches the frames of gRPC-Web: one byte of flags, four of length. Throws before a long message is read. */
export class FrameLimit {
  private header = 0;
  private length = 0;
  private body = 0;

  constructor(private readonly most: number = kMostMessage) {}

  check(chunk: Uint8Array): void {
    for (let i = 0; i < chunk.length;) {
      if (this.body > 0) {
        const taken = Math.min(this.body, chunk.length - i);
        this.body -= taken;
        i += taken;
        continue;
      }
      if (this.header > 0) this.length = this.length * 256 + chunk[i]!;
      ++i;
      if (++this.header === 5) this.endHeader();
    }
  }

  private endHeader(): void {
    if (this.length > this.most) {
      throw badAnswer(`a message of ${this.length} bytes, where ${this.most} are the most that this page takes`);
    }
    this.body = this.length;
    this.length = 0;
    this.header = 0;
  }
}

function limitedFetch(base: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await base(input, init);
    if (response.body === null) return response;
    const limit = new FrameLimit();
    const frames = response.body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        limit.check(chunk);
        controller.enqueue(chunk);
      },
    }));
    return new Response(frames, { status: response.status, statusText: response.statusText, headers: response.headers });
  };
}

function bearer(token: () => string | null): Interceptor {
  return (next) => (request) => {
    const value = token();
    if (value !== null) request.header.set("authorization", `Bearer ${value}`);
    return next(request);
  };
}

/** @param token  asked at each call */
export function createTransport(
  baseUrl: string, token: () => string | null, fetch: typeof globalThis.fetch | undefined,
): Transport {
  return createGrpcWebTransport({
    baseUrl,
    useBinaryFormat: true,
    interceptors: [bearer(token)],
    // Looked up at each call, so that a page may wrap it.
    fetch: limitedFetch(fetch ?? ((input, init) => globalThis.fetch(input, init))),
  });
}
