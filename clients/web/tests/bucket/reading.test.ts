/** Golden datasets read through the module, over what stands for a web server: the samples are those of the release. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Transport } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { levelBox, sampleIndex, shapeOf, volume, wholeGrid } from "../../src/geometry";
import { type FieldInfo, gridOf, type Opened, type ViewerError } from "../../src/model";
import { QuarryClient } from "../../src/net/client";
import { routed } from "../../src/net/places";
import type { ReadQuery } from "../../src/reading";
import { SAMPLE_BYTES } from "../decode/dataset";
import { GOLDEN } from "../decode/modules";
import { bucketModule, kOrigin, openHere, StaticSite } from "./static";

const kModule = bucketModule();
const kNoServer = { unary: () => Promise.reject(new Error("the server was asked")), stream: () => Promise.reject(new Error("the server was asked")) } as unknown as Transport;

interface Reader {
  readonly site: StaticSite;
  readonly address: string;
  readonly client: QuarryClient;
}

function open(version: string, module: () => WebAssembly.Module = () => kModule): Reader {
  const site = new StaticSite(join(GOLDEN, version));
  const address = `${kOrigin}/golden.quarry`;
  const bucket = openHere(site, address, module);
  const client = new QuarryClient(routed(kNoServer, () => bucket), { retries: 0, sleep: () => Promise.resolve() });
  return { site, address, client };
}

function queryOf(address: string, { info }: Opened, field: FieldInfo, step: number, level: number, encoding: "samples" | "patches"): ReadQuery {
  const grid = gridOf(info, field.name);
  return { selection: { dataset: address, field: field.name, step }, field, grid, box: wholeGrid(grid), first: level, level, focus: null, encoding, recode: 0, priority: 0 };
}

/** The samples of a level. */
async function samplesOf(client: QuarryClient, query: ReadQuery): Promise<Uint8Array> {
  const whole = levelBox(query.box, query.level);
  const size = SAMPLE_BYTES[query.field.type];
  const bytes = new Uint8Array(volume(shapeOf(whole)) * size);
  for await (const event of client.read(query, new AbortController().signal)) {
    if (event.kind !== "samples") continue;
    for (const { box: { begin, end }, data } of event.blocks) {
      const run = (end[0] - begin[0]) * size;
      let from = 0;
      for (let z = begin[2]; z < end[2]; ++z)
        for (let y = begin[1]; y < end[1]; ++y, from += run) bytes.set(data.subarray(from, from + run), size * sampleIndex(whole, begin[0], y, z));
    }
  }
  return bytes;
}

describe("a dataset on a web server", () => {
  it.each(["v4-catalogue", "v4-coarse", "v4-objects"])("%s has the samples of the release, in all levels and layers", async (version) => {
    const { client, address } = open(version);
    const opened = await client.open(address);
    const lines = readFileSync(join(GOLDEN, version, "digests.txt"), "utf8").trim().split("\n").map((line) => line.split(" "));
    let compared = 0;
    for (const [name, step, level, ...rest] of lines) {
      const layer = rest.length > 1 ? Number(rest[0]) : null;
      const field = opened.info.fields.find((one) => one.stored === name && (layer === null ? one.layer === one.layers - 1 : one.layer === layer));
      // Samples of 64 bits are the nearest numbers in the page, and float16 is float32.
      if (field === undefined || !opened.steps.some((one) => one.step === Number(step) && one.fields.has(field.name))) continue;
      const bytes = await samplesOf(client, queryOf(address, opened, field, Number(step), Number(level), "samples"));
      const digest = createHash("sha256").update(bytes).digest("hex");
      expect([name, step, level, digest]).toEqual([name, step, level, rest.at(-1)]);
      ++compared;
    }
    expect(compared).toBeGreaterThanOrEqual(10);
  });

  it("has its first picture after three waits, in five requests", async () => {
    const { client, address, site } = open("v4-objects");
    const opened = await client.open(address);
    const afterOpening = site.waits;
    const [field] = opened.info.fields;
    const level = gridOf(opened.info, field!.name).levels - 1;
    const kinds: string[] = [];
    for await (const event of client.read(queryOf(address, opened, field!, opened.steps.at(-1)!.step, level, "patches"), new AbortController().signal)) kinds.push(event.kind);
    expect(kinds).toEqual(["header", "patches", "level", "end"]);
    // dataset.json, head, and the mark that it is current; step.json and the coarse object, which has all that it takes.
    expect(afterOpening).toBeLessThanOrEqual(2);
    expect(site.waits).toBeLessThanOrEqual(3);
    expect(site.asked.length).toBe(5);
    expect(site.bytes).toBeLessThan(40_000);
  });

  it("gives statistics and points as the samples have them", async () => {
    const { client, address } = open("v4-objects");
    const opened = await client.open(address);
    const field = opened.info.fields[0]!;
    const grid = gridOf(opened.info, field.name);
    const { step } = opened.steps[0]!;
    const query = queryOf(address, opened, field, step, 0, "samples");
    const bytes = await samplesOf(client, query);
    const samples = new Float32Array(bytes.buffer);
    const valid = [...samples].filter((one) => Number.isFinite(one) && one !== field.fill);
    const found = await client.statistics(query.selection, wholeGrid(grid), 0, { percentiles: [], bins: 0 });
    expect(found).toMatchObject({ valid: valid.length, missing: samples.length - valid.length });
    expect(found.min.value).toBe(valid.reduce((a, b) => Math.min(a, b)));
    expect(found.max.value).toBe(valid.reduce((a, b) => Math.max(a, b)));
    const at = [[0, 0, 0], [3, 2, 1], [5, 4, 3]] as const;
    const points = await client.points(query.selection, at.flat());
    const whole = wholeGrid(grid);
    expect(points.values).toEqual(at.map(([x, y, z]) => samples[sampleIndex(whole, x, y, z)]!).map((one) => (Number.isFinite(one) && one !== field.fill ? one : NaN)));
  });
});

