/** Ranges by fetch: what is asked for, what is believed, what is tried again, and what is said. */
import { describe, expect, it } from "vitest";
import { type Came, Kind, RangeReader, type RangeOptions, type Wanted } from "../../src/bucket/ranges";
import { ViewerError } from "../../src/model";

const kAddress = "https://data.example.org/run.quarry/steps/000000/f/0000.qsf";
const kBytes = Uint8Array.from({ length: 1000 }, (_, i) => i % 251);

interface Asked {
  readonly range: string;
  readonly init: RequestInit;
}

/** A server in place of fetch. */
class FakeServer {
  readonly asked: Asked[] = [];
  readonly waits: number[] = [];
  running = 0;
  most = 0;
  refused = false;

  constructor(private readonly answer: (range: string, number: number) => Response | Promise<Response>) {}

  reader(options: Partial<RangeOptions> = {}): RangeReader {
    return new RangeReader({
      fetch: async (_, init) => {
        const range = new Headers(init?.headers).get("range") ?? "";
        this.asked.push({ range, init: init! });
        this.most = Math.max(this.most, ++this.running);
        try {
          return await this.answer(range, this.asked.length);
        } finally {
          --this.running;
        }
      },
      sleep: (ms) => {
        this.waits.push(ms);
        return Promise.resolve();
      },
      atATime: 24, retries: 2, stall: 60_000, refused: () => this.refused, ...options,
    });
  }

  async get(wanted: Partial<Wanted>, options: Partial<RangeOptions> = {}): Promise<Came> {
    return this.reader(options).get({ kind: Kind.Range, address: kAddress, offset: 0, size: 0, ...wanted }, new AbortController().signal);
  }

  /** The error of a question. */
  async error(wanted: Partial<Wanted>, options: Partial<RangeOptions> = {}): Promise<ViewerError> {
    const reason: unknown = await this.get(wanted, options).catch((error: unknown) => error);
    expect(reason).toBeInstanceOf(ViewerError);
    return reason as ViewerError;
  }
}

/** As servers that know ranges answer. */
function partial(range: string, headers: Record<string, string> = {}, bytes = kBytes): Response {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(range)!;
  const begin = first === "" ? Math.max(0, bytes.length - Number(last)) : Number(first);
  const end = first === "" || last === "" ? bytes.length : Math.min(bytes.length, Number(last) + 1);
  if (begin >= end) return new Response(null, { status: 416, headers: { "content-range": `bytes */${bytes.length}`, ...headers } });
  return new Response(bytes.slice(begin, end), { status: 206, headers: { "content-range": `bytes ${begin}-${end - 1}/${bytes.length}`, etag: '"1"', ...headers } });
}

function without(response: Response, ...names: string[]): Response {
  const headers = new Headers(response.headers);
  for (const name of names) headers.delete(name);
  return new Response(response.body, { status: response.status, headers });
}

