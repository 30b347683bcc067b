/**
 * Minutes of random interaction with a field of 1 GiB: memory stays within the budget that the page shows, and no reader is
 * left at the server. By hand, and in the long form of CI. Environment, besides what tests/served/harness.ts has:
 *
 *     QUARRY_SOAK_MINUTES   default: 10
 *     QUARRY_SEED           of what is done
 */
import { mkdirSync, readFileSync } from "node:fs";
import type { Browser, CDPSession } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Folder, launch, Server, Viewer } from "../served/harness";

const kMinutes = Number(process.env["QUARRY_SOAK_MINUTES"] ?? 10);
const kDims = [640, 640, 656] as const;
/** A page has four streams of bricks, one that follows, and short calls. */
const kMostRequests = 8;
/** Memory of a page besides bricks: the browser itself, textures in software, decoders. [MB] */
const kBesides = 1200;
const folder = new Folder();
const server = new Server(folder.at("data"));
let browser: Browser;
let seed = Number(process.env["QUARRY_SEED"] ?? 1);

function random(below: number): number {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * below);
}

function field(): Float32Array {
  const [nx, ny, nz] = kDims;
  const values = new Float32Array(nx * ny * nz);
  const line = (n: number, period: number): Float32Array => Float32Array.from({ length: n }, (_, i) => Math.sin(i / period));
  const [a, b, c, d] = [line(nx, 7), line(ny, 11), line(nz, 17), line(nx + ny, 3)];
  for (let z = 0, i = 0; z < nz; ++z)
    for (let y = 0; y < ny; ++y) for (let x = 0; x < nx; ++x, ++i) values[i] = a[x]! * b[y]! + c[z]! + 0.2 * d[x + y]! + ((i * 2654435761) >>> 20) / 4e4;
  return values;
}

beforeAll(async () => {
  mkdirSync(folder.at("data"));
  const samples = field();
  for (const step of [0, 1]) folder.write("large", "f", kDims, samples, "float32", "--tolerance", "1e-2", "--step", step, ...(step > 0 ? ["--append"] : []));
  await server.start();
  browser = await launch();
}, 600_000);

afterAll(async () => {
  await browser.close();
  await server.stop();
  folder.remove();
});

const kLinks = ["level=0", "level=2", "pane=volume", "pane=z", "pane=all", "t=0", "t=1", "map=magma", "vol=0.5,0.6,surface", "vol=0.3,0.5,maximum"];
const kKeys = ["ArrowLeft", "ArrowUp", "PageUp", "PageDown", "+", "-", "0", ",", ".", " "];

async function act(viewer: Viewer): Promise<void> {
  const { page } = viewer;
  const at = (): [number, number] => [50 + random(700), 80 + random(450)];
  switch (random(6)) {
    case 0:
      await page.keyboard.press(kKeys[random(kKeys.length)]!);
      return;
    case 1:
      await page.mouse.move(...at());
      await page.mouse.wheel(0, random(2) > 0 ? 300 : -300);
      return;
    case 2:
    case 3:
      await page.mouse.move(...at());
      await page.mouse.down({ button: random(4) === 0 ? "right" : "left" });
      await page.mouse.move(...at(), { steps: 1 + random(20) });
      await page.mouse.up({ button: "left" });
      await page.mouse.up({ button: "right" });
      return;
    case 4: {
      const change = kLinks[random(kLinks.length)]!;
      const name = change.split("=")[0]!;
      await page.evaluate(([key, text]) => {
        const rest = location.hash.slice(1).split("&").filter((part) => !part.startsWith(`${key}=`));
        location.hash = [...rest, text].join("&");
      }, [name, change] as const);
      return;
    }
    default:
      await page.waitForTimeout(random(1500));
  }
}

/** Memory of all processes of the browser. [MB] */
async function resident(system: CDPSession): Promise<number> {
  const { processInfo } = await system.send("SystemInfo.getProcessInfo");
  const sizes = processInfo.filter(({ type }) => type === "renderer").map(({ id }) => /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, "utf8"))?.[1]);
  return sizes.reduce((sum, size) => sum + Number(size ?? 0), 0) / 1e3;
}

it("stays within its memory, and leaves nobody at the server", async () => {
  const viewer = await Viewer.open(browser, server, "d=large&f=f");
  await viewer.settled();
  const system = await browser.newBrowserCDPSession();
  const most = { shown: 0, budget: 0, resident: 0, requests: 0, actions: 0 };
  for (const end = Date.now() + kMinutes * 60_000; Date.now() < end;) {
    await act(viewer);
    const [, shown, budget] = /memory ([\d.]+) of ([\d.]+) MB/.exec(await viewer.text(".load")) ?? ["", "0", "0"];
    most.shown = Math.max(most.shown, Number(shown));
    most.budget = Math.max(most.budget, Number(budget));
    most.requests = Math.max(most.requests, await server.running());
    most.resident = Math.max(most.resident, await resident(system));
    ++most.actions;
  }
  console.log(`largest: ${JSON.stringify(most)}`);
  expect(most.shown).toBeGreaterThan(0);
  expect(most.shown).toBeLessThanOrEqual(most.budget);
  expect(most.resident).toBeLessThan(most.budget + kBesides);
  expect(most.requests).toBeLessThanOrEqual(kMostRequests);
  await viewer.close();
  await expect.poll(() => server.running(), { timeout: 60_000 }).toBe(0);
  expect(viewer.problems).toEqual([]);
}, kMinutes * 60_000 + 300_000);
