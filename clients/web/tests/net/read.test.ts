import { clone, create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { BoxSchema } from "../../build/proto/quarry/v1/dataset_pb";
import { type BlockExtent, BlockExtentSchema, type LevelEnd, ReadEndSchema, type ReadHeader, ReadResponseSchema, type ReadResponse } from "../../build/proto/quarry/v1/service_pb";
import type { Box } from "../../src/model";
import { QuarryClient } from "../../src/net/client";
import type { ReadEncoding, ReadEvent, ReadQuery } from "../../src/reading";
import { type FakeOptions, FakeServer } from "./fake_server";

const kBox: Box = { begin: [0, 0, 0], end: [16, 4, 9] };

function open(options: FakeOptions = {}): { server: FakeServer; client: QuarryClient; waits: number[] } {
  const server = new FakeServer(options);
  const waits: number[] = [];
  const sleep = (ms: number): Promise<void> => {
    waits.push(ms);
    return Promise.resolve();
  };
  const client = new QuarryClient(server.transport(), { retries: 2, sleep });
  return { server, client, waits };
}

async function query(client: QuarryClient, encoding: ReadEncoding, box = kBox): Promise<ReadQuery> {
  const { info } = await client.open("run42");
  const selection = { dataset: "run42", field: "speed", step: 0 };
  return { selection, field: info.fields.find((one) => one.name === "speed")!, grid: info.grids[0]!, box, first: 2, level: 0, focus: null, encoding, recode: encoding === "coded" ? 0.25 : 0, priority: 0 };
}

async function eventsOf(client: QuarryClient, question: ReadQuery): Promise<ReadEvent[]> {
  const events: ReadEvent[] = [];
  const { signal } = new AbortController();
  for await (const event of client.read(question, signal)) events.push(event);
  return events;
}

async function readAll(client: QuarryClient, encoding: ReadEncoding): Promise<ReadEvent[]> {
  return eventsOf(client, await query(client, encoding));
}

async function errorOf(promise: Promise<unknown>): Promise<{ code: string; message: string }> {
  try {
    await promise;
  } catch (error) {
    return error as { code: string; message: string };
  }
  throw new Error("there is no error");
}

describe("an answer", () => {
  it("has a header, all levels coarse to fine, and an end", async () => {
    const { client } = open();
    const events = await readAll(client, "patches");

    const [header] = events;
    expect(header).toMatchObject({ kind: "header", header: { levels: [
      { level: 2, box: { begin: [0, 0, 0], end: [4, 1, 3] }, maxError: 0.16 },
      { level: 1, box: { begin: [0, 0, 0], end: [8, 2, 5] }, maxError: 0.04 },
      { level: 0, box: kBox, maxError: 0.01 },
    ] } });
    expect(events.filter((event) => event.kind === "level").map((event) => event.level)).toEqual([2, 1, 0]);
    const patches = events.filter((event) => event.kind === "patches");
    const wanted = [2, 1, 0].flatMap((level) => [0, 1, 9, 10, 18, 19].map((patch) => `${level}/${patch}`));
    expect(patches.flatMap((event) => event.patches.map((patch) => `${event.level}/${patch.patch}`))).toEqual(wanted);
    expect(events.at(-1)).toEqual({ kind: "end" });
  });

  it("hands out payload as it is, without copying it", async () => {
    const { client, server } = open();
    const events = await readAll(client, "patches");
    const first = events.find((event) => event.kind === "patches")!;

    const [one, two] = first.patches;
    expect([...new Float32Array(one!.levels[0]!.payload.slice().buffer)]).toEqual(server.patchLevel(0, 2, 0));
    expect(one!.levels[0]!.payload.buffer).toBe(two!.levels[0]!.payload.buffer);
  });

  it("that is coded has tiles with their bytes, and the errors of storing and coding together", async () => {
    const { client, server } = open();
    const events = await readAll(client, "coded");

    expect(server.reads[0]).toMatchObject({ encoding: "coded", recode: 0.25 });
    expect(events[0]).toMatchObject({ kind: "header", header: { levels: [{ maxError: 0.16 + 0.25 }, { maxError: 0.29 }, { maxError: 0.26 }] } });
    const [first] = events.flatMap((event) => (event.kind === "coded" ? event.blocks : []));
    expect(first).toMatchObject({ box: { begin: [0, 0, 0], end: [1, 1, 1] }, damaged: [] });
    expect(first!.data.length).toBe(4);
    expect(events.at(-1)).toEqual({ kind: "end" });
  });

  it("that is coded lists the damaged boxes of its tiles", async () => {
    const { client, server } = open({ rougher: [10] });
    const rougher = create(BlockExtentSchema, { begin: [2, 0, 0], shape: [1, 1, 1], shownLayer: 0 });
    server.tamper = changing("coded", ({ tiles }) => { tiles[1]!.damaged.push(rougher); });
    const events = await readAll(client, "coded");

    const blocks = events.flatMap((event) => (event.kind === "coded" ? event.blocks : []));
    expect(blocks.slice(0, 3).map((block) => block.damaged)).toEqual([[], [{ begin: [2, 0, 0], end: [3, 1, 1] }], []]);
  });

  it("without masks has the checksum of nothing for them, which servers leave out", async () => {
    const { client } = open();
    const events = await readAll(client, "patches");

    // XXH3 (64 bit, no seed) of no bytes, as its authors publish it.
    expect(events.find((event) => event.kind === "patches")!.patches[0]!.levels[0]!.maskChecksum).toBe(0x2d06800538d394c2n);
  });

  it("may have its ends in messages of their own", async () => {
    const { client, server } = open();
    const whole = await readAll(client, "samples");
    server.endsApart = true;

    expect(await readAll(client, "samples")).toEqual(whole);
  });

  it("that breaks is taken up, and its header comes once", async () => {
    const { client, server, waits } = open();
    const whole = await readAll(client, "samples");
    let left = 2;
    server.beforeMessage = (read) => {
      if (read.sent === 4 && left-- > 0) throw new ConnectError("reset", Code.Unavailable);
    };
    const broken = await readAll(client, "samples");

    expect(broken).toEqual(whole);
    expect(server.reads.map((read) => read.resumed)).toEqual([false, false, true, true]);
    expect(waits.length).toBe(2);
  });

  it("from which nothing new comes is given up", async () => {
    const { client, server } = open();
    server.beforeMessage = (read, message) => {
      if (read.resumed && message.part.case !== "header") throw new ConnectError("still broken", Code.Unavailable);
      if (read.sent === 4) throw new ConnectError("reset", Code.Unavailable);
    };

    expect(await errorOf(readAll(client, "samples"))).toMatchObject({ code: "unavailable", message: "still broken" });
    expect(server.reads.length).toBe(3);
  });

  it("of other data is not mixed with the first", async () => {
    const { client, server } = open();
    server.beforeMessage = (read) => {
      if (read.resumed) throw new ConnectError("the data have changed", Code.FailedPrecondition);
      if (read.sent === 4) throw new ConnectError("reset", Code.Unavailable);
    };

    expect(await errorOf(readAll(client, "samples"))).toMatchObject({ code: "failed_precondition" });
  });

  it("ends at once with its signal", async () => {
    const { client, server } = open();
    const stop = new AbortController();
    const seen: string[] = [];
    const reading = (async () => {
      for await (const event of client.read(await query(client, "patches"), stop.signal)) {
        seen.push(event.kind);
        stop.abort();
      }
    })();

    expect(await errorOf(reading)).toMatchObject({ code: "cancelled" });
    expect([seen, server.reads[0]!.state]).toEqual([["header"], "aborted"]);
  });
});

type Part = Exclude<ReadResponse["part"], { case: undefined }>;
type Value<C extends Part["case"]> = Extract<Part, { case: C }>["value"];
type Tamper = (message: ReadResponse) => ReadResponse;

/** Changes the first message of a kind. */
function changing<C extends Part["case"]>(kind: C, change: (value: Value<C>) => unknown): Tamper {
  let done = false;
  return (message) => {
    if (done || message.part.case !== kind) return message;
    done = true;
    const changed = clone(ReadResponseSchema, message);
    change(changed.part.value as Value<C>);
    return changed;
  };
}

/** Changes the first message in which a level ends. */
function changingEnd(change: (message: ReadResponse, end: LevelEnd) => unknown): Tamper {
  let done = false;
  return (message) => {
    if (done || message.levelEnd === undefined) return message;
    done = true;
    const changed = clone(ReadResponseSchema, message);
    change(changed, changed.levelEnd!);
    return changed;
  };
}

/** A sample of level 2 that would show level 3. */
function damage(begin: number[]): BlockExtent {
  return create(BlockExtentSchema, { begin, shape: [1, 1, 1], shownLevel: 3 });
}

describe("a hostile answer", () => {
  const cases: [string, ReadEncoding, Tamper][] = [
    ["another step", "samples", changing("header", (h) => { h.step = 5n; })],
    ["another field", "samples", changing("header", (h) => { h.field = "pressure"; })],
    ["another type", "samples", changing("header", (h) => { h.dtype = 2; })],
    ["another layer", "samples", changing("header", (h) => { h.layer = 1; })],
    ["no levels", "samples", changing("header", (h) => { h.levels = []; })],
    ["other levels", "samples", changing("header", (h) => { h.levels.reverse(); })],
    ["a larger extent", "samples", changing("header", (h) => { h.levels[0]!.shape = [2 ** 20, 2 ** 20, 2 ** 20]; })],
    ["an error that is no number", "samples", changing("header", (h) => { h.levels[0]!.maxError = NaN; })],
    ["several answers", "samples", changing("header", (h) => { h.count = 3n; })],
    ["parts left out", "samples", changing("header", (h) => {
      h.leftOut.push(create(BoxSchema, { begin: [0, 0, 0], end: [1, 1, 1] }));
    })],
    ["a block outside", "samples", changing("samples", (s) => { s.blocks[0]!.begin = [1, 0, 0]; })],
    ["a block of 2^60 samples", "samples", changing("samples", (s) => { s.blocks[0]!.shape = [2 ** 20, 2 ** 20, 2 ** 20]; })],
    ["a block without samples", "samples", changing("samples", (s) => { s.blocks[0]!.shape = [0, 1, 1]; })],
    ["too few samples", "samples", changing("samples", (s) => { s.data = s.data.slice(4); })],
    ["too many samples", "samples", changing("samples", (s) => { s.data = new Uint8Array(s.data.length + 4); })],
    ["the same block again", "samples", changing("samples", (s) => {
      s.blocks.push(s.blocks[0]!);
      s.data = new Uint8Array(2 * s.data.length);
    })],
    ["a hole", "samples", changing("samples", (s) => {
      s.blocks[0]!.shape[0]! -= 1;
      s.data = s.data.slice(4);
    })],
    ["samples of a finer level too early", "samples", changing("samples", (s) => { s.level = 1; })],
    ["samples instead of patches", "patches", (m) => (m.part.case === "patches"
      ? create(ReadResponseSchema, { part: { case: "samples", value: { level: 2, blocks: [] } } }) : m)],
    ["a level that shows a finer one", "samples", changing("samples", (s) => { s.blocks[0]!.shownLevel = 1; })],
    ["a level in place of itself", "samples", changing("samples", (s) => { s.blocks[0]!.shownLevel = 2; })],
    ["the only layer in place of itself", "samples", changing("samples", (s) => { s.blocks[0]!.shownLayer = 0; })],
    ["a layer that is not there", "samples", changing("samples", (s) => {
      s.blocks[0]!.shownLevel = 3;
      s.blocks[0]!.shownLayer = 1;
    })],
    ["an end of another level", "samples", changingEnd((_, end) => { end.level = 0; })],
    ["no end of a level", "samples", changingEnd((m) => { m.levelEnd = undefined; })],
    ["an end before its samples", "samples", (m) => (m.part.case === "samples"
      ? create(ReadResponseSchema, { levelEnd: { level: 2, maxError: 1 } }) : m)],
    ["an end before its levels", "samples", (m) => (m.part.case === "samples" ? create(ReadResponseSchema, { readEnd: {} }) : m)],
    ["an end with a level that is not the last", "samples", changingEnd((m) => { m.readEnd = create(ReadEndSchema); })],
    ["a patch that was not asked for", "patches", changing("patches", (p) => { p.patches[0]!.patch = 2n; })],
    ["a patch that does not exist", "patches", changing("patches", (p) => { p.patches[0]!.patch = 10n ** 15n; })],
    ["a patch twice", "patches", changing("patches", (p) => { p.patches[1]!.patch = 0n; })],
    ["payload of too many levels", "patches", changing("patches", ({ patches: [one] }) => one!.levels.push(one!.levels[0]!))],
    ["payload of too few levels", "patches", changing("patches", (p) => { p.patches[0]!.levels = []; })],
    ["payload that is short", "patches", changing("patches", (p) => { p.patches[0]!.levels[0]!.size += 2n ** 40n; })],
    ["payload that nobody describes", "patches", changing("patches", (p) => { p.data = new Uint8Array(p.data.length + 1); })],
    ["nothing in a message", "patches", (m) => (m.part.case === "patches" ? create(ReadResponseSchema, {}) : m)],
    ["a second header", "samples", (m) => (m.part.case === "samples"
      ? create(ReadResponseSchema, { part: { case: "header", value: {} } }) : m)],
    ["no header", "samples", (m) => (m.part.case === "header"
      ? create(ReadResponseSchema, { levelEnd: { level: 2 } }) : m)],
    ["an error of coding that was not allowed", "coded", changing("header", (h) => { h.levels[2]!.codingError = 0.26; })],
    ["a negative error of coding", "coded", changing("header", (h) => { h.levels[0]!.codingError = -1; })],
    ["an error of coding that is no number", "coded", changing("header", (h) => { h.levels[0]!.codingError = NaN; })],
    ["an error of coding without coding", "samples", changing("header", (h) => { h.levels[0]!.codingError = 0.1; })],
    ["samples instead of tiles", "coded", (m) => (m.part.case === "coded"
      ? create(ReadResponseSchema, { part: { case: "samples", value: { level: 2, blocks: [] } } }) : m)],
    ["tiles instead of samples", "samples", (m) => (m.part.case === "samples"
      ? create(ReadResponseSchema, { part: { case: "coded", value: { level: 2, tiles: [] } } }) : m)],
    ["a tile outside", "coded", changing("coded", (c) => { c.tiles[1]!.begin = [2, 0, 0]; })],
    ["a tile without samples", "coded", changing("coded", (c) => { c.tiles[0]!.shape = [0, 1, 1]; })],
    ["a tile of 2^60 samples", "coded", changing("coded", (c) => { c.tiles[0]!.shape = [2 ** 20, 2 ** 20, 2 ** 20]; })],
    ["a tile longer than its message", "coded", changing("coded", (c) => { c.tiles[1]!.size += 1; })],
    ["bytes that no tile has", "coded", changing("coded", (c) => { c.tiles[1]!.size -= 1; })],
    ["tiles that overlap, and others missing", "coded", changing("coded", (c) => { c.tiles[1]!.begin = [0, 0, 0]; })],
    ["tiles that are missing", "coded", changing("coded", (c) => {
      const [first] = c.tiles.splice(0, 1);
      c.data = c.data.slice(first!.size);
    })],
    ["damage outside of its tile", "coded", changing("coded", (c) => { c.tiles[0]!.damaged = [damage([1, 0, 0])]; })],
    ["damage of no samples", "coded", changing("coded", (c) => { c.tiles[0]!.damaged = [{ ...damage([0, 0, 0]), shape: [0, 0, 0] }]; })],
    ["damage that shows nothing else", "coded", changing("coded", (c) => { c.tiles[0]!.damaged = [{ ...damage([0, 0, 0]), shownLevel: 2 }]; })],
    ["blocks that overlap, and others missing", "samples", changing("samples", (s) => {
      s.blocks = [[0, 3], [0, 1]].map(([from, n]) => create(BlockExtentSchema, { begin: [from!, 0, 0], shape: [n!, 1, 1] }));
    })],
  ];
  for (const [what, encoding, tamper] of cases) {
    it(`with ${what} is refused`, async () => {
      const { client, server } = open();
      server.tamper = tamper;

      const error = await errorOf(readAll(client, encoding));
      expect(error.code).toBe("internal");
      expect(error.message).toContain("the server's answer is wrong");
      expect(server.reads.length).toBe(1);
    });
  }

  it("that repeats its samples is refused at once, not at the end that may never come", async () => {
    const { client, server } = open();
    server.tamper = changing("samples", (s) => {
      const length = s.data.length;
      s.blocks = Array.from({ length: 4 }, () => s.blocks[0]!);
      s.data = new Uint8Array(4 * length);
    });

    expect((await errorOf(readAll(client, "samples"))).message).toContain("does not fit");
    expect(server.reads[0]!.sent).toBe(2);
  });

  it("with a tile of more samples than a tile may have is refused", async () => {
    const { client, server } = open({ dims: [1024, 512, 1], patch: [512, 512, 1], levels: 1 });
    const most = { ...await query(client, "coded", { begin: [0, 0, 0], end: [1024, 512, 1] }), first: 0 };

    expect((await errorOf(eventsOf(client, most))).message).toContain("a tile has 262656 samples, more than 262144");
    expect(server.reads.length).toBe(1);
  });

  it("that goes on with a larger error is refused", async () => {
    const { client, server } = open();
    server.beforeMessage = (read) => {
      if (!read.resumed && read.sent === 4) throw new ConnectError("reset", Code.Unavailable);
    };
    let headers = 0;
    server.tamper = (message) => {
      if (message.part.case !== "header" || headers++ === 0) return message;
      const changed = clone(ReadResponseSchema, message);
      (changed.part.value as ReadHeader).levels[0]!.maxError *= 2;
      return changed;
    };

    expect((await errorOf(readAll(client, "coded"))).message).toContain("goes on with larger errors");
  });

  it("that stops in good order before its end is taken up", async () => {
    const { client, server } = open();
    const whole = await readAll(client, "samples");
    server.cutAfter = 3;

    expect(await readAll(client, "samples")).toEqual(whole);
    expect(server.reads.length).toBeGreaterThan(5);
  });

  it("that stops after each header is given up", async () => {
    const { client, server } = open();
    server.cutAfter = 1;

    expect(await errorOf(readAll(client, "samples"))).toMatchObject({ code: "unavailable" });
    expect(server.reads.length).toBe(3);
  });
});
