import { describe, expect, it } from "vitest";
import { fakeGrid, makeBrick } from "../fake/source";
import type { FakeDataset } from "../fake/source";
import { intersect, levelBox, newSamples, shapeOf, sliceBox, volume } from "../../src/geometry";
import type { Brick } from "../../src/model";
import { composeTile, kAbsent, kMissing, Lattice, mix, normalise, sliceFrame, sliceLevelWithin } from "../../src/render/compose";
import type { Bricks, SliceFrame } from "../../src/render/compose";
import { planeAxes } from "../../src/render/layout";
import { copyBox } from "../../src/store/samples";

const kUnit = { low: 0, high: 1 };
const kClip = (dataset: FakeDataset): { begin: readonly [number, number, number]; end: FakeDataset["dims"] } => ({
  begin: [0, 0, 0],
  end: dataset.dims,
});

/** 2^k + 1 samples along each axis: the last one is a sample of all levels, so nothing lies beyond the samples of a level. */
function linear(a: number, b: number, c: number): FakeDataset {
  return {
    name: "linear",
    dims: [65, 33, 49],
    patch: [16, 16, 16],
    levels: 5,
    steps: 1,
    fields: [{ name: "f", unit: "", min: 0, max: 1, value: (x, y, z) => a * x + b * y + c * z }],
  };
}

/** Patches have exactly one brick, of the level that is given; null: none. */
function bricksOf(dataset: FakeDataset, level: (patch: number) => number | null): Bricks {
  const grid = fakeGrid(dataset);
  const patches = dataset.dims.map((n, a) => Math.ceil(n / dataset.patch[a]!)) as unknown as Bricks["patches"];
  const made = new Map<number, Brick>();
  return {
    grid,
    patches,
    best: (patch, finest) => {
      const at = level(patch);
      if (at === null) return null;
      const shown = Math.max(at, finest);
      const key = patch * 100 + shown;
      if (!made.has(key)) made.set(key, makeBrick(dataset, dataset.fields[0]!, 0, patch, shown));
      return made.get(key)!;
    },
  };
}

/** As bricksOf, but for slices some patches have the planes around them alone, at a level of their own. */
function partsOf(dataset: FakeDataset, whole: (patch: number) => number, part: (patch: number) => number | null): Bricks {
  const bricks = bricksOf(dataset, whole);
  return {
    ...bricks,
    best: (patch, finest, slice) => {
      const coarse = bricks.best(patch, finest);
      const level = slice === undefined ? null : part(patch);
      if (level === null || slice === undefined || (coarse?.level ?? Infinity) <= level) return coarse;
      const brick = makeBrick(dataset, dataset.fields[0]!, 0, patch, level);
      const clip = { begin: [0, 0, 0], end: dataset.dims } as const;
      const box = intersect(brick.box, levelBox(sliceBox(dataset, slice, clip, level), level));
      const samples = newSamples("float32", volume(shapeOf(box)));
      copyBox(brick.samples, brick.box, samples, box);
      return { ...brick, box, samples, part: { cell: 1000 + patch, maxError: 0 } };
    },
  };
}

function compose(bricks: Bricks, frame: SliceFrame): Float32Array {
  const out = new Float32Array(frame.size[0] * frame.size[1]).fill(NaN);
  const lattice = new Lattice(bricks, frame.level, kUnit, frame);
  for (let v = 0; v < frame.patchCount[1]; ++v)
    for (let u = 0; u < frame.patchCount[0]; ++u) composeTile(bricks, lattice, frame, u, v, out);
  return out;
}

/** A number that looks random, from 0 on. */
function scatter(patch: number, count: number): number {
  return ((patch * 2654435761) >>> 7) % count;
}

