import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { farthest, pixelsOf, settled, Viewer } from "./browser";
import type { Pixels } from "./browser";

let viewer: Viewer;
let page: Page | null = null;
beforeAll(async () => {
  viewer = await Viewer.start();
});
afterAll(async () => {
  await viewer.stop();
});
afterEach(async () => {
  await page?.context().close();
  page = null;
  expect(viewer.complaints.splice(0)).toEqual([]);
});

async function picture(link: string, query = "", key = "z-a"): Promise<Pixels> {
  await page?.context().close();
  // Volumes take a computer without a graphics card long: small ones do.
  page = await viewer.open(link, {
    query,
    size: key.startsWith("volume") ? { width: 400, height: 420 } : { width: 700, height: 640 },
  });
  await settled(page);
  return pixelsOf(page, key);
}

/** Where the middle of a pixel lies, in samples: each sample is shown with half of the way to its neighbours. */
function indexOf(pixel: number, pixels: number, samples: number): number {
  return Math.min(samples - 1, Math.max(0, ((pixel + 0.5) / pixels) * samples - 0.5));
}

describe("a linear ramp of 129 x 97 x 65 samples", () => {
  /** Values from 0 to 288, from black to white. */
  function expectRamp(pixels: Pixels, z: number): void {
    let worst = 0;
    for (let y = 0; y < pixels.height; ++y)
      for (let x = 0; x < pixels.width; ++x) {
        const value = indexOf(x, pixels.width, 129) + indexOf(pixels.height - 1 - y, pixels.height, 97) + z;
        for (const c of [0, 1, 2])
          worst = Math.max(worst, Math.abs(pixels.data[(y * pixels.width + x) * 4 + c]! - (value / 288) * 255));
      }
    expect(pixels.width).toBeGreaterThan(300);
    expect(worst).toBeLessThanOrEqual(1);
  }

  it.each([0, 1, 2, 3, 4])("is the same at each pixel when level %i is the finest", async (level) => {
    expectRamp(await picture("#d=ramp&map=gray&pane=z&at=64,48,32", `stop=${level}`), 32);
  });

  it("is the same where the slice lies between the samples of its level", async () => {
    expectRamp(await picture("#d=ramp&map=gray&pane=z&at=64,48,37", "stop=3"), 37);
  });

  it("has no seams where patches have different levels", async () => {
    expectRamp(await picture("#d=ramp&map=gray&pane=z&at=64,48,31", "mixed"), 31);
  });

  it("has no seams between patches that arrive one after the other", async () => {
    expectRamp(await picture("#d=ramp&map=gray&pane=z&at=64,48,32", "stop=4&delay=150"), 32);
  });

  it("has no seams in the volume where patches have different levels", async () => {
    const link = "#d=ramp&map=gray&pane=volume&vol=0,0.5,maximum";
    const [whole, mixed] = [await picture(link, "", "volume-a"), await picture(link, "mixed", "volume-a")];
    expect(new Set(whole.data).size).toBeGreaterThan(50);
    expect(farthest(whole, mixed)).toBeLessThanOrEqual(4);
  });
});

describe("a checkerboard of 8 samples a field", () => {
  it("has the colour of each sample at its place", async () => {
    const pixels = await picture("#d=checkerboard&map=gray&pane=z&at=0,0,20");
    for (let j = 0; j < 64; ++j)
      for (let i = 0; i < 64; ++i) {
        const [x, y] = [Math.floor(((i + 0.5) / 64) * pixels.width), Math.floor(((63.5 - j) / 64) * pixels.height)];
        // In the middle of a sample; its neighbours begin half a sample away.
        const white = (Math.floor(i / 8) + Math.floor(j / 8) + 2) % 2 === 1;
        const near = pixels.data[(y * pixels.width + x) * 4]!;
        expect(white ? near > 175 : near < 80, `sample ${i}, ${j}: ${near}`).toBe(true);
      }
  });

  it("changes half of the way between samples", async () => {
    const pixels = await picture("#d=checkerboard&map=gray&pane=z&at=0,0,20");
    const y = Math.floor((60.5 / 64) * pixels.height);
    const row = Array.from({ length: pixels.width }, (_, x) => pixels.data[(y * pixels.width + x) * 4]!);
    for (let field = 1; field < 8; ++field) {
      const border = (field * 8 * pixels.width) / 64;
      expect(Math.abs((row[Math.round(border) - 1]! + row[Math.round(border)]!) / 2 - 127.5)).toBeLessThan(40);
    }
  });
});

