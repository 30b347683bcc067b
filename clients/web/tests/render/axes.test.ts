import { describe, expect, it } from "vitest";
import { fakeGrid } from "../fake/source";
import type { FakeDataset } from "../fake/source";
import { axisRange, gridAxis, niceStep, ticks, tickText } from "../../src/render/axes";

const kGrid: FakeDataset = {
  name: "g",
  dims: [5, 4, 3],
  patch: [4, 4, 4],
  levels: 2,
  steps: 1,
  origin: [10, 0, 8],
  spacing: [0.5, 1, -2],
  coordinates: [null, new Float64Array([0, 1, 10, 100]), null],
  fields: [],
};

describe("gridAxis", () => {
  it("places samples of even axes by origin and spacing, also downwards", () => {
    const x = gridAxis(fakeGrid(kGrid), 0);
    const z = gridAxis(fakeGrid(kGrid), 2);

    expect([x.position(0), x.position(4), x.index(10.75)]).toEqual([10, 12, 1.5]);
    expect([z.position(2), z.index(5), z.descending]).toEqual([4, 1.5, true]);
  });

  it("places samples of uneven axes by their coordinates, and goes back", () => {
    const y = gridAxis(fakeGrid(kGrid), 1);

    expect([0, 1, 2, 3].map((i) => y.position(i))).toEqual([0, 1, 10, 100]);
    expect(y.position(1.5)).toBe(5.5);
    for (const index of [-0.5, 0, 0.25, 1, 1.5, 2.9, 3, 3.5]) expect(y.index(y.position(index))).toBeCloseTo(index, 12);
  });

  it("places samples of uneven axes that go down", () => {
    const down = gridAxis(fakeGrid({ ...kGrid, coordinates: [null, new Float64Array([100, 10, 1, 0]), null] }), 1);

    expect(down.descending).toBe(true);
    expect(down.index(55)).toBe(0.5);
    expect(down.index(0.5)).toBe(2.5);
  });

  it("shows each sample with half of the way to its neighbours", () => {
    expect(axisRange(gridAxis(fakeGrid(kGrid), 0), 1, 3)).toEqual({ low: 10.25, high: 11.25 });
    expect(axisRange(gridAxis(fakeGrid(kGrid), 1), 0, 4)).toEqual({ low: -0.5, high: 145 });
    expect(axisRange(gridAxis(fakeGrid(kGrid), 2), 0, 3)).toEqual({ low: 3, high: 9 });
  });
});

describe("ticks", () => {
  it("are round numbers within the range, with not more steps than asked for", () => {
    expect(ticks(0, 1, 5).map((tick) => tick.text)).toEqual(["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    expect(ticks(-7, 7, 4).map((tick) => tick.at)).toEqual([-5, 0, 5]);
    for (const [low, high] of [
      [0, 1],
      [-3e-7, 8e-7],
      [1e9, 1.00001e9],
      [101324.8, 101325.3],
    ] as const)
      for (const most of [2, 5, 9]) {
        const list = ticks(low, high, most);
        expect(list.length).toBeLessThanOrEqual(most + 1);
        expect(list.every((tick) => tick.at >= low - 1e-9 * (high - low) && tick.at <= high + 1e-9 * (high - low))).toBe(true);
        expect(new Set(list.map((tick) => tick.text)).size).toBe(list.length);
      }
  });

  it("do without a range", () => {
    expect(ticks(1, 1, 5)).toEqual([]);
    expect(ticks(NaN, 1, 5)).toEqual([]);
    expect(ticks(-Infinity, 1, 5)).toEqual([]);
  });

  it("have the digits of their distance", () => {
    expect(niceStep(1, 3)).toBe(0.5);
    expect(tickText(101325.2, 0.1)).toBe("101325.2");
    expect(tickText(-2e-7, 1e-7)).toBe("−2e−7");
    expect(tickText(1500000, 500000)).toBe("1.5e6");
  });
});
