import { afterEach, describe, expect, it, vi } from "vitest";
import { fakeGrid, fakeSource } from "../fake/source";
import type { FakeDataset } from "../fake/source";
import { kStations } from "../fake/datasets";
import { gridAxis } from "../../src/render/axes";
import type { BrickSource, LoadStatus, Vec3, ViewState, Want } from "../../src/model";
import { clampClip, clampCursor, clipOf, finestOf, layOut, moveBox, paneKinds, sidesOf, visibleKinds, zoomBox } from "../../src/ui/panes";
import { fullRange, rangeOf } from "../../src/ui/scenes";
import { Feed, initialState, isStill, resolveStep } from "../../src/ui/session";
import { bytes, bytesOf, placeText, position, shapeText, short, statusText, timeText, withError } from "../../src/ui/text";
import { sliceBox } from "../../src/geometry";
import { withField } from "../../src/ui/otherfield";
import { Player } from "../../src/ui/player";

function dataset(dims: Vec3): FakeDataset {
  return {
    name: "d",
    dims,
    patch: [16, 16, 16],
    levels: 4,
    steps: 3,
    fields: [{ name: "f", unit: "m", min: -2, max: 2, value: (x) => x }],
  };
}

const kGrid = fakeGrid(dataset([64, 32, 16]));

describe("texts", () => {
  it("have the digits that mean something", () => {
    expect([short(0), short(1234.5678), short(1e-9), short(2.5e12), short(-0.5), short(NaN)]).toEqual([
      "0",
      "1235",
      "1e−9",
      "2.5e12",
      "−0.5",
      "–",
    ]);
    expect(withError(0.123456789, 0.0013)).toBe("0.1235");
    expect(withError(101325.123, 0.5)).toBe("101325.12");
    expect(withError(3, null)).toBe("3");
    expect(position(9.7972e-16, 160)).toBe("0");
    expect(position(200.5, 360)).toBe("200.5");
  });

  it("have the names of a place beside its number", () => {
    const axis = gridAxis(fakeGrid(kStations), 0);
    expect([0, 1, 2.4, 2.6, 4, 5, 6].map((index) => placeText(axis, index))).toEqual([
      "0 (Kiel, D)", "1 (Köln, D)", "2.4", "2.6 (Málaga, ES)", "4 (長崎, JP)", "5 (Cabauw, NL)", "6 (Oslo, N)",
    ]);
    // In one line, and no longer than there is room for.
    expect(placeText(axis, 7)).toBe(`7 (a ${"long ".repeat(8).slice(0, 38)}…, -)`);
    expect([placeText(axis, 9), placeText(axis, -1)]).toEqual(["9", "−1"]);
    expect(placeText(gridAxis(fakeGrid(kStations), 1), 3)).toBe("3 m");
  });

  it("say when a step was", () => {
    expect(timeText({ time: 3, date: "2001-01-04 12:30:00" }, "days since 2001-01-01")).toBe("2001-01-04 12:30:00");
    expect(timeText({ time: 3, date: "2001-01-04 00:00:00" }, "days since 2001-01-01")).toBe("2001-01-04");
    expect(timeText({ time: 0.25, date: "" }, "s")).toBe("t = 0.25 s");
    expect(timeText({ time: 0.25, date: "" }, "")).toBe("t = 0.25");
    expect(timeText({ time: null, date: "" }, "s")).toBe("");
  });

  it("have the shape of a dataset, and say where it has others", () => {
    expect([shapeText([64, 32, 1], 1), shapeText([1, 1, 1], 1), shapeText([4, 3, 2], 2), shapeText([4, 3, 2], 3)]).toEqual([
      "64 × 32",
      "1",
      "4 × 3 × 2 and 1 other grid",
      "4 × 3 × 2 and 2 other grids",
    ]);
  });

  it("share a unit between a part and the whole", () => {
    expect([bytes(999), bytes(1000), bytes(3140000)]).toEqual(["999 B", "1.0 kB", "3.1 MB"]);
    expect(bytesOf(3.1e6, 40e6)).toBe("3.1 of 40.0 MB");
    expect(bytesOf(0, 40e6)).toBe("0 of 40.0 MB");
  });

  it("say exactly what is on screen", () => {
    const status: LoadStatus = {
      state: "refining",
      message: null,
      level: 2,
      target: 0,
      maxError: 0.013,
      coverage: 0.98,
      received: 3.1e6,
      expected: 40e6,
      memory: 81e6,
      budget: 512e6,
      damagedPatches: 1,
    };
    expect(statusText(status, 6, "K")).toBe(
      "level 2 of 5, 0 wanted, error ≤ 0.013 K, covers 98.0 % · 3.1 of 40.0 MB · memory 81 of 512 MB · 1 damaged patch",
    );
    expect(statusText({ ...status, level: null, state: "opening", expected: 0, damagedPatches: 0 }, 6, "")).toBe(
      "opening · memory 81 of 512 MB",
    );
  });
});

