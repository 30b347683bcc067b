import { describe, expect, it } from "vitest";
import { fakeGrid } from "../fake/source";
import type { FakeDataset } from "../fake/source";
import type { Attributes } from "../../src/model";
import { axisEnds, gridAxis, indexEnds, isTurned, niceStep, positionAt, shareAt, ticks, ticksBetween, tickText } from "../../src/render/axes";

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
    expect(axisEnds(gridAxis(fakeGrid(kGrid), 0), 1, 3, false)).toEqual({ from: 10.25, to: 11.25 });
    expect(axisEnds(gridAxis(fakeGrid(kGrid), 1), 0, 4, true)).toEqual({ from: -0.5, to: 145 });
    expect(axisEnds(gridAxis(fakeGrid(kGrid), 2), 0, 3, true)).toEqual({ from: 3, to: 9 });
  });
});

describe("the ends of an axis on screen", () => {
  const positive = (text: string): Attributes => [
    { name: "comment", value: { kind: "text", text: "down" } },
    { name: "positive", value: { kind: "text", text } },
  ];
  /** Along z: from 8 by -2, from 8 by 2, or uneven. */
  const z = (attributes: Attributes, how: "falling" | "rising" | "uneven" | "uneven and falling"): ReturnType<typeof gridAxis> => {
    const uneven = { uneven: [0, 10, 100], "uneven and falling": [100, 10, 0], falling: null, rising: null }[how];
    const grid = { ...kGrid, spacing: [1, 1, how === "falling" ? -2 : 2] as const, coordinates: [null, null, uneven && new Float64Array(uneven)] as const };
    return gridAxis(fakeGrid({ ...grid, axisAttributes: [[], [], attributes] }), 2);
  };

  it("have larger positions at the upper one, or at the right", () => {
    for (const attributes of [[], positive("up"), positive("deep")])
      for (const upright of [true, false]) {
        expect(axisEnds(z(attributes, "rising"), 0, 3, upright)).toEqual({ from: 7, to: 13 });
        expect(axisEnds(z(attributes, "falling"), 0, 3, upright)).toEqual({ from: 3, to: 9 });
        expect(axisEnds(z(attributes, "uneven"), 0, 3, upright)).toEqual({ from: -5, to: 145 });
        expect(axisEnds(z(attributes, "uneven and falling"), 0, 3, upright)).toEqual({ from: -5, to: 145 });
      }
  });

  it.each(["down", "DOWN", "Down"])("have larger depths at the lower one: positive is %s", (text) => {
    expect(axisEnds(z(positive(text), "rising"), 0, 3, true)).toEqual({ from: 13, to: 7 });
    expect(axisEnds(z(positive(text), "falling"), 0, 3, true)).toEqual({ from: 9, to: 3 });
    expect(axisEnds(z(positive(text), "uneven"), 0, 3, true)).toEqual({ from: 145, to: -5 });
    expect(axisEnds(z(positive(text), "uneven and falling"), 0, 3, true)).toEqual({ from: 145, to: -5 });
  });

  it("have larger depths at the right where the axis lies", () => {
    expect(axisEnds(z(positive("down"), "rising"), 0, 3, false)).toEqual({ from: 7, to: 13 });
    expect(axisEnds(z(positive("down"), "falling"), 0, 3, false)).toEqual({ from: 3, to: 9 });
  });

  it("are samples that positions choose, not indices: depths that fall with the index rise on screen", () => {
    const down = positive("down");
    expect([z([], "rising"), z([], "falling"), z(down, "rising"), z(down, "falling")].map((axis) => isTurned(axis, true)))
      .toEqual([false, true, true, false]);
    expect(indexEnds(z(down, "rising"), 1, 3, true)).toEqual({ from: 2.5, to: 0.5 });
    expect(indexEnds(z(down, "falling"), 1, 3, true)).toEqual({ from: 0.5, to: 2.5 });
  });

  it("do not follow a text of another kind", () => {
    const number: Attributes = [{ name: "positive", value: { kind: "numbers", type: "int32", isList: false, numbers: [-1] } }];
    expect(gridAxis(fakeGrid({ ...kGrid, axisAttributes: [[], [], number] }), 2).down).toBe(false);
  });

  it("place what is between them, and have its ticks", () => {
    const ends = { from: 100, to: 20 };
    expect([shareAt(ends, 80), shareAt(ends, 20)]).toEqual([0.25, 1]);
    expect(positionAt(ends, 0.25)).toBe(80);
    expect(ticksBetween(ends, 4)).toEqual(ticks(20, 100, 4));
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
