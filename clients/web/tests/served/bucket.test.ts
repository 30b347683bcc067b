/** The page from a static host, and datasets from web servers, without a Quarry server: the same pictures and numbers as with one. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Folder, kPage, launch, run, runLine, Server, Viewer } from "./harness";

const kGolden = join(import.meta.dirname, "../../../../tests/format/golden");
const kDims = [70, 50, 40] as const;
/** A longer wait is a hang. */
const kWaiting = { timeout: 600_000, interval: 50 } as const;
const folder = new Folder();
let browser: Browser;

/** A web server that knows no Quarry. */
class StaticHost {
  http = "";
  readonly requests: string[] = [];
  private process: ChildProcess | null = null;

  constructor(private readonly root: string, private readonly options: readonly string[] = []) {}

  async start(): Promise<void> {
    this.process = spawn("python3", [join(import.meta.dirname, "range_server.py"), this.root, ...this.options], { stdio: ["ignore", "pipe", "inherit"] });
    const lines = createInterface({ input: this.process.stdout! });
    const [first] = await once(lines, "line") as [string];
    lines.on("line", (line: string) => { this.requests.push(line); });
    this.http = `127.0.0.1:${first.split(" ")[1]}`;
  }

  stop(): void { this.process?.kill(); }
}

const data = new StaticHost(folder.at("data"));
const closed = new StaticHost(folder.at("data"), ["--no-cors"]);
const plain = new StaticHost(folder.at("data"), ["--no-ranges"]);
const hidden = new StaticHost(folder.at("data"), ["--hide-content-range"]);
const hosts = [data, closed, plain, hidden];
const page = new StaticHost(folder.at("site"));
const server = new Server(folder.at("data"));

const wave = (x: number, y: number, z: number): number => 3 * Math.sin(x / 9) + 2 * Math.cos(y / 7) + z / 10;

function values(of: (x: number, y: number, z: number) => number): Float32Array {
  const [nx, ny, nz] = kDims;
  return Float32Array.from({ length: nx * ny * nz }, (_, i) => of(i % nx, Math.floor(i / nx) % ny, Math.floor(i / nx / ny)));
}

beforeAll(async () => {
  mkdirSync(folder.at("data"));
  const coarse = ["--order", "coarse"] as const;
  folder.write("wave", "f", kDims, values(wave), "float32", "--tolerance", "1e-3", "--patch", "16", "--units", "m/s", ...coarse);
  folder.write("ladder", "f", kDims, values(wave), "float32", "--layers", "0.5,0.01,exact", "--patch", "16", ...coarse);
  // So many bytes that a picture takes parts of its files.
  const noise = values(() => 0);
  for (let i = 0, state = 1; i < noise.length; ++i) noise[i] = (state = Math.imul(state, 1664525) + 1013904223) / 2 ** 31;
  folder.write("noise", "f", kDims, noise, "float32", "--lossless", "--patch", "16");
  folder.write("holes", "f", kDims, values((x, y, z) => (Math.hypot(x - 35, y - 25, z - 20) < 9 ? NaN : wave(x, y, z))), "float32", "--tolerance", "1e-3", "--patch", "16");
  for (const version of ["v1", "v4", "v4-objects", "v4-pack"]) cpSync(join(kGolden, version, "golden.quarry"), folder.at(`data/${version}.quarry`), { recursive: true });
  for (const name of ["noise", "holes", "v1", "v4"]) run("quarry", "upgrade", folder.at(`data/${name}.quarry`));
  cpSync(join(kGolden, "v1/golden.quarry"), folder.at("data/old.quarry"), { recursive: true });
  // Below a folder, as in a bucket.
  cpSync(kPage, folder.at("site/viewer"), { recursive: true });
  for (const host of [...hosts, page]) await host.start();
  await server.start();
  browser = await launch();
});

afterAll(async () => {
  await browser.close();
  for (const host of [...hosts, page]) host.stop();
  await server.stop();
  folder.remove();
});

const kSite = { get http(): string { return `${page.http}/viewer`; } };

function addressOf(name: string, host = data): string {
  return `http://${host.http}/${name}.quarry`;
}