describe("panes", () => {
  const stage = { x: 0, y: 0, width: 1000, height: 800 };
  const square = (_: string, room: { width: number; height: number }): number => Math.min(room.width, room.height);

  it("follow from the grid", () => {
    expect(paneKinds(kGrid)).toEqual(["z", "y", "x", "volume"]);
    expect(paneKinds(fakeGrid(dataset([64, 1, 16])))).toEqual(["y"]);
    expect(paneKinds(fakeGrid(dataset([1, 1, 16])))).toEqual(["line"]);
    expect(paneKinds(fakeGrid(dataset([1, 1, 1])))).toEqual(["line"]);
  });

  it("are one at a time on small screens, and where one is asked for", () => {
    expect(visibleKinds(kGrid, "all", false)).toEqual(["z", "volume", "y", "x"]);
    expect(visibleKinds(kGrid, "all", true)).toEqual(["z"]);
    expect(visibleKinds(kGrid, "volume", false)).toEqual(["volume"]);
    expect(visibleKinds(fakeGrid(dataset([64, 32, 1])), "volume", false)).toEqual(["z"]);
  });

  it.each([["a"], ["a", "b"]] as const)("cover the stage without overlap, sides %s %s", (...sides) => {
    const panes = layOut(visibleKinds(kGrid, "all", false), sides.filter(Boolean), stage, square);
    const area = panes.reduce((sum, { cell }) => sum + cell.width * cell.height, 0);
    expect(area).toBe(1000 * 800);
    for (const p of panes)
      for (const q of panes)
        if (p !== q)
          expect(
            p.cell.x + p.cell.width <= q.cell.x
              || q.cell.x + q.cell.width <= p.cell.x
              || p.cell.y + p.cell.height <= q.cell.y
              || q.cell.y + q.cell.height <= p.cell.y,
          ).toBe(true);
  });

  it("give wide pictures wide columns", () => {
    const wide = layOut(["z", "volume", "y", "x"], ["a"], stage, (kind, room) =>
      kind === "z" || kind === "y" ? Math.min(room.width, room.height * 3) : Math.min(room.width, room.height),
    );
    expect(wide[0]!.cell.width).toBeGreaterThan(500);
  });

  it("are two for comparisons, and one for a difference", () => {
    expect(sidesOf(null)).toEqual(["a"]);
    expect(sidesOf({ dataset: "d", field: "f", step: 0, difference: false, level: null })).toEqual(["a", "b"]);
    expect(sidesOf({ dataset: "d", field: "f", step: 0, difference: true, level: null })).toEqual(["difference"]);
  });
});