describe("composeTile", () => {
  it.each([0, 1, 2] as const)("shows a linear field exactly across axis %i, whatever levels its patches have", (axis) => {
    const dataset = linear(1, 3, -2);
    for (const level of [0, 1, 2])
      for (const index of [0, 7, 16, 31, 32]) {
        const bricks = bricksOf(dataset, (patch) => Math.max(level, scatter(patch, 5)));
        const frame = sliceFrame(bricks, axis, index, kClip(dataset), level);
        const out = compose(bricks, frame);

        const [ua, va] = planeAxes(axis);
        const factors = [1, 3, -2];
        for (let v = 0; v < frame.size[1]; ++v)
          for (let u = 0; u < frame.size[0]; ++u) {
            const expected = factors[ua]! * u * 2 ** level + factors[va]! * v * 2 ** level + factors[axis]! * index;
            expect(out[u + frame.size[0] * v], `level ${level}, slice ${index}, sample ${u}, ${v}`).toBeCloseTo(expected, 3);
          }
      }
  });

  it.each([0, 1, 2] as const)("shows it exactly across axis %i where patches have parts alone beside coarse neighbours", (axis) => {
    const dataset = linear(1, 3, -2);
    const factors = [1, 3, -2];
    const [ua, va] = planeAxes(axis);
    for (const level of [0, 1, 2])
      for (const index of [0, 7, 15, 16, 31]) {
        const whole = (patch: number): number => 3 + scatter(patch, 2);
        const bricks = partsOf(dataset, whole, (patch) => (scatter(patch, 3) === 0 ? null : level));
        const frame = sliceFrame(bricks, axis, index, kClip(dataset), level);
        const out = compose(bricks, frame);

        for (let v = 0; v < frame.size[1]; ++v)
          for (let u = 0; u < frame.size[0]; ++u) {
            const expected = factors[ua]! * u * 2 ** level + factors[va]! * v * 2 ** level + factors[axis]! * index;
            expect(out[u + frame.size[0] * v], `level ${level}, slice ${index}, sample ${u}, ${v}`).toBeCloseTo(expected, 3);
          }
      }
  });

  it("places sample i of a level on level-0 sample i 2^l, for grids of odd sizes", () => {
    const dataset: FakeDataset = { ...linear(1, 0, 0), dims: [61, 30, 17] };
    for (const level of [0, 1, 3]) {
      const frame = sliceFrame(
        bricksOf(dataset, () => level),
        2,
        0,
        kClip(dataset),
        level,
      );
      const out = compose(
        bricksOf(dataset, () => level),
        frame,
      );

      expect(frame.size).toEqual([Math.ceil(61 / 2 ** level), Math.ceil(30 / 2 ** level)]);
      expect([...out.slice(0, frame.size[0])]).toEqual(Array.from({ length: frame.size[0] }, (_, i) => i * 2 ** level));
    }
  });

  it("keeps missing samples missing, and does not let them spread", () => {
    const hole = (x: number, y: number): boolean => x >= 20 && x < 24 && y >= 10 && y < 14;
    const dataset: FakeDataset = {
      ...linear(1, 1, 0),
      fields: [{ name: "f", unit: "", min: 0, max: 1, value: (x, y) => (hole(x, y) ? NaN : x + y) }],
    };
    const out = compose(
      bricksOf(dataset, () => 0),
      sliceFrame(
        bricksOf(dataset, () => 0),
        2,
        5,
        kClip(dataset),
        0,
      ),
    );

    for (let y = 0; y < 33; ++y)
      for (let x = 0; x < 65; ++x) expect(out[x + 65 * y]).toBe(hole(x, y) ? Math.fround(kMissing) : x + y);
  });

  it("marks patches that have not arrived, and keeps their neighbours up to their last sample", () => {
    const dataset = linear(1, 0, 0);
    const bricks = bricksOf(dataset, (patch) => (patch % 5 === 1 ? null : 2));
    const frame = sliceFrame(bricks, 2, 0, kClip(dataset), 0);
    const out = compose(bricks, frame);

    expect(out[20]).toBe(Math.fround(kAbsent));
    expect(out[12]).toBe(12);
    expect(out[15]).toBe(12);
    expect(out[32]).toBe(32);
  });

  it("takes only the patches of the clip", () => {
    const dataset = linear(1, 0, 0);
    const frame = sliceFrame(
      bricksOf(dataset, () => 0),
      2,
      0,
      { begin: [17, 3, 0], end: [30, 9, 1] },
      1,
    );

    expect(frame).toMatchObject({ firstPatch: [1, 0], patchCount: [1, 1], first: [8, 0], size: [8, 8] });
  });
});

describe("values that are drawn", () => {
  it("keep the digits of large numbers", () => {
    expect(normalise({ low: 101325, high: 101325.5 }, 101325.125)).toBe(0.25);
    expect(normalise({ low: 3, high: 3 }, 3)).toBe(0);
  });

  it("are missing where the nearer sample is", () => {
    expect(mix(1, 3, 0.25)).toBe(1.5);
    expect(mix(1, kMissing, 0.25)).toBe(1);
    expect(mix(1, kMissing, 0.75)).toBe(kMissing);
  });
});

describe("sliceLevelWithin", () => {
  const long: FakeDataset = { ...linear(1, 0, 0), dims: [1000000, 4, 1], patch: [65536, 64, 1], levels: 7 };

  it("shows whole patches, and so takes a level whose patches fit a texture", () => {
    const bricks = bricksOf(long, () => null);
    // One patch of 65536 samples, which are 8192 at level 3; two of them at level 4.
    expect(sliceLevelWithin(bricks, 2, { begin: [10, 0, 0], end: [20, 4, 1] }, 0)).toBe(3);
    expect(sliceLevelWithin(bricks, 2, { begin: [65530, 0, 0], end: [65540, 4, 1] }, 0)).toBe(4);
    expect(sliceLevelWithin(bricks, 2, { begin: [10, 0, 0], end: [20, 4, 1] }, 5)).toBe(5);
    // All 16 patches: 15625 at level 6, the coarsest.
    expect(sliceLevelWithin(bricks, 2, kClip(long), 0)).toBe(6);
  });

  it("leaves patches of a plane as fine as asked for", () => {
    const plane = { ...long, dims: [1440, 721, 1] as const, patch: [512, 512, 1] as const, levels: 10 };
    expect(sliceLevelWithin(bricksOf(plane, () => null), 2, kClip(plane), 0)).toBe(0);
  });
});
