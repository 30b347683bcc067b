import { createHash } from "node:crypto";
import { mkdirSync, openSync, readdirSync, readFileSync, closeSync, readSync, statSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bytes } from "../../src/ui/text";
import { Folder, hasPython, kPage, launch, Road, run, runLine, runPython, Server, Viewer } from "./harness";

const kDims = [70, 50, 40] as const;
const kLarge = [256, 256, 256] as const;
const folder = new Folder();
const server = new Server(folder.at("data"));
const road = new Road(server);
let browser: Browser;

/** As long as a busy machine may need. */
const kWaiting = { timeout: 600_000, interval: 50 } as const;

function samples(of: (x: number, y: number, z: number) => number, dims: readonly [number, number, number] = kDims): Float32Array {
  const [nx, ny, nz] = dims;
  const values = new Float32Array(nx * ny * nz);
  for (let z = 0, i = 0; z < nz; ++z) for (let y = 0; y < ny; ++y) for (let x = 0; x < nx; ++x) values[i++] = of(x, y, z);
  return values;
}

const wave = (x: number, y: number, z: number): number => 3 * Math.sin(x / 9) + 2 * Math.cos(y / 7) + z / 10;

/** Overwrites the last payload of the first subfile: the finest level of a patch. */
function damage(dataset: string): void {
  const steps = join(folder.at(`data/${dataset}.quarry`), "steps");
  const inside = join(steps, readdirSync(steps).find((name) => !name.startsWith("."))!, "f");
  const path = join(inside, readdirSync(inside).find((name) => name.endsWith(".qsf"))!);
  const file = openSync(path, "r+");
  // Behind the payload lie the table and the footer; half of the file is payload for certain.
  const at = Math.floor(statSync(path).size / 2);
  const bytes = Buffer.alloc(64);
  readSync(file, bytes, 0, 64, at);
  writeSync(file, bytes.map((byte) => byte ^ 0xff), 0, 64, at);
  closeSync(file);
}

beforeAll(async () => {
  mkdirSync(folder.at("data"));
  folder.write("wave", "f", kDims, samples(wave), "float32", "--tolerance", "1e-3", "--patch", "16", "--units", "m/s");
  folder.write("ladder", "f", kDims, samples(wave), "float32", "--layers", "0.5,0.01,exact", "--patch", "16", "--units", "m/s");
  folder.write("wave", "count", kDims, Int16Array.from(samples((x, y, z) => x * 7 + y * 11 - z * 13)), "int16", "--append");
  folder.write("holes", "f", kDims, samples((x, y, z) => (Math.hypot(x - 35, y - 25, z - 20) < 9 ? NaN : wave(x, y, z))), "float32", "--tolerance", "1e-3", "--patch", "16");
  folder.write("flat", "f", [90, 60, 1], samples(wave, [90, 60, 1]), "float32", "--tolerance", "1e-3", "--patch", "16");
  folder.write("line", "f", [200, 1, 1], samples(wave, [200, 1, 1]), "float32", "--tolerance", "1e-3", "--patch", "16");
  folder.write("placed", "f", kDims, samples(wave), "float32", "--tolerance", "1e-3", "--patch", "16", "--origin", "-10,100,0.5",
    "--spacing", "0.25,2,-3");
  folder.write("growing", "f", kDims, samples(wave), "float32", "--tolerance", "1e-3", "--patch", "16");
  for (const name of ["bad", "good"])
    folder.write(name, "f", kDims, samples((x, y, z) => Math.sin(x * 91 + y * 57 + z * 33)), "float32", "--tolerance", "1e-5", "--patch", "32");
  // Hardly compressed, so that it takes a while where the network is slow.
  const noise = samples((x, y, z) => Math.sin(x * x * 91.7 + y * y * 57.3 + z * z * 33.1 + x * y * z), kLarge);
  folder.write("large", "f", kLarge, noise, "float32", "--lossless", "--patch", "32");
  damage("bad");
  await server.start();
  await road.open();
  browser = await launch();
});

afterAll(async () => {
  await browser.close();
  road.close();
  await server.stop();
  folder.remove();
});

async function open(link: string, decodes = true): Promise<Viewer> { return Viewer.open(browser, server, link, decodes); }