describe("a request", () => {
  it.each([
    [Kind.Facts, 0, 0, "bytes=0-0", kBytes.slice(0, 1)],
    [Kind.Front, 0, 20, "bytes=0-19", kBytes.slice(0, 20)],
    [Kind.Front, 0, 4000, "bytes=0-3999", kBytes],
    [Kind.Back, 0, 20, "bytes=-20", kBytes.slice(980)],
    [Kind.Range, 100, 50, "bytes=100-149", kBytes.slice(100, 150)],
  ])("of kind %d at %d, %d bytes, is %s", async (kind, offset, size, range, bytes) => {
    const server = new FakeServer((asked) => partial(asked));
    expect(await server.get({ kind, offset, size })).toEqual({ total: 1000, tag: '"1"', bytes });
    expect(server.asked.map((one) => one.range)).toEqual([range]);
    expect(server.asked[0]!.init).toMatchObject({ credentials: "omit", referrerPolicy: "no-referrer" });
  });

  it("of an object without a byte is no error", async () => {
    const server = new FakeServer((asked) => partial(asked, {}, new Uint8Array()));
    expect(await server.get({ kind: Kind.Facts })).toMatchObject({ total: 0, bytes: new Uint8Array() });
    expect(await server.get({ kind: Kind.Front, size: 10 })).toMatchObject({ total: 0 });
  });

  it("takes the whole file only where all of it was wanted", async () => {
    const server = new FakeServer(() => new Response(kBytes, { headers: { "content-length": "1000" } }));
    expect(await server.get({ kind: Kind.Front, size: 1000 })).toEqual({ total: 1000, tag: "", bytes: kBytes });
    for (const wanted of [{ kind: Kind.Front, size: 999 }, { kind: Kind.Range, offset: 10, size: 5 }, { kind: Kind.Range, size: 5 }, { kind: Kind.Back, size: 1000 }, { kind: Kind.Facts }]) {
      const error = await server.error(wanted);
      expect([error.code, error.message]).toEqual(["failed_precondition", expect.stringContaining("answers a range of bytes with the whole file")]);
    }
    // One that does not say how long it is stops when it is too long.
    const silent = new FakeServer(() => new Response(kBytes));
    expect((await silent.error({ kind: Kind.Front, size: 999 })).message).toContain("whole file");
    expect(silent.asked.length).toBe(1);
  });

  it("waits for its turn", async () => {
    const held: (() => void)[] = [];
    const server = new FakeServer(async (asked) => {
      await new Promise<void>((resolve) => { held.push(resolve); });
      return partial(asked);
    });
    const reader = server.reader({ atATime: 3 });
    const all = Promise.all(Array.from({ length: 10 }, (_, i) => reader.get({ kind: Kind.Range, address: kAddress, offset: i, size: 1 }, new AbortController().signal)));
    for (let done = 0; done < 10;) {
      await new Promise((resolve) => { setTimeout(resolve); });
      done += held.length;
      for (const go of held.splice(0)) go();
    }
    expect((await all).map((one) => one.bytes[0])).toEqual(Array.from({ length: 10 }, (_, i) => i));
    expect(server.most).toBe(3);
  });

  it("that nobody wants any more gives its turn to the next", async () => {
    const server = new FakeServer((asked) => partial(asked));
    const reader = server.reader({ atATime: 1 });
    const gone = new AbortController();
    gone.abort();
    await expect(reader.get({ kind: Kind.Range, address: kAddress, offset: 0, size: 1 }, gone.signal)).rejects.toThrow("cancelled");
    expect((await reader.get({ kind: Kind.Range, address: kAddress, offset: 0, size: 1 }, new AbortController().signal)).bytes.length).toBe(1);
    expect(server.asked.length).toBe(1);
  });
});

describe("a server that is busy or breaks off", () => {
  it.each([429, 503, 500, 502, 504, 408])("with %d is asked again, when it says", async (status) => {
    const server = new FakeServer((asked, number) => (number < 3 ? new Response(null, { status, headers: { "retry-after": "7" } }) : partial(asked)));
    expect((await server.get({ offset: 3, size: 4 })).bytes).toEqual(kBytes.slice(3, 7));
    expect(server.waits).toEqual([7000, 7000]);
    // Nothing that a browser has kept.
    expect(server.asked.map((one) => one.init.cache)).toEqual(["default", "reload", "reload"]);
  });

  it("for ever is given up", async () => {
    const server = new FakeServer(() => new Response(null, { status: 503 }));
    const error = await server.error({ size: 4 });
    expect([error.code, error.message, server.asked.length]).toEqual(["unavailable", expect.stringContaining("answers 503"), 3]);
  });

  it("in the middle of a body is asked again", async () => {
    const server = new FakeServer((asked, number) => (number === 1 ? new Response(kBytes.slice(0, 3), { status: 206, headers: { "content-range": "bytes 0-9/1000" } }) : partial(asked)));
    expect((await server.get({ size: 10 })).bytes).toEqual(kBytes.slice(0, 10));
    expect(server.asked.length).toBe(2);
  });

  it("without a byte for long is asked again", async () => {
    const server = new FakeServer((asked, number) => (number > 1 ? partial(asked) : new Promise<Response>((_, reject) => {
      server.asked[0]!.init.signal!.addEventListener("abort", () => { reject(new DOMException("aborted", "AbortError")); });
    })));
    expect((await server.get({ size: 10 }, { stall: 20 })).bytes.length).toBe(10);
    expect(server.asked.length).toBe(2);
  });
});

