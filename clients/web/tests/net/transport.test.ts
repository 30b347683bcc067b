import { describe, expect, it } from "vitest";
import { create, toBinary } from "@bufbuild/protobuf";
import { ListDatasetsResponseSchema } from "../../build/proto/quarry/v1/service_pb";
import { createSource } from "../../src/source";
import { FrameLimit } from "../../src/net/transport";

function frame(flags: number, body: Uint8Array, length = body.length): Uint8Array {
  const out = new Uint8Array(5 + body.length);
  out[0] = flags;
  new DataView(out.buffer).setUint32(1, length);
  out.set(body, 5);
  return out;
}

const kText = new TextEncoder();
const kHeaders = { "content-type": "application/grpc-web+proto" };
const kGood = frame(0, toBinary(ListDatasetsResponseSchema, create(ListDatasetsResponseSchema, {})));

function trailers(status: number, more = ""): Uint8Array {
  return frame(0x80, kText.encode(`grpc-status: ${status}\r\n${more}`));
}

function answer(...parts: readonly Uint8Array[]): Response {
  return new Response(new Blob(parts.map((part) => part.slice())).stream(), { headers: kHeaders });
}

function sourceOf(fetch: typeof globalThis.fetch, token: string | null = null): ReturnType<typeof createSource> {
  return createSource("http://there", { fetch, token: () => token, sleep: () => Promise.resolve() });
}

async function errorOf(promise: Promise<unknown>): Promise<{ code: string; message: string }> {
  try {
    await promise;
  } catch (error) {
    return error as { code: string; message: string };
  }
  throw new Error("there is no error");
}

describe("frames", () => {
  it("are watched however they are cut", () => {
    const bytes = Uint8Array.from([300, 0, 7, 301].flatMap((length) => [...frame(0, new Uint8Array(length))]));
    for (const size of [1, 2, 3, 5, 7, 64, 10_000]) {
      const limit = new FrameLimit(300);
      let taken = 0;
      expect(() => {
        for (; taken < bytes.length; taken += size) limit.check(bytes.subarray(taken, taken + size));
      }).toThrow("a message of 301 bytes");
      // The third frame ends at 305 + 5 + 12 bytes, and the bad length is known five bytes later.
      expect(taken).toBeGreaterThanOrEqual(327 - size);
    }
  });

  it("of four gigabytes are refused before they are read", async () => {
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(pulled++ === 0 ? frame(0, new Uint8Array(10), 2 ** 32 - 1) : new Uint8Array(65_536));
      },
    });
    const error = await errorOf(sourceOf(() => Promise.resolve(new Response(endless, { headers: kHeaders }))).list());

    expect(error.message).toContain("a message of 4294967295 bytes");
    expect(pulled).toBeLessThan(10);
  });
});

describe("calls", () => {
  it("go to the method's address with the token, and without one where there is none", async () => {
    const seen: [string, string | null][] = [];
    const fetch: typeof globalThis.fetch = (url, init) => {
      seen.push([url instanceof Request ? url.url : url.toString(), new Headers(init?.headers).get("authorization")]);
      return Promise.resolve(answer(kGood, trailers(0)));
    };
    await sourceOf(fetch, "secret").list();
    await sourceOf(fetch).list();

    const url = "http://there/quarry.v1.QuarryService/ListDatasets";
    expect(seen).toEqual([[url, "Bearer secret"], [url, null]]);
  });

  it("fail with the server's code and text", async () => {
    const body = trailers(16, "grpc-message: this server wants a token%2C and got none\r\n");
    const fetch: typeof globalThis.fetch = () => Promise.resolve(answer(body));

    const message = "this server wants a token, and got none";
    expect(await errorOf(sourceOf(fetch).list())).toMatchObject({ code: "unauthenticated", message });
  });

  it("are unavailable where nobody answers, and where an answer is cut off", async () => {
    const nobody: typeof globalThis.fetch = () => Promise.reject(new TypeError("fetch failed"));
    const cut: typeof globalThis.fetch = () => Promise.resolve(answer(kGood));

    expect(await errorOf(sourceOf(nobody).list())).toMatchObject({ code: "unavailable" });
    expect(await errorOf(sourceOf(cut).list())).toMatchObject({ code: "unavailable" });
  });

  it("wait as long as RetryInfo says", async () => {
    // google.rpc.Status { code: 8, message: "busy", details: [Any { RetryInfo { retry_delay: 7.5 s } }] }, by hand.
    const duration = [0x08, 7, 0x10, ...[0x80, 0xca, 0xb5, 0xee, 0x01]];
    const info = [0x0a, duration.length, ...duration];
    const type = [...kText.encode("type.googleapis.com/google.rpc.RetryInfo")];
    const any = [0x0a, type.length, ...type, 0x12, info.length, ...info];
    const status = Uint8Array.from([0x08, 8, 0x12, 4, ...kText.encode("busy"), 0x1a, any.length, ...any]);
    const details = btoa(String.fromCharCode(...status));
    let calls = 0;
    const fetch: typeof globalThis.fetch = () => Promise.resolve(++calls === 1
      ? answer(trailers(8, `grpc-message: busy\r\ngrpc-status-details-bin: ${details}\r\n`)) : answer(kGood, trailers(0)));
    const waits: number[] = [];
    await createSource("http://there", { fetch, sleep: (ms) => { waits.push(ms); return Promise.resolve(); } }).list();

    expect(waits).toEqual([7500]);
  });
});
