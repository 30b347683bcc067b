import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { farthest, pixelsOf, settled, Viewer } from "./browser";
import type { Pixels, Size } from "./browser";

const kAxe = createRequire(import.meta.url).resolve("axe-core");
const kDesk: Size = { width: 1280, height: 800 };
const kPhone: Size = { width: 390, height: 844 };

interface Violation {
  readonly id: string;
  readonly impact: string | null;
  readonly nodes: readonly { readonly html: string }[];
}

let viewer: Viewer;
let page: Page;
beforeAll(async () => {
  viewer = await Viewer.start();
});
afterAll(async () => {
  await viewer.stop();
});
afterEach(async () => {
  await page.context().close();
  expect(viewer.complaints.splice(0)).toEqual([]);
});

async function open(link: string, options: Parameters<Viewer["open"]>[1] = {}): Promise<void> {
  page = await viewer.open(link, options);
  await settled(page);
}

const state = <T>(key: string): Promise<T> =>
  page.evaluate((name) => (window.app.state as unknown as Record<string, unknown>)[name], key) as Promise<T>;

async function findings(): Promise<readonly string[]> {
  // Scripts of the test go around the policy of the page.
  await page.evaluate(await (await import("node:fs/promises")).readFile(kAxe, "utf8"));
  const violations = await page.evaluate(
    async () => (await (window as unknown as { axe: { run(): Promise<{ violations: Violation[] }> } }).axe.run()).violations,
  );
  return violations
    .filter((each) => each.impact === "serious" || each.impact === "critical")
    .map((each) => `${each.id}: ${each.nodes[0]?.html ?? ""}`);
}

describe("accessibility", () => {
  it.each([
    ["desk", kDesk, true],
    ["desk", kDesk, false],
    ["phone", kPhone, true],
    ["phone", kPhone, false],
  ] as const)("has no serious findings on a %s", async (_, size, dark) => {
    await open("#d=wake", { size, dark });
    await page.evaluate(() => {
      for (const part of document.querySelectorAll("details")) part.open = true;
    });
    expect(await findings()).toEqual([]);
  });

  it("has none where the source says much", async () => {
    await open("#d=shelf&f=temp", { size: kDesk });
    await page.evaluate(() => {
      for (const part of document.querySelectorAll("details")) part.open = true;
    });
    await page.waitForSelector(".attributes td");
    expect(await findings()).toEqual([]);
  });

  it("has none in the sheets", async () => {
    await open("#d=map", { size: kDesk });
    for (const key of ["?", "d"]) {
      await page.keyboard.press(key);
      expect(await findings()).toEqual([]);
      await page.keyboard.press("Escape");
    }
  });
});