describe("fields with holes and damage", () => {
  it("are hatched where samples are missing, and nowhere else", async () => {
    const pixels = await picture("#d=ball&map=viridis&pane=x&at=80,48,48&t=0", "", "x-a");
    let wrong = 0;
    for (let j = 0; j < 96; ++j)
      for (let i = 0; i < 96; ++i) {
        const [x, y] = [Math.floor(((i + 0.5) / 96) * pixels.width), Math.floor(((95.5 - j) / 96) * pixels.height)];
        const [r, g, b] = [0, 1, 2].map((c) => pixels.data[(y * pixels.width + x) * 4 + c]!) as [number, number, number];
        const missing = Math.hypot(80 - 47.5, i - 47.5, j - 47.5) / 46 > 1 || Math.hypot(80 - 60, i - 35, j - 47.5) < 12;
        if (missing !== (Math.abs(r - g) < 14 && Math.abs(g - b) < 14)) ++wrong;
      }
    expect(wrong).toBe(0);
  });

  it("say that a patch is damaged, at the cursor and below the picture", async () => {
    await picture("#d=ball&pane=z&at=48,48,48&t=0");
    expect(await page!.textContent(".load-text")).toContain("1 damaged patch");
    expect(await page!.textContent(".quality")).toContain("damaged");
  });

  it("have dashed edges around a damaged patch in the volume", async () => {
    // Seen along x: the patch in the middle, 16 samples to each side, is two squares, the near one larger.
    await picture("#d=ball&pane=volume&vol=1,0,ray&cam=0,0,1&at=0,0,0&t=0", "", "volume-a");
    const { plot, data, width } = await page!.evaluate(() => {
      const overlay = document.querySelector<HTMLCanvasElement>("canvas.overlay")!;
      const pixels = overlay.getContext("2d")!.getImageData(0, 0, overlay.width, overlay.height).data;
      const view = window.app.stage.shown[0]!;
      return { plot: view.kind === "volume" ? view.plot : view.geometry.plot, data: [...pixels.filter((_, i) => i % 4 === 3)], width: overlay.width };
    });
    expect(plot.width).toBeGreaterThan(plot.height);
    const lit = (x: number, y: number): boolean =>
      [-1, 0, 1].some((by) => data[Math.round(plot.x + plot.width / 2 + x) + width * Math.round(plot.y + plot.height / 2 + y + by)]! > 100);
    const share = (half: number): number => {
      const at = Array.from({ length: 101 }, (_, i) => ((i - 50) / 50) * half);
      return [...at.map((x) => lit(x, half)), ...at.map((x) => lit(x, -half))].filter(Boolean).length / 202;
    };
    const eye = Math.hypot(96, 96, 96);
    const half = (depth: number): number => ((16 / (eye - depth)) / Math.tan(Math.PI / 12)) * (plot.height / 2);
    for (const depth of [16, -16]) {
      expect(share(half(depth))).toBeGreaterThan(0.25);
      expect(share(half(depth))).toBeLessThan(0.95);
    }
    expect(share(half(16) + 6)).toBeLessThan(0.1);
    expect(share(half(-16) - 6)).toBeLessThan(0.1);
  });

  it("have missing samples transparent in the volume", async () => {
    const pixels = await picture("#d=ball&map=gray&pane=volume&vol=0.05,1,maximum&t=0", "", "volume-a");
    const at = (x: number, y: number): number => pixels.data[(Math.floor(y) * pixels.width + Math.floor(x)) * 4]!;
    expect(at(pixels.width / 2, pixels.height / 2)).toBeGreaterThan(200);
    expect(at(3, 3)).toBeLessThan(30);
  });
});

describe("an axis of depths", () => {
  /** From the top: 12 samples from 288 K down to 277 K, with gray from 270 to 290 K. */
  const greys = (pixels: Pixels): readonly number[] =>
    Array.from({ length: 12 }, (_, i) => pixels.data[(Math.floor(((i + 0.5) / 12) * pixels.height) * pixels.width + Math.floor(pixels.width / 2)) * 4]!);

  it("goes downwards in a slice", async () => {
    const found = greys(await picture("#d=shelf&f=temp&map=gray&pane=y&at=10,10,5&t=0", "", "y-a"));
    found.forEach((grey, i) => {
      expect(Math.abs(grey - ((288 - i - 270) / 20) * 255), `sample ${i}: ${grey}`).toBeLessThan(3);
    });
  });

  it("goes downwards in the volume", async () => {
    const pixels = await picture("#d=shelf&f=temp&map=gray&pane=volume&vol=0,1,maximum&cam=270,0,1.5&t=0", "", "volume-a");
    // Rows with the box.
    const column = Array.from({ length: pixels.height }, (_, y) => pixels.data[(y * pixels.width + Math.floor(pixels.width / 2)) * 4]!);
    const box = column.filter((grey) => grey > 60);
    expect(box.length).toBeGreaterThan(20);
    expect(box.at(2)!).toBeGreaterThan(box.at(-3)! + 60);
    expect(box.slice(2, -2).every((grey, i, all) => i === 0 || grey <= all[i - 1]! + 2)).toBe(true);
  });
});