describe("a page from a static host", () => {
  it.each([
    ["wave", "f=f&level=0&at=33,21,17&range=locked&low=-4&high=9"],
    ["ladder", "f=f,%20layer%200&level=0&at=33,21,17"],
    ["ladder", "f=f&level=0&at=33,21,17"],
    ["holes", "f=f&level=0&at=12,21,17"],
    ["v4-objects", "f=holes&level=0"],
    ["v4", ""],
    ["v1", ""],
  ])("shows %s (%s) as a page over a server does", async (name, link) => {
    const over = await Viewer.open(browser, server, `d=${name}&${link}`);
    await over.settled();
    const alone = await Viewer.open(browser, kSite, `d=${addressOf(name)}&${link}`);
    await alone.settled();
    expect(await alone.value()).toBe(await over.value());
    const { different, colours } = await alone.compared(await over.picture(), await alone.picture());
    expect(colours).toBeGreaterThan(5);
    expect(different).toBeLessThan(0.002);
    expect(over.problems).toEqual([]);
    // The page looks for a server's port where it comes from.
    expect(alone.problems.filter((text) => !text.includes("404"))).toEqual([]);
    await over.close();
    await alone.close();
  });

  it("has statistics and probes as over a server", async () => {
    const said: string[][] = [];
    for (const [host, name] of [[server, "wave"], [kSite, addressOf("wave")]] as const) {
      const viewer = await Viewer.open(browser, host, `d=${name}&f=f&level=0&at=33,21,17&box=5:60,4:40,3:30`);
      await viewer.settled();
      await expect.poll(() => viewer.text(".panel"), kWaiting).toContain("at level 0: 53,460 samples, none missing");
      const numbers = await viewer.page.locator(".numbers td").allTextContents();
      await viewer.page.getByText("Profile and probe").click();
      await viewer.page.getByText("Probe the cursor").click();
      const caption = viewer.page.getByText(/^f at /);
      await expect.poll(() => caption.textContent(), kWaiting).toContain("error");
      said.push([...numbers, (await caption.textContent())!]);
      await viewer.close();
    }
    expect(said[0]!.length).toBeGreaterThan(4);
    expect(said[1]).toEqual(said[0]);
    // The command reads the same sample from the files.
    const value = /: ([-\d.e]+)/.exec(said[0]!.at(-1)!.replaceAll("−", "-"))![1];
    expect(Math.abs(Number(value) - folder.sample("wave", "f", [33, 21, 17]).readFloatLE())).toBeLessThan(2e-3);
  });

  it("copies lines that work as copied", async () => {
    const viewer = await Viewer.open(browser, kSite, `d=${addressOf("wave")}&f=f&level=1`);
    await viewer.settled();
    expect(await viewer.link()).toContain(`d=${addressOf("wave")}&`);
    const line = await viewer.copied("Command: quarry get");
    expect(line).toContain(addressOf("wave"));
    runLine(line, folder.at(""));
    await viewer.close();
  });

  it.each([
    ["without a rule for other origins", closed, "wave", "CORS rule that allows GET with the header Range"],
    ["without ranges", plain, "noise", "answers a range of bytes with the whole file"],
    ["without a catalogue of its steps", data, "old", "quarry upgrade"],
    ["with packs", data, "v4-pack", "quarry pack --unpack"],
    ["that is not there", data, "nothing", "it has no dataset.json"],
  ])("says what to do about a dataset %s", async (_, host, name, text) => {
    const viewer = await Viewer.open(browser, kSite, `d=${addressOf(name, host)}`);
    await viewer.page.getByText(text).first().waitFor();
    await viewer.close();
  });

  it("says that an address with a signature is not read", async () => {
    const viewer = await Viewer.open(browser, kSite, `d=${encodeURIComponent(`${addressOf("wave")}?sig=secret`)}`);
    await viewer.page.getByText("whoever gets a link").first().waitFor();
    expect(data.requests.some((line) => line.includes("secret"))).toBe(false);
    await viewer.close();
  });
});

describe("a page from a Quarry server", () => {
  it("reads elsewhere only where the server allows it", async () => {
    const refused = await Viewer.open(browser, server, `d=${addressOf("wave")}&f=f`);
    await refused.page.getByText(`--http-connect http://${data.http}`).first().waitFor();
    await refused.close();
    const open = new Server(folder.at("data"), ["--http-connect", `http://${data.http}`]);
    await open.start();
    const viewer = await Viewer.open(browser, open, `d=${addressOf("wave")}&f=f&level=0&at=33,21,17`);
    await viewer.settled();
    expect(viewer.problems).toEqual([]);
    await viewer.close();
    await open.stop();
  });

  it("loads the reader with the first dataset that needs it", async () => {
    const viewer = await Viewer.open(browser, server, "d=wave&f=f");
    await viewer.settled();
    const loaded = await viewer.page.evaluate(() => performance.getEntriesByType("resource").map(({ name }) => name));
    expect(loaded.filter((name) => /bucket|serving/.test(name))).toEqual([]);
    await viewer.close();
  });
});

describe("the requests of a first picture", () => {
  it("are few", async () => {
    const before = data.requests.length;
    const viewer = await Viewer.open(browser, kSite, `d=${addressOf("wave")}&f=f&pane=z`);
    await viewer.settled();
    const asked = data.requests.slice(before);
    // dataset.json, head, its mark, step.json, the coarse object, and payload of two subfiles at most a few times.
    expect(asked.length).toBeLessThan(40);
    expect(asked.filter((line) => line.startsWith("OPTIONS"))).toEqual([]);
    await viewer.close();
  });
});
