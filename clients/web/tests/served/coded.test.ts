import { mkdirSync, readFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Decoder } from "../../src/decode/decoder";
import { levelBox, sampleIndex, shapeOf, volume } from "../../src/geometry";
import type { Box, Selection, Vec3 } from "../../src/model";
import { QuarryClient } from "../../src/net/client";
import { createTransport } from "../../src/net/transport";
import type { HeaderLevel } from "../../src/reading";
import { SAMPLE_BYTES } from "../decode/dataset";
import { MODULES } from "../decode/modules";
import { Folder, launch, run, Server, Viewer } from "./harness";

// The page and the command read the same coded answers.
const kDims = [96, 80, 72] as const;
const folder = new Folder();
const server = new Server(folder.at("data"));
let browser: Browser;

const wave = (x: number, y: number, z: number): number => 3 * Math.sin(x / 9) + 2 * Math.cos(y / 7) + z / 10 + 0.05 * Math.sin(x * y + z);

function values(of: (x: number, y: number, z: number) => number): Float32Array {
  const [nx, ny, nz] = kDims;
  return Float32Array.from({ length: nx * ny * nz }, (_, i) => of(i % nx, Math.floor(i / nx) % ny, Math.floor(i / nx / ny)));
}

beforeAll(async () => {
  mkdirSync(folder.at("data"));
  const smooth = values(wave);
  const labels = values((x, y, z) => Math.floor(x / 11) * 7 - Math.floor((y + z) / 13));
  const common = ["--patch", "32", "--append"] as const;
  folder.write("all", "f", kDims, smooth, "float32", "--tolerance", "1e-3", "--patch", "32");
  folder.write("all", "holes", kDims, values((x, y, z) => (Math.hypot(x - 35, y - 25, z - 30) < 19 ? -9 : wave(x, y, z))), "float32", "--tolerance", "1e-2", "--fill", "-9", ...common);
  folder.write("all", "double", kDims, Float64Array.from(smooth), "float64", "--lossless", ...common);
  folder.write("all", "signs", kDims, smooth, "float32", "--tolerance", "0.1", "--keep-sign", ...common);
  folder.write("all", "layers", kDims, smooth, "float32", "--layers", "0.5,exact", ...common);
  folder.write("all", "labels", kDims, Int16Array.from(labels), "int16", ...common);
  folder.write("all", "wide", kDims, BigInt64Array.from(labels, (one) => BigInt(one) * 10n ** 15n), "int64", ...common);
  await server.start();
  browser = await launch();
});

afterAll(async () => {
  await browser.close();
  await server.stop();
  folder.remove();
});

/** The bytes of an answer of one level, put together from its tiles. */
async function readCoded(module: WebAssembly.Module, name: string, box: Box, level: number, recode: number): Promise<{ bytes: Uint8Array; header: HeaderLevel; received: number }> {
  const client = new QuarryClient(createTransport(`http://${server.http}`, () => null, undefined), { retries: 0, sleep: () => Promise.resolve() });
  const { info, steps } = await client.open("all");
  const field = info.fields.find((one) => one.name === name)!;
  const selection: Selection = { dataset: "all", field: name, step: steps[0]!.step };
  const whole = levelBox(box, level);
  const size = SAMPLE_BYTES[field.type];
  const bytes = new Uint8Array(volume(shapeOf(whole)) * size);
  const decoder = new Decoder(module);
  let header: HeaderLevel | null = null;
  let received = 0;
  const question = { selection, field, grid: info.grids[field.grid]!, box, first: level, level, focus: null, encoding: "coded" as const, recode, priority: 0 };
  for await (const event of client.read(question, new AbortController().signal)) {
    if (event.kind === "header") header = event.header.levels[0]!;
    if (event.kind !== "coded") continue;
    for (const block of event.blocks) {
      received += block.data.length;
      const samples = new Uint8Array(decoder.tile({ type: field.type, shape: shapeOf(block.box) }, block.data));
      const run = (block.box.end[0] - block.box.begin[0]) * size;
      let from = 0;
      for (let z = block.box.begin[2]; z < block.box.end[2]; ++z)
        for (let y = block.box.begin[1]; y < block.box.end[1]; ++y, from += run)
          bytes.set(samples.subarray(from, from + run), size * sampleIndex(whole, block.box.begin[0], y, z));
    }
  }
  return { bytes, header: header!, received };
}