describe("the keyboard", () => {
  it("reaches every control and pane, one after the other", async () => {
    await open("#d=wake", { size: kDesk });
    const wanted = await page.evaluate(
      () =>
        [...document.querySelectorAll<HTMLElement>("button, select, input, summary, .pane")].filter(
          (element) => element.checkVisibility() && !(element as HTMLButtonElement).disabled && element.tabIndex >= 0,
        ).length,
    );
    const reached = new Set<string>();
    for (let i = 0; i < wanted + 5; ++i) {
      await page.keyboard.press("Tab");
      reached.add(
        await page.evaluate(() => {
          const all = [...document.querySelectorAll("*")];
          return String(all.indexOf(document.activeElement!));
        }),
      );
    }
    expect(wanted).toBeGreaterThan(25);
    expect(reached.size).toBeGreaterThanOrEqual(wanted);
  });

  it("moves the cursor, the slice and the camera", async () => {
    await open("#d=wake&at=64,32,32&t=0", { size: kDesk });
    await page.focus("#pane-z-a");
    for (const key of ["ArrowRight", "Shift+ArrowUp", "PageUp", "PageUp"]) await page.keyboard.press(key);
    expect(await state("cursor")).toEqual([65, 42, 34]);

    await page.keyboard.press("+");
    expect(await state("clip")).not.toBeNull();
    await page.keyboard.press("0");
    expect(await state("clip")).toBeNull();

    const before = await state<{ azimuth: number }>("camera");
    await page.focus("#pane-volume-a");
    await page.keyboard.press("ArrowRight");
    expect((await state<{ azimuth: number }>("camera")).azimuth).not.toBe(before.azimuth);
  });

  it("moves up to smaller depths", async () => {
    await open("#d=shelf&f=temp&at=10,10,5&t=0", { size: kDesk });
    await page.focus("#pane-y-a");
    await page.keyboard.press("ArrowUp");
    expect(await state("cursor")).toEqual([10, 10, 4]);
    await page.keyboard.press("PageUp");
    expect(await state("cursor")).toEqual([10, 11, 4]);
    await page.focus("#pane-z-a");
    await page.keyboard.press("PageUp");
    await page.keyboard.press("ArrowUp");
    expect(await state("cursor")).toEqual([10, 12, 3]);
  });

  it("has keys for panes, steps, colours, panel, theme and help", async () => {
    await open("#d=wake&t=0", { size: kDesk });
    await page.keyboard.press("2");
    expect(await state("pane")).toBe("z");
    await page.keyboard.press(".");
    expect(await state("step")).toBe(10);
    await page.keyboard.press("c");
    expect((await state<{ map: string }>("colour")).map).toBe("coolwarm");
    await page.keyboard.press("p");
    expect(await page.locator("#panel").isVisible()).toBe(false);
    const theme = await page.getAttribute("html", "data-theme");
    await page.keyboard.press("t");
    expect(await page.getAttribute("html", "data-theme")).not.toBe(theme);
    await page.keyboard.press("?");
    expect(await page.locator("dialog[aria-label='Keys and help']").isVisible()).toBe(true);
    await page.keyboard.press("Escape");
    expect(await page.locator("dialog[aria-label='Keys and help']").isVisible()).toBe(false);
  });
});