describe("what goes wrong", () => {
  async function failure(reader: Reader): Promise<ViewerError> {
    const reason: unknown = await reader.client.open(reader.address).catch((error: unknown) => error);
    return reason as ViewerError;
  }

  it.each([
    ["v1", "invalid_argument", "quarry upgrade"],
    ["v4-pack", "invalid_argument", "has packs of steps"],
    ["nothing", "not_found", "it has no dataset.json"],
  ])("%s is an error that says what to do", async (version, code, text) => {
    const error = await failure(open(version));
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(text)]);
  });

  it("an object of another size than the manifest says is found out", async () => {
    const reader = open("v4-catalogue");
    const opened = await reader.client.open(reader.address);
    reader.site.change = (path, response) => {
      if (path.endsWith(".qsf")) response.headers.set("content-range", response.headers.get("content-range")!.replace(/\d+$/, (size) => `${Number(size) + 1}`));
      return response;
    };
    const query = queryOf(reader.address, opened, opened.info.fields[0]!, opened.steps[0]!.step, 0, "samples");
    await expect(samplesOf(reader.client, query)).rejects.toThrow("another file is in its place");
  });

  it("bytes that are wrong are damage, never samples", async () => {
    const reader = open("v4-coarse");
    const opened = await reader.client.open(reader.address);
    const query = queryOf(reader.address, opened, opened.info.fields[0]!, opened.steps[0]!.step, 0, "samples");
    reader.site.change = (path, response) => {
      if (!path.endsWith(".qsf")) return response;
      const body = response.body!.pipeThrough(new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) { controller.enqueue(chunk.map((byte) => byte ^ 1)); },
      }));
      return new Response(body, { status: response.status, headers: response.headers });
    };
    const error = await samplesOf(reader.client, query).catch((reason: unknown) => reason) as ViewerError;
    expect(error.code).toBe("data_loss");
  });

  it("following needs a server, and says so", async () => {
    const reader = open("v4-objects");
    await reader.client.open(reader.address);
    const steps = reader.client.watch(reader.address, null, new AbortController().signal);
    await expect(steps[Symbol.asyncIterator]().next()).rejects.toThrow("needs a Quarry server");
  });

  it("a question that nobody wants any more ends its requests, and others go on", async () => {
    const reader = open("v4-objects");
    const opened = await reader.client.open(reader.address);
    const query = queryOf(reader.address, opened, opened.info.fields[0]!, opened.steps[0]!.step, 0, "samples");
    let release = (): void => undefined;
    reader.site.hold = new Promise((resolve) => { release = resolve; });
    const gone = new AbortController();
    const cancelled = (async () => {
      for await (const event of reader.client.read(query, gone.signal)) void event;
    })();
    const other = samplesOf(reader.client, query);
    await new Promise((resolve) => { setTimeout(resolve, 20); });
    gone.abort();
    await expect(cancelled).rejects.toThrow();
    reader.site.hold = null;
    release();
    expect((await other).length).toBeGreaterThan(0);
  });
});
