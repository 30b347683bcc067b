import { describe, expect, it } from "vitest";
import { fakeGrid, makeBrick } from "../fake/source";
import type { FakeDataset } from "../fake/source";
import { levelBox, patchesMeeting, samplesOf, wholeGrid } from "../../src/geometry";
import type { Attributes, Box, Brick, GridInfo, Slice, Vec3 } from "../../src/model";
import { eyeOf, fittingDistance, project, turned, zoomed } from "../../src/render/camera";
import { isDiverging, kColourMaps, mapColour, mapTable } from "../../src/render/colourmaps";
import type { Bricks } from "../../src/render/compose";
import { Difference, whyNotComparable } from "../../src/render/difference";
import {
  extents,
  indexAt,
  levelForPixels,
  pixelIndices,
  pointAt,
  sliceAxes,
  sliceGeometry,
  volumeEnds,
} from "../../src/render/layout";
import { shareOf } from "../../src/render/overlay";
import { envelope, lineAlong, readingAt } from "../../src/render/probe";
import { kNothing, Residency } from "../../src/render/residency";
import { colourScale, devicePixels } from "../../src/render/views";
import { levelWithin } from "../../src/render/volume";

function luminance([r, g, b]: readonly [number, number, number]): number {
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function grid(dims: Vec3, extra: Partial<FakeDataset> = {}): FakeDataset {
  return {
    name: "g",
    dims,
    patch: [16, 16, 16],
    levels: 4,
    steps: 1,
    fields: [{ name: "f", unit: "", min: 0, max: 1, value: (x, y, z) => x + 100 * y + 10000 * z }],
    ...extra,
  };
}

function bricksOf(dataset: FakeDataset, level = 0): Bricks {
  const patches = dataset.dims.map((n, a) => Math.ceil(n / dataset.patch[a]!)) as unknown as Vec3;
  const made = new Map<number, Brick>();
  return {
    grid: fakeGrid(dataset),
    patches,
    best: (patch, finest) => {
      const key = patch * 100 + Math.max(level, finest);
      if (!made.has(key)) made.set(key, makeBrick(dataset, dataset.fields[0]!, 0, patch, Math.max(level, finest)));
      return made.get(key)!;
    },
  };
}

describe("colour maps", () => {
  it("begin and end with the colours that their authors gave them", () => {
    expect(mapColour("viridis", 0)).toEqual([0x44, 0x01, 0x54]);
    expect(mapColour("viridis", 1)).toEqual([0xfd, 0xe7, 0x25]);
    expect(mapColour("gray", 0.5)).toEqual([128, 128, 128]);
    expect(mapColour("gray", -3)).toEqual([0, 0, 0]);
  });

  it.each(kColourMaps.filter((map) => !isDiverging(map)))("%s becomes brighter all the way", (map) => {
    for (let i = 0; i < 64; ++i)
      expect(luminance(mapColour(map, (i + 1) / 64))).toBeGreaterThan(luminance(mapColour(map, i / 64)) - 0.6);
  });

  it.each(kColourMaps.filter(isDiverging))("%s is brightest in its middle", (map) => {
    for (let i = 0; i < 32; ++i) expect(luminance(mapColour(map, 0.5))).toBeGreaterThanOrEqual(luminance(mapColour(map, i / 64)));
    expect(luminance(mapColour(map, 0.5))).toBeGreaterThan(luminance(mapColour(map, 1)));
  });

  it("fill a table of a row each", () => {
    expect(mapTable().length).toBe(kColourMaps.length * 256 * 4);
    expect([...mapTable().slice(0, 4)]).toEqual([0x44, 0x01, 0x54, 255]);
  });
});

describe("slices on screen", () => {
  const geometry = sliceGeometry(
    fakeGrid(grid([64, 32, 16], { spacing: [0.5, 0.5, 2] })),
    2,
    wholeGrid(fakeGrid(grid([64, 32, 16]))),
    { x: 10, y: 20, width: 400, height: 400 },
  );

  it("keep the proportions of the axes", () => {
    expect(geometry.plot).toEqual({ x: 10, y: 120, width: 400, height: 200 });
  });

  it("have sample 0 half a sample from the edge, y upwards, and go back", () => {
    expect(pointAt(geometry, 0, 0)).toEqual([10 + 400 / 128, 320 - 200 / 64]);
    for (const at of [
      [0, 0],
      [63, 31],
      [12.5, 3],
    ] as const) {
      const [u, v] = indexAt(geometry, ...pointAt(geometry, at[0], at[1]));
      expect(u).toBeCloseTo(at[0], 9);
      expect(v).toBeCloseTo(at[1], 9);
    }
  });

  it("know the index in the middle of each pixel", () => {
    expect([...pixelIndices(geometry.u, geometry.uEnds, 128)].slice(0, 3)).toEqual([-0.25, 0.25, 0.75]);
  });

  it("stretch axes of different units", () => {
    const info = fakeGrid(grid([64, 32, 16], { axisUnits: ["degrees", "degrees", "m"] }));
    expect(sliceGeometry(info, 1, wholeGrid(info), { x: 0, y: 0, width: 300, height: 300 }).plot).toEqual({
      x: 0,
      y: 0,
      width: 300,
      height: 300,
    });
    expect(extents(info, wholeGrid(info))).toEqual([64, 32, 32]);
  });

  it("exist for each kind of grid", () => {
    expect(
      [
        [8, 8, 8],
        [8, 8, 1],
        [8, 1, 8],
        [1, 8, 8],
        [8, 1, 1],
      ].map((dims) => sliceAxes(fakeGrid(grid(dims as unknown as Vec3)))),
    ).toEqual([[2, 1, 0], [2], [1], [0], []]);
  });

  it("are as fine as the pixels, and not finer", () => {
    expect([50, 141, 142, 282, 283, 100000].map((samples) => levelForPixels(samples, 100, 6))).toEqual([0, 0, 1, 1, 2, 5]);
  });

  it("lie on whole device pixels, counted from below", () => {
    const paper = { background: [0, 0, 0], missing: [0, 0, 0] } as const;
    expect(devicePixels({ width: 100, height: 100, ratio: 2, paper }, { x: 10, y: 20, width: 30, height: 40 })).toEqual({
      x: 20,
      y: 80,
      width: 60,
      height: 80,
    });
  });
});

/** Samples 10 apart along the third axis, 16 of them, which is positive down or not, and rises with the index or not. */
function column(positive: string, spacing: number, axis: 1 | 2 = 2): GridInfo {
  const attributes: Attributes = [{ name: "positive", value: { kind: "text", text: positive } }];
  return fakeGrid({
    ...grid(axis === 2 ? [64, 32, 16] : [64, 16, 1]),
    spacing: axis === 2 ? [1, 1, spacing] : [1, spacing, 1],
    axisUnits: ["km", "km", "m"],
    axisAttributes: axis === 2 ? [[], [], attributes] : [[], attributes, []],
  });
}

describe("an axis of depths", () => {
  const room = { x: 10, y: 20, width: 640, height: 160 };

  it.each([
    ["down", 10, [25, 175]],
    ["down", -10, [175, 25]],
    ["up", 10, [175, 25]],
    ["up", -10, [25, 175]],
  ] as const)("positive %s, with a spacing of %d, has the place of its positions in slices", (positive, spacing, places) => {
    const info = column(positive, spacing);
    const geometry = sliceGeometry(info, 1, wholeGrid(info), room);

    // Each sample has ten pixels of the 160, from 20 on.
    expect([0, 15].map((index) => pointAt(geometry, 3, index)[1])).toEqual(places);
    for (const index of [0, 2.5, 15]) expect(indexAt(geometry, ...pointAt(geometry, 3, index))[1]).toBeCloseTo(index, 9);
    const rows = pixelIndices(geometry.v, geometry.vEnds, 16);
    // From below.
    expect([...rows].map((index) => Math.abs(Math.round(index)))).toEqual(
      Array.from({ length: 16 }, (_, i) => (places[0] > places[1] ? i : 15 - i)));
  });

  it("lies as any other where it is not upright: it is the second of the grid, in a slice across the first", () => {
    const info = fakeGrid({ ...grid([8, 16, 4]), axisAttributes: [[], [{ name: "positive", value: { kind: "text", text: "down" } }], []] });
    const across = sliceGeometry(info, 0, wholeGrid(info), room);
    const above = sliceGeometry(info, 2, wholeGrid(info), room);

    expect(pointAt(across, 15, 0)[0]).toBeGreaterThan(pointAt(across, 0, 0)[0]);
    expect(pointAt(above, 0, 15)[1]).toBeGreaterThan(pointAt(above, 0, 0)[1]);
  });

  it("is upright in a section of two dimensions", () => {
    const info = column("down", 10, 1);
    const geometry = sliceGeometry(info, 2, wholeGrid(info), room);

    expect(pointAt(geometry, 0, 15)[1]).toBeGreaterThan(pointAt(geometry, 0, 0)[1]);
  });

  it("is upright in the volume, and the others are not", () => {
    const clip: Box = { begin: [0, 0, 4], end: [64, 32, 16] };
    const places = (info: GridInfo): readonly number[] => [4, 15].map((index) => shareOf(info, clip, 2, index) * 24);

    expect(places(column("down", 10))).toEqual([23, 1]);
    expect(places(column("down", -10))).toEqual([1, 23]);
    expect(places(column("up", 10))).toEqual([1, 23]);
    expect(places(column("up", -10))).toEqual([23, 1]);
    expect(volumeEnds(column("down", 10), clip, 2)).toEqual({ from: 155, to: 35 });
    const lying = fakeGrid({ ...grid([8, 16, 4]), axisAttributes: [[], [{ name: "positive", value: { kind: "text", text: "down" } }], []] });
    expect(volumeEnds(lying, wholeGrid(lying), 1)).toEqual({ from: -0.5, to: 15.5 });
  });

  it("has the same length as before", () => {
    expect(extents(column("down", 10), wholeGrid(column("down", 10)))).toEqual(extents(column("up", 10), wholeGrid(column("up", 10))));
  });
});

describe("cameras", () => {
  const eye = eyeOf({ azimuth: 270, elevation: 0, distance: 2 }, [3, 4, 12], 1.5);

  it("look from their longitude, at a distance in diagonals, z up", () => {
    expect(eye.at.map((v) => Math.round(v * 1e6) / 1e6 + 0)).toEqual([0, -26, 0]);
    expect(project(eye, [0, 0, 0])!.map((v) => v + 0)).toEqual([0, 0]);
    expect(project(eye, [1, 0, 0])![0]).toBeGreaterThan(0);
    expect(project(eye, [0, 0, 1])![1]).toBeGreaterThan(0);
    expect(project(eye, [0, -30, 0])).toBeNull();
  });

  it("begin where the whole box is in the picture", () => {
    for (const extent of [
      [1, 1, 1],
      [4, 1, 1],
      [1, 1, 6],
    ] as const) {
      const camera = { azimuth: 300, elevation: 24, distance: 0 };
      const seen = eyeOf({ ...camera, distance: fittingDistance(camera, extent, 1.1) }, extent, 1.1);
      for (let i = 0; i < 8; ++i) {
        const corner = project(seen, [
          ((i & 1) - 0.5) * extent[0],
          (((i >> 1) & 1) - 0.5) * extent[1],
          ((i >> 2) - 0.5) * extent[2],
        ])!;
        expect(Math.max(Math.abs(corner[0]), Math.abs(corner[1]))).toBeLessThan(0.9);
      }
    }
  });

  it("do not turn over, nor run away", () => {
    expect(turned({ azimuth: 10, elevation: 80, distance: 1 }, 100, 100)).toEqual({ azimuth: 330, elevation: 89, distance: 1 });
    expect(zoomed({ azimuth: 0, elevation: 0, distance: 1 }, 1e9).distance).toBe(10);
  });
});

describe("volumes", () => {
  const bricks = bricksOf(grid([70, 33, 16]));

  it("have whole patches of a box, and their samples at each level", () => {
    const patches = patchesMeeting(bricks.grid, { begin: [17, 0, 3], end: [33, 33, 4] });
    expect(patches).toEqual({ begin: [1, 0, 0], end: [3, 3, 1] });
    const samples = samplesOf(bricks.grid, patches);
    expect(samples).toEqual({ begin: [16, 0, 0], end: [48, 33, 16] });
    expect(levelBox(samples, 2)).toEqual({ begin: [4, 0, 0], end: [12, 9, 4] });
  });

  it("are as fine as the memory of the graphics card allows", () => {
    const whole = wholeGrid(bricks.grid);
    expect(levelWithin(bricks.grid, whole, 0, 70 * 33 * 16)).toBe(0);
    expect(levelWithin(bricks.grid, whole, 0, 70 * 33 * 16 - 1)).toBe(1);
    expect(levelWithin(bricks.grid, whole, 2, 1e9)).toBe(2);
    expect(levelWithin(bricks.grid, whole, 0, 1)).toBe(3);
  });

  it("draw next to coarser neighbours at their level, and know the values around", () => {
    const residency = new Residency([3, 1, 1]);
    residency.set(0, 0, 0.25, 0.375);
    residency.set(1, 2, 0.5, 0.75);
    const rows = [0, 1, 2].map((patch) => [...residency.table().slice(patch * 4, patch * 4 + 4)]);

    expect(rows[0]).toEqual([0, 2, 192, 63]);
    expect(rows[1]).toEqual([2, 2, 192, 127]);
    expect(rows[2]!.slice(0, 2)).toEqual([kNothing, kNothing]);
  });

  it("never become coarser", () => {
    const residency = new Residency([1, 1, 1]);
    residency.set(0, 1, 0, 1);
    residency.set(0, 3, 0, 1);
    expect(residency.levels[0]).toBe(1);
  });

  it("have their colours where the range says, in values from 0 to 1", () => {
    const scene = { bricks, scale: { low: 100, high: 300 }, hasMissing: false, low: 150, high: 250, map: "gray" };
    expect(colourScale(scene)).toEqual([0.25, 2]);
  });
});

describe("readings", () => {
  it("are samples as stored, with the place where they lie", () => {
    expect(readingAt(bricksOf(grid([40, 40, 40])), [17.4, 2.6, 39])).toEqual({
      value: 17 + 300 + 390000,
      missing: false,
      level: 0,
      damaged: false,
      codedWithin: null,
      sample: [17, 3, 39],
    });
    expect(readingAt(bricksOf(grid([40, 40, 40]), 2), [17, 1, 39])).toMatchObject({
      value: 16 + 0 + 360000,
      level: 2,
      sample: [16, 0, 36],
    });
    expect(readingAt(bricksOf(grid([40, 40, 40]), 2), [11, 0, 0])).toMatchObject({ value: 12, sample: [12, 0, 0] });
    expect(readingAt(bricksOf(grid([40, 40, 40])), [-1, 0, 0])).toBeNull();
  });

  it("are those of a slice through the point where its samples are finer, with their errors", () => {
    const whole = bricksOf(grid([40, 40, 40]), 2);
    const plane = makeBrick(grid([40, 40, 40]), grid([40, 40, 40]).fields[0]!, 0, 0, 0);
    const samples = plane.samples.slice(16 * 16 * 5, 16 * 16 * 6);
    const part = { ...plane, box: { begin: [0, 0, 5], end: [16, 16, 6] }, samples, part: { cell: 99, maxError: 0.5 } } as const;
    const bricks = { ...whole, best: (patch: number, finest: number, slice?: Slice): Brick | null =>
      patch === 0 && finest === 0 && slice?.axis === 2 && slice.index === 5 ? part : whole.best(patch, finest) };

    expect(readingAt(bricks, [3.2, 2, 5], 0, true)).toMatchObject({ value: 3 + 200 + 50000, level: 0, codedWithin: 0.5, sample: [3, 2, 5] });
    expect(readingAt(bricks, [3.2, 2, 6], 0, true)).toMatchObject({ level: 2, codedWithin: null });
    expect(readingAt(bricks, [3.2, 2, 5])).toMatchObject({ level: 2, codedWithin: null });
    expect(readingAt(bricks, [3.2, 2, 5], 1, true)).toMatchObject({ level: 2 });
  });

  it("run along lines", () => {
    expect(lineAlong(bricksOf(grid([5, 3, 3])), 0, [0, 2, 1], 1, 4, 100)).toEqual(
      [1, 2, 3].map((x) => ({ index: x, value: x + 200 + 10000 })),
    );
  });

  it("keep peaks when they are fewer", () => {
    const values = Array.from({ length: 1000 }, (_, i) => (i === 503 ? 99 : NaN));
    const { low, high } = envelope(values, 10);
    expect(high[5]).toBe(99);
    expect(low[4]).toBeNaN();
  });
});

describe("differences", () => {
  const value = (factor: number): Partial<FakeDataset> => ({
    fields: [{ name: "f", unit: "", min: 0, max: 1, value: (x) => (x === 3 ? NaN : factor * x) }],
  });

  it("are taken at the coarser level of the two, and are missing where one is", () => {
    const difference = new Difference(bricksOf(grid([16, 16, 16], value(3)), 0), bricksOf(grid([16, 16, 16], value(1)), 1));
    const brick = difference.best(0, 0)!;
    expect(brick.level).toBe(1);
    expect([...brick.samples.slice(0, 8)]).toEqual([0, 4, 8, 12, 16, 20, 24, 28]);
    expect(difference.best(0, 0)).toBe(brick);
    expect(difference.largest()).toBe(30);

    const fine = new Difference(bricksOf(grid([16, 16, 16], value(3))), bricksOf(grid([16, 16, 16], value(1)))).best(0, 0)!;
    expect([...fine.validity!.slice(0, 5)]).toEqual([1, 1, 1, 0, 1]);
  });

  it("exist for like grids alone", () => {
    expect(whyNotComparable(fakeGrid(grid([8, 8, 8])), fakeGrid(grid([8, 8, 8])))).toBeNull();
    expect(whyNotComparable(fakeGrid(grid([8, 8, 8])), fakeGrid(grid([8, 8, 9])))).toContain("8 x 8 x 8 and 8 x 8 x 9");
    expect(whyNotComparable(fakeGrid(grid([8, 8, 8])), fakeGrid(grid([8, 8, 8], { patch: [8, 8, 8] })))).toContain("patches");
  });
});