/** The pixels of a PNG file, as the browser reads it. */
async function decoded(path: string): Promise<Pixels> {
  const base64 = await (await import("node:fs/promises")).readFile(path, "base64");
  const { width, height, text } = await page.evaluate(async (bytes) => {
    const image = new Image();
    image.src = `data:image/png;base64,${bytes}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext("2d")!;
    context.drawImage(image, 0, 0);
    let text = "";
    for (const byte of context.getImageData(0, 0, image.width, image.height).data) text += String.fromCharCode(byte);
    return { width: image.width, height: image.height, text: btoa(text) };
  }, base64);
  return { width, height, data: Buffer.from(text, "base64") };
}

describe("what the user sees", () => {
  it("is restored by its link", async () => {
    await open(
      "#d=wake&f=speed&t=20&at=30,20,10&box=10:90,4:60,2:50&pane=y&map=magma&range=locked&low=0.1&high=0.7&"
        + "cam=40,-10,2.5&vol=0.4,0.8,surface",
    );
    const before = await page.evaluate(() => {
      window.app.copyText("link");
      return { state: window.app.state, link: location.hash };
    });
    const picture = await pixelsOf(page, "y-a");
    await page.context().close();
    await open(before.link);
    expect(await page.evaluate(() => window.app.state)).toEqual(before.state);
    expect(farthest(picture, await pixelsOf(page, "y-a"))).toBe(0);
  });

  it("begins with a list where the link names no dataset", async () => {
    page = await viewer.open("");
    await page.click(".dataset-row:has-text('ball')");
    await settled(page);
    expect(await state("dataset")).toBe("ball");
  });

  it("is on the grid of the field that is chosen, in the same place", async () => {
    await open("#d=ocean&f=temp&t=0&at=20,10,5&box=8:40,0:32,0:16", { size: kDesk });
    await page.selectOption("select[aria-label='Field']", "ssh");
    await settled(page);
    expect(await state("cursor")).toEqual([20, 10, 0]);
    expect(await state("clip")).toEqual({ begin: [8, 0, 0], end: [40, 32, 1] });
    expect(await page.evaluate(() => window.app.stage.shown.map((view) => view.key))).toEqual(["z-a"]);
    expect(await page.textContent(".value")).toContain("ssh 0.93");

    await page.selectOption("select[aria-label='Field']", "temp");
    await settled(page);
    expect(await state("clip")).toEqual({ begin: [8, 0, 0], end: [40, 32, 16] });
    expect((await page.evaluate(() => window.app.stage.shown.map((view) => view.key))).sort()).toEqual(["volume-a", "x-a", "y-a", "z-a"]);
  });

  it("has what the source says besides, as texts", async () => {
    await open("#d=shelf&f=temp&t=0", { size: kDesk });
    expect(await page.getAttribute("select[aria-label='Field']", "title")).toBe("Sea water temperature (sea_water_temperature)");
    const part = page.locator("details", { has: page.locator("summary:text-is('Attributes')") });
    expect(await part.getAttribute("open")).toBeNull();
    await part.locator("summary").click();
    await part.locator("table").first().waitFor();
    expect(await part.locator("caption").allTextContents()).toEqual(["Field temp", "Axis depth", "Dataset shelf"]);
    const rows = (await part.locator("tr").allTextContents()).join("; ");
    expect(rows).toContain("positivedown");
    expect(rows).toContain("titleShelf <sea>");
    expect(rows).toContain("versions0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … (20 values)");

    await page.selectOption("select[aria-label='Field']", "u");
    await settled(page);
    expect(await part.locator("caption").allTextContents()).toEqual(["Dataset shelf"]);
    expect(await page.getAttribute("select[aria-label='Field']", "title")).toBe("Field");
  });

  it("has names beside the numbers of an axis, and in the attributes", async () => {
    await open("#d=stations&f=wind&at=5,2,0", { size: kDesk });
    expect(await page.textContent(".places")).toMatch(/^station 5 \(Cabauw, NL\)\s+height 2 m$/);
    await page.evaluate(() => {
      for (const part of document.querySelectorAll("details")) part.open = true;
    });
    const names = page.locator(".box-table .slice-names");
    await expect.poll(() => names.allTextContents()).toEqual(["Cabauw, NL"]);
    await page.fill(".box-table input[data-axis='0'][data-what='cursor']", "4");
    await page.keyboard.press("Enter");
    await expect.poll(() => names.allTextContents()).toEqual(["長崎, JP"]);
    expect(await page.textContent(".places")).toContain("station 4 (長崎, JP)");
    const part = page.locator("details", { has: page.locator("summary:text-is('Attributes')") });
    expect(await part.locator("caption").allTextContents())
      .toEqual(["Texts along station", "Text station", "Texts of the dataset", "Text region"]);
    expect(await findings()).toEqual([]);
  });

  it("has the parts of complex samples together, under the name of the whole", async () => {
    await open("#d=stations");
    const select = page.locator("select[aria-label='Field']");
    const parts = select.locator("optgroup[label='psi (complex)'] option");
    expect(await parts.allTextContents()).toEqual(["psi.real [V]", "psi.imag [V]"]);
    expect(await select.locator("> option").allTextContents()).toEqual(["wind [m/s]"]);
    await select.selectOption("psi.imag");
    await settled(page);
    expect(await page.evaluate(() => window.app.feeds.a?.field.name)).toBe("psi.imag");
  });

  it("has coordinates after the other fields, under a heading, and begins with none of them", async () => {
    await open("#d=shelf");
    expect(await state("field")).toBe("temp");
    const select = page.locator("select[aria-label='Field']");
    expect(await select.locator("> option").allTextContents()).toEqual(["temp [K] · Sea water temperature", "u [m/s]", "bathymetry [m]"]);
    expect(await select.locator("optgroup[label='Coordinates'] option").allTextContents()).toEqual(["lat [degrees_north]", "lon [degrees_east]"]);
    await select.selectOption("lon");
    await settled(page);
    expect(await page.evaluate(() => window.app.feeds.a?.field.name)).toBe("lon");
  });

  it("has no slider for a field that is the same at all steps, and the step of the others after it", async () => {
    await open("#d=shelf&f=temp&t=10", { size: kDesk });
    expect(await page.isVisible(".step-slider")).toBe(true);
    await page.selectOption("select[aria-label='Field']", "bathymetry");
    await settled(page);
    expect(await page.evaluate(() => window.app.feeds.a?.selection.step)).toBe(0);
    expect(await page.textContent(".step-text")).toBe("the same at all steps");
    expect([await page.isVisible(".step-slider"), await page.isVisible(".live")]).toEqual([false, false]);
    await page.keyboard.press(".");
    const link = await page.evaluate(() => {
      window.app.copyText("link");
      return location.hash;
    });
    await page.context().close();

    await open(link, { size: kDesk });
    expect([await state("field"), await state("step")]).toEqual(["bathymetry", 10]);
    expect(await page.isVisible(".toast")).toBe(false);
    await page.selectOption("select[aria-label='Field']", "temp");
    await settled(page);
    expect(await page.evaluate(() => window.app.feeds.a?.selection.step)).toBe(10);
    expect(await page.isVisible(".step-slider")).toBe(true);
  });

  it("has the place of the cursor by fields that are coordinates", async () => {
    await open("#d=shelf&f=temp&at=4,5,2&t=0", { size: kDesk });
    await expect.poll(() => page.textContent(".places")).toMatch(/depth 20 m\s+lat 52.54 degrees_north\s+lon 4.35 degrees_east$/);
    await page.evaluate(() => {
      window.app.set({ cursor: [14, 5, 2] });
    });
    await expect.poll(() => page.textContent(".places")).toMatch(/lat 52.64 degrees_north\s+lon 5.35 degrees_east$/);
  });

  it("is not beside a field of another grid, and the page says why", async () => {
    await open("#d=ocean&f=temp&t=0&with=0;ssh;ocean", { size: kDesk });
    expect(await page.textContent(".banner")).toContain('"temp" and "ssh" are on different grids');
    expect((await page.evaluate(() => window.app.stage.shown.map((view) => view.key))).sort()).toEqual(["volume-a", "x-a", "y-a", "z-a"]);
  });

  it("says which field stands for one that a link names and the dataset lacks", async () => {
    await open("#d=ramp&t=0&with=0;gone;ramp", { size: kDesk });
    expect(await page.textContent(".banner")).toContain('"ramp" has no field "gone"; "ramp" is compared');
  });

  it("begins with a list that says how many grids a dataset has", async () => {
    page = await viewer.open("");
    expect(await page.textContent(".dataset-row:has-text('ocean') .dataset-facts")).toContain("64 × 32 × 16 and 3 other grids");
    expect(await page.textContent(".dataset-row:has-text('ball') .dataset-facts")).toMatch(/^96 × 96 × 96 · /);
  });

  it("has value, unit, place, level and error at the cursor", async () => {
    await open("#d=ramp&at=10,20,30");
    expect(await page.textContent(".places")).toMatch(/x 10 m\s+y 20 m\s+z 30 m/);
    expect(await page.textContent(".value")).toBe("ramp 60");
    expect(await page.textContent(".quality")).toMatch(/± 0.001\s+level 0/);
    expect(await page.textContent(".load")).toMatch(/Settled\s*level 0 of 4, error ≤ 0.001/);
  });

  it("stays through a step that appears, and follows it live", async () => {
    await open("#d=ball&t=live&pane=z");
    expect(await page.textContent(".step-text")).toContain("step 20");
    await page.evaluate(() => {
      window.fake.publish("ball");
    });
    await page.waitForFunction(() => window.app.feeds.a?.selection.step === 30);
    await settled(page);
    expect(await page.textContent(".step-text")).toContain("step 30");
  });

  it("goes on after the tab was frozen", async () => {
    await open("#d=ball&t=live&pane=z");
    const session = await page.context().newCDPSession(page);
    await session.send("Page.setWebLifecycleState", { state: "frozen" });
    await session.send("Page.setWebLifecycleState", { state: "active" });
    await page.evaluate(() => {
      window.fake.publish("ball");
    });
    await page.waitForFunction(() => window.app.feeds.a?.selection.step === 30);
    await settled(page);
  });

  it("plays through the steps, and pauses", async () => {
    await open("#d=ball&t=0&pane=z");
    await page.keyboard.press(" ");
    for (const step of [10, 20, 0]) await page.waitForFunction((wanted) => window.app.feeds.a?.selection.step === wanted, step);
    await page.keyboard.press(" ");
    expect(await page.evaluate(() => window.app.playing)).toBe(false);
  });

  it("has the step before it at hand while steps are played", async () => {
    await open("#d=wake&t=40&pane=z");
    await page.evaluate(() => {
      const { fake, app } = window;
      const asked: number[] = [];
      const bricks = fake.bricks.bind(fake);
      fake.bricks = (opened, selection) => {
        asked.push(selection.step - (app.steps.wanted ?? NaN));
        return bricks(opened, selection);
      };
      Object.assign(window, { asked });
    });
    await page.keyboard.press(" ");
    await expect.poll(() => page.evaluate(() => (window as unknown as { asked: number[] }).asked)).toEqual(expect.arrayContaining([10, -10]));
  });

  it("follows the pointer in all slices", async () => {
    await open("#d=ramp&at=0,0,0", { size: kDesk });
    const box = (await page.locator("#pane-z-a").boundingBox())!;
    await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    const cursor = await state<readonly number[]>("cursor");
    expect(cursor[0]).toBeGreaterThan(50);
    expect(cursor[2]).toBe(0);
    const shown = (): Promise<(number | null)[]> =>
      page.evaluate(() => window.app.stage.shown.map((view) => (view.kind === "slice" ? view.index : null)));
    await expect.poll(shown).toEqual([0, null, cursor[1], cursor[0]]);
  });

  it("is zero everywhere in the difference of a field and itself", async () => {
    await open("#d=ramp&pane=z&with=0;ramp;ramp;difference");
    await page.waitForFunction(() => window.app.feeds.b?.status.state === "settled" && window.app.stage.renderer.settled);
    const { data } = await pixelsOf(page, "z-difference");
    expect(new Set(data.filter((_, i) => i % 4 === 0)).size).toBe(1);
    expect(await page.textContent(".value")).toContain("difference 0");
  });

  it("is beside the other one with the same cursor and camera", async () => {
    await open("#d=wake&t=0&with=20;speed;wake", { size: kDesk });
    await page.waitForFunction(() => window.app.feeds.b?.status.state === "settled");
    const views = await page.evaluate(() =>
      window.app.stage.shown.map((view) => ({ key: view.key, place: view.kind === "slice" ? view.index : view.camera })),
    );
    expect(views.length).toBe(8);
    for (const kind of ["x", "y", "z", "volume"])
      expect(views.find((view) => view.key === `${kind}-b`)!.place).toEqual(
        views.find((view) => view.key === `${kind}-a`)!.place,
      );
  });

  const bothSettled = (): Promise<unknown> =>
    page.waitForFunction(() => {
      const { a, b } = window.app.feeds;
      return a?.status.state === "settled" && b?.status.state === "settled" && window.app.stage.renderer.settled;
    });

  /** Share of the pixels between black and white: cells of 8 samples have edges as wide as the samples are apart. */
  async function grey(key: string): Promise<number> {
    const red = (await pixelsOf(page, key)).data.filter((_, i) => i % 4 === 0);
    return red.filter((value) => value > 40 && value < 215).length / red.length;
  }

  /** All that is written over the pictures. */
  const written = (): Promise<readonly string[]> =>
    page.evaluate(() => {
      const texts: string[] = [];
      const context = document.querySelector<HTMLCanvasElement>("canvas.overlay")!.getContext("2d")!;
      context.fillText = (text: string) => {
        texts.push(text);
      };
      window.app.stage.drawOver(context);
      return texts;
    });

  it("is beside a coarser level of itself, though finer samples are there", async () => {
    await open("#d=checkerboard&map=gray&pane=z&at=0,0,20&t=0&level=0&with=0;cells;checkerboard", { size: kDesk });
    await bothSettled();
    const fine = await pixelsOf(page, "z-a");
    expect(farthest(fine, await pixelsOf(page, "z-b"))).toBe(0);
    expect((await written()).filter((text) => text.includes("level"))).toEqual([]);

    await page.evaluate(() => {
      for (const part of document.querySelectorAll("details")) part.open = true;
    });
    const select = page.locator("select[aria-label='Level to compare with']");
    expect(await select.locator("option").allTextContents()).toEqual(["as beside it", "level 0", "level 1", "level 2", "level 3"]);
    await select.selectOption({ label: "level 2" });
    await page.waitForFunction(() => window.app.stage.shown.find((view) => view.key === "z-b")?.level === 2);
    await bothSettled();

    expect(farthest(fine, await pixelsOf(page, "z-a"))).toBe(0);
    expect(await grey("z-a")).toBeLessThan(0.25);
    expect(await grey("z-b")).toBeGreaterThan(0.4);
    expect(await written()).toEqual(
      expect.arrayContaining(["cells, step 0, level 0: z = 20 m", "cells, step 0, level 2: z = 20 m"]),
    );
    expect(await page.getAttribute("#pane-z-b", "aria-label")).toContain("cells, level 2");
    const box = (await page.locator("#pane-z-b").boundingBox())!;
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    expect(await page.textContent(".quality")).toContain("level 2");
    expect(await findings()).toEqual([]);
  });

  it("has the level beside it in its link, and none in a difference", async () => {
    await open("#d=checkerboard&pane=volume&t=0&with=0;cells;checkerboard;level=2", { size: kDesk });
    const levels = (): Promise<readonly number[]> => page.evaluate(() => window.app.stage.shown.map((view) => view.level));
    expect(await levels()).toEqual([0, 2]);
    await page.evaluate(() => {
      for (const part of document.querySelectorAll("details")) part.open = true;
    });
    const select = page.locator("select[aria-label='Level to compare with']");
    expect(await select.inputValue()).toBe("2");

    await page.selectOption("select[aria-label='Comparison']", "difference");
    await expect.poll(levels).toEqual([0]);
    expect(await select.isVisible()).toBe(false);
    await expect.poll(() => page.evaluate(() => window.app.feeds.b?.status.target)).toBe(0);
  });

  it("has one choice for the layers of accuracy of a field, and one more beside it", async () => {
    await open("#d=ladder&f=temp&pane=z&at=8,8,8&t=0&level=0&with=0;temp;ladder", { size: kDesk });
    await bothSettled();
    await page.evaluate(() => {
      for (const part of document.querySelectorAll("details")) part.open = true;
    });
    expect(await page.locator("select[aria-label='Field'] option").allTextContents()).toEqual(["temp [K]", "p"]);
    const own = page.locator("select[aria-label^='Accuracy: largest error in K']");
    const other = page.locator("select[aria-label^='Accuracy to compare with']");
    await other.waitFor();
    const choices = ["exact · 120 kB · full", "±0.0125 K · 80.0 kB · layer 1", "±0.5 K · 40.0 kB · layer 0"];
    expect([await own.locator("option").allTextContents(), await other.locator("option").allTextContents()]).toEqual([choices, choices]);
    expect(await other.getAttribute("aria-label")).toContain("largest error in K at level 0, bytes down to level 0");
    expect(await findings()).toEqual([]);

    await other.selectOption("temp, layer 0");
    await page.waitForFunction(() => window.app.feeds.b?.field.name === "temp, layer 0");
    await bothSettled();
    await own.focus();
    await page.keyboard.press("ArrowDown");
    await page.waitForFunction(() => window.app.feeds.a?.field.name === "temp, layer 1");
    await bothSettled();
    expect(await page.textContent(".value")).toContain("temp, layer 1 271");
    expect(await written()).toEqual(expect.arrayContaining(["temp, layer 1, step 0: z = 8 m", "temp, layer 0, step 0: z = 8 m"]));
    expect([await page.inputValue("select[aria-label='Field']"), await page.inputValue("select[aria-label='Field to compare with']")]).toEqual(["temp", "temp"]);

    // Another step keeps the accuracy; another field comes in full.
    await page.selectOption("select[aria-label='Step to compare with']", "10");
    await page.waitForFunction(() => window.app.feeds.b?.selection.step === 10);
    expect(await page.evaluate(() => window.app.state?.compare?.field)).toBe("temp, layer 0");
    await page.selectOption("select[aria-label='Field to compare with']", "p");
    await page.waitForFunction(() => window.app.feeds.b?.field.name === "p");
    expect([await other.isVisible(), await own.isVisible()]).toEqual([false, true]);
  });

  it("is saved with axes and legend", async () => {
    await open("#d=ball&pane=z", { size: kDesk });
    const download = page.waitForEvent("download");
    await page.keyboard.press("s");
    const file = await download;
    expect(file.suggestedFilename()).toBe("ball-density.png");

    const [picture, saved] = [await pixelsOf(page, "z-a"), await decoded(await file.path())];
    const place = await page.evaluate(() => {
      const { stage } = window.app;
      const view = stage.shown[0]!;
      const { clientWidth: width, clientHeight: height } = stage.root;
      return { plot: view.kind === "slice" ? view.geometry.plot : view.plot, width, height };
    });
    const { plot } = place;
    // A line of text is above the pictures.
    const line = saved.height - place.height;
    expect([saved.width, line]).toEqual([place.width, 26]);
    const at = (pixels: Pixels, x: number, y: number): readonly number[] =>
      [...pixels.data.subarray((y * pixels.width + x) * 4, (y * pixels.width + x) * 4 + 3)];
    // The field, away from the lines of the cursor in its middle.
    for (const [u, v] of [[0.3, 0.3], [0.4, 0.7], [0.7, 0.4], [0.65, 0.7]] as const) {
      const [x, y] = [Math.round(u * picture.width), Math.round(v * picture.height)];
      expect(at(saved, plot.x + x, line + plot.y + y), `pixel ${x}, ${y} of the slice`).toEqual(at(picture, x, y));
    }
    // The axes at the left and below, the caption above, the legend on the right with its colours.
    const kinds = (x: number, y: number, width: number, height: number): number => {
      const colours = new Set<string>();
      for (let j = y; j < y + height; ++j) for (let i = x; i < x + width; ++i) colours.add(at(saved, i, j).join());
      return colours.size;
    };
    expect(kinds(plot.x - 50, line + plot.y, 48, plot.height)).toBeGreaterThan(5);
    expect(kinds(plot.x, line + plot.y + plot.height + 2, plot.width, 30)).toBeGreaterThan(5);
    expect(kinds(0, 0, 300, line)).toBeGreaterThan(5);
    expect(kinds(place.width - 80, line, 80, place.height)).toBeGreaterThan(100);
    expect(kinds(0, line + plot.y, 3, plot.height)).toBe(1);
  });
});

describe("errors", () => {
  it("ask for a token, and go on with it", async () => {
    page = await viewer.open("#d=ramp&pane=z", { query: "token" });
    await page.fill("input[type=password]", "secret");
    await page.keyboard.press("Enter");
    await settled(page);
    expect(await page.textContent(".value")).toContain("ramp");
  });

  it("say what is wrong and what to do", async () => {
    page = await viewer.open("#d=nothing");
    await page.waitForSelector(".banner:not([hidden])");
    expect(await page.textContent(".banner")).toContain('no dataset "nothing"');
    expect(await page.locator(".banner button").isVisible()).toBe(true);
  });

  it("in a link leave the rest as it is", async () => {
    await open("#d=ramp&pane=z&at=nonsense&map=unknown&f=other");
    expect(await page.textContent(".toast")).toContain("other");
    expect(await state("field")).toBe("ramp");
  });
});