describe("boxes", () => {
  it("stay within the grid, and are null when they are all of it", () => {
    expect(clampClip(kGrid, { begin: [-5, 0, 0], end: [100, 32, 16] })).toBeNull();
    expect(clampClip(kGrid, { begin: [60, 31, 3], end: [80, 31, 4] })).toEqual({ begin: [44, 30, 3], end: [64, 32, 5] });
    expect(clampClip(fakeGrid(dataset([64, 1, 1])), { begin: [3, 0, 0], end: [9, 1, 1] })).toEqual({
      begin: [3, 0, 0],
      end: [9, 1, 1],
    });
    expect(clampCursor(kGrid, [-3, 99, 7.6])).toEqual([0, 31, 8]);
  });

  it("and levels for another grid are cut to it", () => {
    const state = { clip: { begin: [10, 40, 3], end: [60, 50, 9] }, level: 9, compare: null } as unknown as ViewState;
    expect(clipOf(state, fakeGrid(dataset([32, 32, 1])))).toEqual({ begin: [10, 31, 0], end: [32, 32, 1] });
    expect([finestOf(state, "a", kGrid), finestOf({ ...state, level: null }, "a", kGrid)]).toEqual([3, 0]);
  });

  it("become smaller around a point, also when they are small, and whole again", () => {
    const half = zoomBox(kGrid, null, [0, 1], [32, 0, 0], 0.5);
    expect(half).toEqual({ begin: [16, 0, 0], end: [48, 16, 16] });
    expect(
      zoomBox(kGrid, { begin: [10, 0, 0], end: [13, 32, 16] }, [0], [11, 0, 0], 0.99)!.end[0]
        - zoomBox(kGrid, { begin: [10, 0, 0], end: [13, 32, 16] }, [0], [11, 0, 0], 0.99)!.begin[0],
    ).toBe(2);
    let box = half;
    for (let i = 0; i < 20; ++i) box = zoomBox(kGrid, box, [0, 1], [32, 0, 0], 1.3);
    expect(box).toBeNull();
  });

  it("move, and stop at the edge", () => {
    expect(moveBox(kGrid, { begin: [0, 0, 0], end: [10, 32, 16] }, [5.4, 0, 0])).toEqual({ begin: [5, 0, 0], end: [15, 32, 16] });
    expect(moveBox(kGrid, { begin: [0, 0, 0], end: [10, 32, 16] }, [500, 0, 0])).toEqual({
      begin: [54, 0, 0],
      end: [64, 32, 16],
    });
  });

  it("of a slice hold the two planes around it where it lies between samples", () => {
    expect(sliceBox(kGrid, { axis: 2, index: 8 }, { begin: [0, 0, 0], end: [64, 32, 16] }, 3)).toEqual({ begin: [0, 0, 8], end: [64, 32, 9] });
    expect(sliceBox(kGrid, { axis: 2, index: 5 }, { begin: [0, 0, 0], end: [64, 32, 16] }, 2)).toEqual({ begin: [0, 0, 4], end: [64, 32, 9] });
    expect(sliceBox(kGrid, { axis: 2, index: 15 }, { begin: [0, 0, 0], end: [64, 32, 16] }, 2).end[2]).toBe(16);
  });
});

describe("colour ranges", () => {
  it("have zero in the middle of maps with a neutral middle", () => {
    expect(fullRange("balance", -1, 3)).toEqual({ low: -3, high: 3 });
    expect(fullRange("viridis", -1, 3)).toEqual({ low: -1, high: 3 });
    expect(fullRange("balance", 1, 3)).toEqual({ low: 1, high: 3 });
    expect(fullRange("viridis", 2, 2)).toEqual({ low: 1, high: 3 });
  });

  it("follow their mode", () => {
    const source = { step: { min: 0, max: 10 } } as BrickSource;
    expect(rangeOf({ map: "viridis", mode: "auto", low: null, high: null }, source)).toEqual({ low: 0, high: 10 });
    expect(rangeOf({ map: "viridis", mode: "auto", low: 4, high: null }, source)).toEqual({ low: 4, high: 10 });
    expect(rangeOf({ map: "viridis", mode: "locked", low: 4, high: 5 }, source)).toEqual({ low: 4, high: 5 });
    expect(rangeOf({ map: "viridis", mode: "step", low: 4, high: 5 }, source)).toEqual({ low: 0, high: 10 });
    expect(rangeOf({ map: "viridis", mode: "locked", low: 5, high: 4 }, source)).toEqual({ low: 0, high: 10 });
  });
});

describe("the player", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it("waits while a field is shown that does not change, and goes on where it was", () => {
    let due: () => void = () => undefined;
    vi.stubGlobal("window", { setTimeout: (call: () => void) => ((due = call), 0), clearTimeout: () => ((due = () => undefined), undefined) });
    const steps = { numbers: [0, 10, 20], wanted: 10, asked: [] as number[], to: (at: number) => steps.asked.push(at) };
    const player = new Player(steps);
    player.shown(10);
    player.toggle();
    expect([player.playing, player.next(), player.before()]).toEqual([true, 20, 0]);

    [steps.numbers, steps.wanted] = [[0], 0];
    player.shown(0);
    due();
    expect([player.playing, player.next(), player.before(), steps.asked]).toEqual([false, null, null, []]);

    [steps.numbers, steps.wanted] = [[0, 10, 20], 10];
    player.shown(10);
    due();
    expect([player.playing, steps.asked]).toEqual([true, [2]]);
  });
});