/** The same by the command, and what it says of the error. */
function command(field: string, box: Box, level: number, recode: number): { bytes: Uint8Array; text: string } {
  const output = folder.at("coded.raw");
  const words = [`grpc://${server.address}/all`, "--field", field, "--level", level, "--box", box.begin.map((begin, a) => `${begin}:${box.end[a]}`).join(","),
    "--encoding", "coded", ...(recode > 0 ? ["--recode", recode] : []), "--output", output];
  const text = run("quarry", "get", ...words);
  return { bytes: new Uint8Array(readFileSync(output)), text };
}

const box = (begin: Vec3, end: Vec3): Box => ({ begin, end });
const kBoxes: readonly (readonly [string, Box, number])[] = [
  ["a plane", box([0, 0, 37], [96, 80, 38]), 0],
  ["another", box([33, 0, 0], [34, 80, 72]), 0],
  ["two planes of a level", box([0, 0, 36], [96, 80, 41]), 2],
  ["a box", box([10, 3, 5], [71, 66, 50]), 0],
];

describe("a coded answer", () => {
  it.each(["f", "holes", "double", "signs", "layers", "labels", "wide"])("of %s has the bits of the command, and the error that it says", async (field) => {
    for (const [what, where, level] of kBoxes) {
      for (const recode of [0, 2 ** -6]) {
        const expected = command(field, where, level, recode);
        for (const [name, module] of MODULES) {
          const { bytes, header } = await readCoded(module, field, where, level, recode);
          expect(Buffer.from(bytes).equals(expected.bytes), `${what}, ${recode}, ${name}`).toBe(true);
          const said = /max error ([^\s,]+)/.exec(expected.text)?.[1];
          expect(Math.abs(Number(said) - header.maxError), expected.text).toBeLessThanOrEqual(1e-4 * header.maxError);
        }
      }
    }
  });
});

describe("a slice on screen", () => {
  const kLink = "d=all&f=f&level=0&pane=z&at=40,50,37&range=locked&low=-4&high=12";

  it("comes coded, with the error of storing and coding together, in few bytes", async () => {
    const tiles = await server.metric("quarry_coded_tiles_total");
    const viewer = await Viewer.open(browser, server, kLink);
    await viewer.settled();

    expect(await server.metric("quarry_coded_tiles_total")).toBeGreaterThan(tiles);
    const { header, received } = await readCoded(MODULES[0][1], "f", box([0, 0, 37], [96, 80, 38]), 0, 2 ** -4);
    const [, error] = /level 0 of \d, error ≤ (\S+)/.exec(await viewer.text(".load")) ?? [];
    // Two digits, rounded up.
    expect(Number(error)).toBeGreaterThanOrEqual(header.maxError * 0.95);
    expect(Number(error)).toBeLessThan(header.maxError * 1.1);
    expect(header.maxError).toBeGreaterThan(2 ** -4);
    expect(received).toBeLessThan(96 * 80);
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it("is asked for again where the range of the colours becomes a part of it", async () => {
    const viewer = await Viewer.open(browser, server, kLink);
    await viewer.settled();
    const error = async (): Promise<number> => Number(/level 0 of \d, error ≤ (\S+)/.exec(await viewer.text(".load"))?.[1]);
    const before = await error();
    await viewer.page.evaluate((link) => { location.hash = `v=1&${link}`; }, kLink.replace("low=-4&high=12", "low=0&high=1"));
    await expect.poll(error, { timeout: 600_000 }).toBeLessThan(before / 8);
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it("says the value of the sample at the cursor as it is stored", async () => {
    const viewer = await Viewer.open(browser, server, kLink);
    await viewer.settled();
    const expected = folder.sample("all", "f", [40, 50, 37]).readFloatLE();
    expect(Math.abs(Number((await viewer.value()).slice(2)) - expected)).toBeLessThan(1e-3);
    expect(await viewer.text(".quality")).toMatch(/^± \S+ {3}level 0$/);
    await viewer.go(kLink.replace("f=f", "f=labels"));
    await viewer.settled();
    expect(await viewer.value()).toBe(`labels ${folder.sample("all", "labels", [40, 50, 37]).readInt16LE()}`);
    await viewer.close();
  });
});