describe("what a server sends", () => {
  it.each([
    ["other bytes than asked for", () => new Response(kBytes.slice(0, 10), { status: 206, headers: { "content-range": "bytes 0-9/1000" } }), "internal", "the server sends those from 0 on"],
    ["more than asked for", () => new Response(kBytes, { status: 206, headers: { "content-range": "bytes 100-999/1000" } }), "internal", "sends more than the 10 bytes"],
    ["that it is not there", () => new Response(null, { status: 404 }), "not_found", "is not there"],
    ["that it is not public", () => new Response(null, { status: 403 }), "permission_denied", "it is not public, or not there"],
    ["that it ends before", () => without(partial("bytes=1000-1009"), "content-range"), "data_loss", "it is truncated"],
  ])("%s is an error that says so", async (_, answer, code, text) => {
    const server = new FakeServer(answer);
    const error = await server.error({ offset: 100, size: 10 });
    expect([error.code, error.message, server.asked.length]).toEqual([code, expect.stringContaining(text), 1]);
    expect(error.message).toContain(kAddress);
  });

  it("is short where the object is: the size tells that it is truncated", async () => {
    const server = new FakeServer((asked) => partial(asked));
    expect(await server.get({ offset: 990, size: 20 })).toEqual({ total: 1000, tag: '"1"', bytes: kBytes.slice(990) });
  });

  it("without Content-Range, which the rule must expose, is refused where the size is needed", async () => {
    const server = new FakeServer((asked) => without(partial(asked), "content-range", "etag"));
    expect(await server.get({ offset: 100, size: 10 })).toEqual({ total: null, tag: "", bytes: kBytes.slice(100, 110) });
    expect(await server.get({ kind: Kind.Front, size: 2000 })).toEqual({ total: 1000, tag: "", bytes: kBytes });
    for (const wanted of [{ kind: Kind.Front, size: 10 }, { kind: Kind.Facts }]) {
      const error = await server.error(wanted);
      expect([error.code, error.message]).toEqual(["failed_precondition", expect.stringContaining("must expose it")]);
    }
  });
});

describe("a fetch that fails", () => {
  const failing = (): Promise<Response> => Promise.reject(new TypeError("Failed to fetch"));

  it("before any answer says what a rule must allow, at once", async () => {
    const server = new FakeServer(failing);
    const error = await server.error({ size: 10 });
    expect([error.code, server.asked.length]).toEqual(["failed_precondition", 1]);
    expect(error.message).toContain("CORS rule that allows GET with the header Range");
  });

  it("after an answer is a broken connection, and tried again", async () => {
    const server = new FakeServer((asked, number) => (number === 2 ? failing() : partial(asked)));
    const reader = server.reader();
    for (const offset of [0, 10]) await reader.get({ kind: Kind.Range, address: kAddress, offset, size: 1 }, new AbortController().signal);
    expect(server.asked.map((one) => one.range)).toEqual(["bytes=0-0", "bytes=10-10", "bytes=10-10"]);
  });

  it("because of the policy of the page says which option the server lacks", async () => {
    const server = new FakeServer(failing);
    server.refused = true;
    const error = await server.error({ size: 10 });
    expect([error.code, error.message]).toEqual(["permission_denied", expect.stringContaining("--http-connect https://data.example.org")]);
  });
});