describe("grids of fewer dimensions", () => {
  it("show two of them as one slice, with positions of uneven axes", async () => {
    const pixels = await picture("#d=map&map=gray");
    expect(await page!.locator(".pane").count()).toBe(1);
    const latitudes = Array.from({ length: 65 }, (_, i) => -80 + 160 * (i / 64) + 8 * Math.sin((i / 64) * Math.PI * 2));
    const [low, high] = [
      latitudes[0]! - (latitudes[1]! - latitudes[0]!) / 2,
      latitudes[64]! + (latitudes[64]! - latitudes[63]!) / 2,
    ];
    for (const i of [0, 5, 20, 32, 50, 64]) {
      const y = Math.floor(((high - latitudes[i]!) / (high - low)) * pixels.height);
      const x = Math.floor((40.5 / 128) * pixels.width);
      const value = 300 - (Math.abs(latitudes[i]!) / 90) ** 2 * 60 + 3 * Math.sin(40 / 9 + i / 7);
      expect(
        Math.abs(pixels.data[(y * pixels.width + x) * 4]! - ((value - 230) / 75) * 255),
        `latitude ${latitudes[i]!}`,
      ).toBeLessThan(3);
    }
  });

  it("show one of them as a line, with its gap", async () => {
    page = await viewer.open("#d=line&at=250,0,0");
    await settled(page);
    expect(await page.locator(".pane").getAttribute("data-kind")).toBe("line");
    expect(await page.textContent(".places")).toContain("time 0.25 s");
    // One frame for the overlay; then columns of the plot have a line where there are values, and none in the gap.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const marked = await page.evaluate(() => {
      const canvas = document.querySelector<HTMLCanvasElement>(".overlay")!;
      const { room } = window.app.stage.layout[0]!;
      const data = canvas.getContext("2d")!.getImageData(room.x, room.y, room.width, room.height);
      return Array.from({ length: room.width }, (_, x) =>
        Array.from({ length: room.height }, (_, y) => {
          const [r, b] = [0, 2].map((c) => data.data[(y * room.width + x) * 4 + c]!);
          return b! > 180 && b! - r! > 60;
        }).some(Boolean),
      );
    });
    const at = (index: number): boolean => marked[Math.floor((index / 1000) * marked.length)]!;
    expect([100, 590, 620, 650, 900].map(at)).toEqual([true, true, false, true, true]);
  });
});

describe("the graphics card", () => {
  it("has nothing left of a volume when another one has no samples yet", async () => {
    const before = await picture("#d=ball&map=gray&pane=volume&vol=0.05,1,maximum&t=0", "", "volume-a");
    const colours = (pixels: Pixels): number => new Set(pixels.data.filter((_, i) => i % 4 === 0)).size;
    expect(colours(before)).toBeGreaterThan(10);
    await page!.evaluate(async () => {
      const { stage } = window.app;
      const views = stage.shown.map((view) => ({ ...view, scene: { ...view.scene, bricks: { ...view.scene.bricks, best: () => null } } }));
      stage.renderer.show(views as typeof stage.shown, stage.renderStage());
      while (!stage.renderer.settled) await new Promise(requestAnimationFrame);
    });
    expect(colours(await pixelsOf(page!, "volume-a"))).toBe(1);
  });

  it("may drop everything: the same picture comes back", async () => {
    const before = await picture("#d=ramp&map=gray&pane=z&at=64,48,32");
    await page!.evaluate(() => {
      const gl = window.app.stage.renderer.canvas.getContext("webgl2")!;
      const lose = gl.getExtension("WEBGL_lose_context")!;
      return new Promise<void>((done) => {
        window.app.stage.renderer.canvas.addEventListener(
          "webglcontextlost",
          () => {
            setTimeout(() => {
              lose.restoreContext();
            }, 0);
          },
          { once: true },
        );
        window.app.stage.renderer.canvas.addEventListener(
          "webglcontextrestored",
          () => {
            done();
          },
          { once: true },
        );
        lose.loseContext();
      });
    });
    await settled(page!);
    expect(farthest(before, await pixelsOf(page!, "z-a"))).toBe(0);
  });
});