describe("sessions", () => {
  const fake = fakeSource([dataset([32, 16, 16])]);

  it("begin with the newest step, and colours for both signs", async () => {
    const opened = await fake.open("d");
    expect(initialState(opened)).toMatchObject({
      dataset: "d",
      field: "f",
      step: 20,
      cursor: [16, 8, 8],
      clip: null,
      colour: { map: "balance", mode: "auto" },
    });
  });

  it("know the step that is meant", async () => {
    const opened = await fake.open("d");
    expect([
      resolveStep(opened, "f", "live"),
      resolveStep(opened, "f", 10),
      resolveStep(opened, "f", 13),
      resolveStep(opened, "g", 0),
    ]).toEqual([20, 10, 10, null]);
  });

  it("begin with a field that is no coordinate, and with the newest step of all where it does not change", async () => {
    const { fields } = dataset([32, 16, 16]);
    const [lat, mask] = [{ ...fields[0]!, name: "lat", coordinate: true }, { ...fields[0]!, name: "mask", still: true }];
    const begin = async (...list: FakeDataset["fields"]): Promise<unknown[]> => {
      const state = initialState(await fakeSource([{ ...dataset([32, 16, 16]), fields: list }]).open("d"));
      return [state.field, state.step];
    };

    expect(await begin(lat, ...fields)).toEqual(["f", 20]);
    expect(await begin(mask, lat, ...fields)).toEqual(["mask", 20]);
    expect(await begin(lat)).toEqual(["lat", 20]);
  });

  it("find the only step of a field that does not change, and leave the step of the others", async () => {
    const mask = { ...dataset([32, 16, 16]).fields[0]!, name: "mask", still: true };
    const opened = await fakeSource([{ ...dataset([32, 16, 16]), fields: [...dataset([32, 16, 16]).fields, mask] }]).open("d");
    const state: ViewState = { ...initialState(opened), step: 10 };
    const chosen = withField(opened.info, state, "mask");

    expect([resolveStep(opened, "mask", chosen.step), resolveStep(opened, "mask", "live")]).toEqual([0, 0]);
    expect(withField(opened.info, chosen, "f").step).toBe(10);
    expect([isStill(opened, "mask"), isStill(opened, "f"), isStill(opened, "nothing")]).toEqual([true, false, false]);
    // A simulation has written it a second time.
    const twice = { ...opened, steps: opened.steps.map((step) => ({ ...step, fields: opened.steps[0]!.fields })) };
    expect(isStill(twice, "mask")).toBe(false);
  });

  it("keep the picture until the next step covers what is on screen", async () => {
    // 20 patches: more than arrive at a time.
    const long = fakeSource([dataset([320, 16, 16])]);
    const opened = await long.open("d");
    const wants: readonly Want[] = [
      { box: { begin: [0, 0, 0], end: [320, 16, 16] }, level: 0, focus: [0, 0, 0], tier: "visible" },
    ];
    const swaps: number[] = [];
    await new Promise<void>((done) => {
      const feed = new Feed(
        long,
        () => undefined,
        () => undefined,
        () => {
          swaps.push(feed.shown!.selection.step);
          if (feed.shown!.selection.step !== 10) return;
          // All patches have a brick by now; the first step was shown until then.
          expect(Array.from({ length: 20 }, (_, patch) => feed.shown!.best(patch, 0)).filter((brick) => brick === null)).toEqual(
            [],
          );
          done();
        },
      );
      feed.select(opened, { dataset: "d", field: "f", step: 0 });
      feed.want(wants);
      feed.select(opened, { dataset: "d", field: "f", step: 10 });
      expect([feed.shown!.selection.step, feed.next!.selection.step]).toEqual([0, 10]);
      feed.want(wants);
    });
    expect(swaps).toEqual([0, 10]);
  });
});