describe("the page as the server serves it", () => {
  it("shows a coarse picture first, never goes back, and settles", async () => {
    // So slow that the page has time to show every level.
    road.limit = 400_000;
    const viewer = await Viewer.open(browser, road, "d=large&f=f&level=0&pane=z");
    await viewer.settled();
    road.limit = Infinity;
    const levels = (await viewer.seen()).map((text) => /level (\d)/.exec(text)?.[1]).filter((level) => level !== undefined).map(Number);
    // Coarser levels were complete on screen before the finest one.
    expect(levels[0]).toBeGreaterThan(0);
    expect(levels.at(-1)).toBe(0);
    expect(levels).toEqual([...levels].sort((a, b) => b - a));
    expect(await viewer.text(".load")).toContain("error ≤");
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it("is no larger than a page may be that shows something in less than a second", () => {
    const files = readdirSync(kPage, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".gz"));
    // A browser takes one of the two decoders, and what reads web servers with the first dataset there.
    const loaded = files.filter((name) => !/scalar|quarry_bucket|serving/.test(name));
    const size = loaded.reduce((sum, name) => sum + statSync(join(kPage, name)).size, 0);
    expect(files.length - loaded.length).toBe(3);
    expect(size).toBeGreaterThan(200_000);
    expect(size).toBeLessThan(300_000);
  });

  it("asks for the decoder with the program, and once", async () => {
    const viewer = await open("d=wave&f=f");
    await viewer.settled();
    const loaded = await viewer.page.evaluate(() => performance.getEntriesByType("resource").map((one) => ({
      name: one.name, by: (one as PerformanceResourceTiming).initiatorType, begin: one.startTime, end: (one as PerformanceResourceTiming).responseEnd,
    })));
    const program = loaded.find(({ name }) => /\/index-.*\.js$/.test(name))!;
    const decoders = loaded.filter(({ name }) => name.endsWith(".wasm"));
    expect(decoders.map(({ by }) => by)).toEqual(["link"]);
    const workers = loaded.filter(({ name }) => /\/worker-.*\.js$/.test(name));
    for (const [first] of [decoders, workers]) expect(first!.begin).toBeLessThan(program.end);
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it.each([["d=wave&f=f", "GetDataset"], ["", "ListDatasets"]])("asks before the program that draws is there, and once: %s", async (link, call) => {
    const viewer = await open("d=wave&f=f");
    await viewer.settled();
    const asked: string[] = [];
    const first = new Promise<void>((resolve) => {
      viewer.page.on("request", (request) => {
        const name = /Service\/((?:Get|List)Datasets?)$/.exec(request.url())?.[1];
        if (name !== undefined) asked.push(name);
        if (name !== undefined) resolve();
      });
    });
    let held = 0;
    await viewer.page.route(/\/app-[^/]*\.js$/, async (route) => {
      ++held;
      await first;
      await route.continue();
    });
    await viewer.go(link);
    if (link === "") await viewer.page.getByText("growing").waitFor();
    else await viewer.settled();
    expect(held).toBe(1);
    expect(asked).toEqual([call]);
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it("shows at the cursor what the command decodes", async () => {
    const viewer = await open("d=wave&f=count&level=0");
    for (const at of [[0, 0, 0], [69, 49, 39], [16, 15, 17], [33, 31, 8]] as const) {
      await viewer.go(`d=wave&f=count&level=0&at=${at.join(",")}`);
      await viewer.settled();
      expect(await viewer.value()).toBe(`count ${folder.sample("wave", "count", at).readInt16LE()}`);
      await viewer.go(`d=wave&f=f&level=0&at=${at.join(",")}`);
      await viewer.settled();
      const shown = /f (\S+) m\/s/.exec(await viewer.value());
      expect(Math.abs(Number(shown?.[1]) - folder.sample("wave", "f", at).readFloatLE())).toBeLessThan(1e-3);
    }
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it("probes the samples that lie at a position", async () => {
    const viewer = await open("d=placed&f=f&level=0&at=33,31,8");
    await viewer.settled();
    await viewer.page.getByText("Profile and probe").click();
    await viewer.page.getByText("Probe the cursor").click();
    const caption = viewer.page.getByText(/^f at /);
    await expect.poll(() => caption.textContent(), kWaiting).toContain("error");
    const [, where, value] = /^f at (.*): ([-\d.e]+)/.exec((await caption.textContent())!.replaceAll("−", "-"))!;
    expect(where).toBe("-1.75, 162, -23.5");
    expect(Math.abs(Number(value) - folder.sample("placed", "f", [33, 31, 8]).readFloatLE())).toBeLessThan(2e-3);
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it("has the accuracies of a field with their errors and bytes, beside the list of fields", async () => {
    const viewer = await open("d=ladder&f=f&level=0");
    await viewer.settled();
    expect(await viewer.page.locator("select[aria-label=Field] option").allTextContents()).toEqual(["f [m/s]"]);
    const select = viewer.page.locator("select[aria-label^='Accuracy: largest error in m/s at level 0, bytes down to level 0']");
    const planned = (layer: number): string => {
      const plan = run("quarry", "plan", folder.at("data/ladder.quarry"), "--field", "f", "--layer", layer, "--json");
      return bytes((JSON.parse(plan) as { bytes: number }).bytes);
    };
    expect(await select.locator("option").allTextContents())
      .toEqual([`exact · ${planned(2)} · full`, `±0.01 m/s · ${planned(1)} · layer 1`, `±0.5 m/s · ${planned(0)} · layer 0`]);
    await select.selectOption("f, layer 0");
    await expect.poll(async () => viewer.text(".value"), kWaiting).toContain("f, layer 0 ");
    await viewer.settled();
    expect(await viewer.link()).toContain("&f=f,%20layer%200&");
    expect(await viewer.copied("Command: quarry get")).toContain(" --field f --step 0 --box 0:70,0:50,0:40 --level 0 --layer 0 ");
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it("has no choice of accuracy where a field has one layer", async () => {
    const viewer = await open("d=wave&f=f");
    await viewer.settled();
    expect(await viewer.page.locator("select[aria-label^=Accuracy]:visible").count()).toBe(0);
    await viewer.close();
  });

  it("shows the layer of accuracy that a link names, and says its error", async () => {
    const viewer = await open("d=ladder&f=f&level=0");
    for (const [field, error] of [["f, layer 0", 0.5], ["f, layer 1", 0.01], ["f", 0]] as const) {
      await viewer.go(`d=ladder&f=${encodeURIComponent(field)}&level=0&at=33,31,8`);
      await viewer.settled();
      const layer = field === "f" ? [] : ["--layer", field.at(-1)!];
      run("quarry", "get", folder.at("data/ladder.quarry"), "--box", "33:34,31:32,8:9", ...layer, "--output", folder.at("at.raw"));
      const expected = readFileSync(folder.at("at.raw")).readFloatLE();
      const shown = /(\S+)(?: ± \S+)? m\/s/.exec((await viewer.value()).slice(field.length + 1));
      expect(Math.abs(expected - Math.fround(wave(33, 31, 8)))).toBeLessThanOrEqual(error);
      expect(Math.abs(Number(shown?.[1]) - expected)).toBeLessThanOrEqual(Math.max(error, 1e-3));
    }
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it("says the statistics of the box on screen that the command computes", async () => {
    const box = [[10, 5, 3], [50, 45, 33]] as const;
    const viewer = await open("d=wave&f=f&level=0&box=10:50,5:45,3:33");
    await viewer.settled();
    const text = box[0].map((begin, axis) => `${begin}:${box[1][axis]!}`).join(",");
    const said = JSON.parse(run("quarry", "stats", folder.at("data/wave.quarry"), "--field", "f", "--box", text, "--json")) as
      Record<"min" | "mean" | "max" | "stddev", { value: number }> & { valid: number };
    const shown = async (): Promise<number[]> =>
      (await viewer.page.locator(".numbers td").allTextContents()).slice(0, 4).map((cell) => Number(cell.replace("−", "-")));
    // Statistics of coarser levels come first, while the picture sharpens.
    const caption = "f in the box on screen at level 0: 48,000 samples, none missing";
    await expect.poll(async () => viewer.text(".panel"), kWaiting).toContain(caption);
    const values = await shown();
    expect(values).toHaveLength(4);
    [said.min, said.mean, said.max, said.stddev].forEach(({ value }, i) => {
      expect(Math.abs(values[i]! - value)).toBeLessThan(1e-4 * Math.max(1, Math.abs(value)));
    });
    expect(said.valid).toBe(40 * 40 * 30);
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it("restores everything from its link", async () => {
    const given = "d=wave&f=f&at=20,30,10&pane=y&map=magma&range=locked&low=-1&high=4&level=1&cam=40,10,2";
    const viewer = await open(given);
    await viewer.settled();
    const [picture, link] = [await viewer.picture(), await viewer.link()];
    expect(link.split("&")).toEqual(expect.arrayContaining(given.split("&")));
    const again = await open(link.replace("#v=1&", ""));
    await again.settled();
    expect(createHash("md5").update(await again.picture()).digest("hex")).toBe(createHash("md5").update(picture).digest("hex"));
    expect(await again.link()).toBe(link);
    expect(await again.text(".footer")).toBe(await viewer.text(".footer"));
    await viewer.close();
    await again.close();
  });

  it("says where samples are missing", async () => {
    const viewer = await open("d=holes&f=f&at=35,25,20&level=0");
    await viewer.settled();
    expect(await viewer.value()).toBe("f missing");
    await viewer.close();
  });

  it.each([["in the browser", true], ["by the server", false]])("flags damage, and keeps the picture: decoded %s", async (_, decodes) => {
    const viewer = await open("d=bad&f=f&level=0", decodes);
    await viewer.settled();
    expect(await viewer.text(".load")).toMatch(/[1-9]\d* damaged patch/);
    const picture = await viewer.picture();
    await viewer.go("d=good&f=f&level=0");
    await viewer.settled();
    const { different, colours } = await viewer.compared(await viewer.picture(), picture);
    // An eighth, around the damaged patch: stripes, dashes and what the legend says of it.
    expect(different).toBeGreaterThan(0.01);
    expect(different).toBeLessThan(0.3);
    expect(colours).toBeGreaterThan(500);
    await viewer.close();
  });

  it.each([["flat", 1], ["line", 0]])("shows a grid of fewer dimensions: %s", async (dataset) => {
    const viewer = await open(`d=${dataset}&f=f&level=0`);
    await viewer.settled();
    expect(viewer.problems).toEqual([]);
    expect(await viewer.page.locator(".load").textContent()).toContain("level 0");
    await viewer.close();
  });

  it("shows a step that appears", async () => {
    const viewer = await open("d=growing&f=f&t=live");
    await viewer.settled();
    folder.write("growing", "f", kDims, samples((x, y, z) => -wave(x, y, z)), "float32", "--tolerance", "1e-3", "--append", "--step", 7);
    await viewer.page.waitForFunction(() => document.body.innerText.includes("step 7"), null, { timeout: 600_000 });
    await viewer.settled();
    await viewer.close();
  });

  /** A page to which an answer comes slowly, and the server is in the middle of it: alone, it would have it out in milliseconds. */
  async function slowly(): Promise<Viewer> {
    road.limit = Infinity;
    // As samples: coded slices are so small that the machine's buffers take them.
    const viewer = await Viewer.open(browser, road, "d=wave&f=f", false);
    await viewer.settled();
    road.limit = 60_000;
    await viewer.page.evaluate(() => { location.hash = "v=1&d=large&f=f&level=0"; });
    let times = 0;
    await expect.poll(async () => (times = (await server.running()) > 0 ? times + 1 : 0), kWaiting).toBeGreaterThan(40);
    return viewer;
  }

  it("ends at the server what nobody wants any more", async () => {
    const viewer = await slowly();
    const before = await server.answered("Read", "CANCELLED");
    await viewer.page.evaluate(() => { location.hash = "v=1&d=flat&f=f"; });
    await expect.poll(() => server.answered("Read", "CANCELLED"), kWaiting).toBeGreaterThan(before);
    await viewer.close();
    await expect.poll(() => server.running(), kWaiting).toBe(0);
  });

  it("goes on after the tab was paused for 10 s in the middle of an answer", async () => {
    const viewer = await slowly();
    const session = await viewer.page.context().newCDPSession(viewer.page);
    await session.send("Debugger.enable");
    await session.send("Debugger.pause");
    await new Promise((resolve) => { setTimeout(resolve, 10_000); });
    expect(await server.running()).toBeGreaterThan(0);
    road.limit = Infinity;
    await session.send("Debugger.resume");
    await viewer.settled();
    expect(await viewer.text(".load")).toContain("level 0");
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it("serves twelve readers at once", async () => {
    const viewers = await Promise.all(Array.from({ length: 12 }, (_, i) => open(`d=wave&f=f&at=${i * 5},${i * 4},${i * 3}`)));
    await Promise.all(viewers.map((viewer) => viewer.settled()));
    expect(viewers.flatMap((viewer) => viewer.problems)).toEqual([]);
    await Promise.all(viewers.map((viewer) => viewer.close()));
  });
});

describe("a dataset from xarray", () => {
  const needsPython = !hasPython && process.env["QUARRY_REQUIRE_DATA"] !== "1";
  const kNames = ["De Bilt", "Cabauw", "長崎", ""];

  beforeAll(() => {
    if (needsPython) return;
    runPython([
      "import numpy as np, quarry, xarray as xr",
      "wave = np.arange(24.0).reshape(6, 4) + 1j * np.arange(24.0, 0.0, -1.0).reshape(6, 4)",
      "dims = ('depth', 'station')",
      `station = ('station', ${JSON.stringify(kNames)}, {'cf_role': 'timeseries_id'})`,
      "depth = ('depth', [0.0, 5.0, 10.0, 20.0, 40.0, 80.0], {'units': 'm', 'positive': 'down'})",
      "coordinates = {'station': station, 'region': 'the Netherlands', 'depth': depth}",
      "data = xr.Dataset({'psi': (dims, wave), 'rain': (dims, wave.real)}, coordinates, {'title': 'Stations'})",
      "quarry.write('data/stations.quarry', data, lossless=True)",
    ], folder.path);
  });

  it.skipIf(needsPython)("has its names at the places of the axis, and larger depths below", async () => {
    const viewer = await open("d=stations&f=rain&level=0&at=1,4,0");
    await viewer.settled();
    for (const [station, name] of kNames.entries()) {
      await viewer.go(`d=stations&f=rain&level=0&at=${station},4,0`);
      await viewer.settled();
      expect(await viewer.text(".places")).toBe(`station ${station}${name === "" ? "" : ` (${name})`}   depth 40 m`);
      expect(await viewer.text(".value")).toBe(`rain ${16 + station}`);
    }
    await viewer.page.focus("#pane-z-a");
    await viewer.page.keyboard.press("ArrowDown");
    await expect.poll(() => viewer.text(".places"), kWaiting).toContain("depth 80 m");
    await viewer.go("d=stations&f=rain&level=0&at=1,3,0");
    await viewer.settled();
    await viewer.page.getByText("Profile and probe").click();
    await viewer.page.getByText("Probe the cursor").click();
    const caption = viewer.page.getByText(/^rain at /);
    await expect.poll(() => caption.textContent(), kWaiting).toContain("rain at 1 (Cabauw), 20, 0: 13");
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it.skipIf(needsPython)("has all that the source says in the panel", async () => {
    const viewer = await open("d=stations&f=rain");
    await viewer.settled();
    const part = viewer.page.locator("details", { has: viewer.page.locator("summary:text-is('Attributes')") });
    // Panels are folded on small screens.
    if (!await part.isVisible()) await viewer.page.click("#panel-button");
    await part.locator("summary").click();
    await part.locator("table").first().waitFor();
    const tables = await part.locator("table").evaluateAll((all) => all.map((table) =>
      [...(table as HTMLTableElement).rows].map((row) => [...row.cells].map((cell) => cell.textContent).join(" "))));
    const captions = await part.locator("caption").allTextContents();
    expect(Object.fromEntries(captions.map((caption, i) => [caption, tables[i]]))).toEqual({
      "Texts along station": ['station "De Bilt", "Cabauw", "長崎", ""'],
      "Text station": ["cf_role timeseries_id"],
      "Axis depth": ["positive down"],
      "Dataset stations": ["title Stations"],
      "Texts of the dataset": ['region "the Netherlands"'],
    });
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it.skipIf(needsPython)("has complex samples as two fields under one name", async () => {
    const viewer = await open("d=stations&f=psi.imag&level=0&at=2,3,0");
    await viewer.settled();
    expect(await viewer.text(".value")).toBe("psi.imag 10");
    const select = viewer.page.locator("select[aria-label=Field]");
    const parts = select.locator("optgroup[label='psi (complex)'] option");
    expect(await parts.allTextContents()).toEqual(["psi.real", "psi.imag"]);
    await select.selectOption("psi.real");
    await expect.poll(() => viewer.text(".value"), kWaiting).toBe("psi.real 14");
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });
});

describe("the lines that the page copies", () => {
  /** The page has heard of the port of gRPC, which here is never the default. */
  async function openWithPort(): Promise<Viewer> {
    const viewer = await Viewer.open(browser, server, "d=wave&f=f&box=3:61,5:47,2:31");
    await viewer.settled();
    await expect.poll(() => viewer.page.evaluate(() => performance.getEntriesByName(`${location.origin}/server.json`)
      .filter((entry) => (entry as PerformanceResourceTiming).responseEnd > 0).length), kWaiting).toBeGreaterThan(0);
    return viewer;
  }

  /** The samples that the command reads from the directory, at the level that a line names. */
  function fromDirectory(line: string, output: string): Buffer {
    const level = /level[ =](\d)/.exec(line)![1]!;
    run("quarry", "get", folder.at("data/wave.quarry"), "--field", "f", "--step", 0, "--box", "3:61,5:47,2:31", "--level", level, "--output", folder.at(output));
    return readFileSync(folder.at(output));
  }

  it("are a command that gets what the directory holds", async () => {
    const viewer = await openWithPort();
    const line = await viewer.copied("Command: quarry get");
    mkdirSync(folder.at("shell"));
    runLine(line, folder.at("shell"));
    const [name] = readdirSync(folder.at("shell"));
    expect(readFileSync(folder.at(`shell/${name}`)).equals(fromDirectory(line, "direct.npy"))).toBe(true);
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });

  it.skipIf(!hasPython && process.env["QUARRY_REQUIRE_DATA"] !== "1")("are a line for Python that reads the same", async () => {
    const viewer = await openWithPort();
    const line = await viewer.copied("Python line");
    runPython([line, "answer.array.tofile('python.raw')"], folder.path);
    expect(readFileSync(folder.at("python.raw")).equals(fromDirectory(line, "direct.raw"))).toBe(true);
    expect(viewer.problems).toEqual([]);
    await viewer.close();
  });
});

describe("a server that goes and comes back", () => {
  it("keeps the picture, and goes on", async () => {
    const other = new Server(folder.at("data"));
    await other.start();
    const viewer = await Viewer.open(browser, other, "d=wave&f=f&pane=z&level=0&at=10,10,2");
    await viewer.settled();
    await other.stop("SIGKILL");
    await viewer.page.focus(".pane, [tabindex]");
    await viewer.page.evaluate(() => { location.hash = location.hash.replace("at=10,10,2", "at=10,10,36"); });
    await viewer.page.waitForSelector('.load-state[data-state="failed"], .load-state[data-state="stale"]', { timeout: 600_000 });
    await other.start(other.http);
    await viewer.settled();
    expect(await viewer.text(".value")).toContain("f ");
    await viewer.close();
    await other.stop();
  });
});

describe("a server with tokens", () => {
  it("asks for one, and keeps it out of links", async () => {
    const token = "correct-horse-battery-staple";
    const tokens = folder.at("tokens");
    writeFileSync(tokens, `alice sha256:${createHash("sha256").update(token).digest("hex")} *\n`, { mode: 0o600 });
    const closed = new Server(folder.at("data"), ["--tokens", tokens]);
    await closed.start();
    const viewer = await Viewer.open(browser, closed, "d=wave&f=f");
    const input = viewer.page.locator("dialog[open] input[type=password]");
    await input.fill(token);
    await input.press("Enter");
    await viewer.settled();
    expect(viewer.page.url()).not.toContain(token);
    await viewer.close();
    await closed.stop();
  });
});
