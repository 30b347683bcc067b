import { describe, expect, it } from "vitest";
import type { Brick } from "../../src/model";
import type { Bricks } from "../../src/render/compose";
import type { Gl } from "../../src/render/gl";
import { SlicePicture } from "../../src/render/slice";
import { fakeGrid, makeBrick } from "../fake/source";
import type { FakeDataset } from "../fake/source";

const kDataset: FakeDataset = {
  name: "d",
  dims: [64, 64, 32],
  patch: [16, 16, 16],
  levels: 4,
  steps: 1,
  fields: [{ name: "f", unit: "", min: 0, max: 1, value: (x, y, z) => x * x + 3 * y * y - z * x }],
};

/** A graphics card that draws nothing, and keeps the samples that it was sent last. */
function card(): { readonly gl: Gl; readonly samples: () => readonly number[] } {
  let sent: readonly number[] = [];
  const gl = new Proxy({} as Record<string, unknown>, {
    get: (_, name) => {
      if (name !== "texSubImage2D") return () => ({});
      return (...given: readonly unknown[]) => {
        const array = given.find((each) => each instanceof Float32Array);
        if (array) sent = [...array];
      };
    },
  });
  return { gl: gl as unknown as Gl, samples: () => sent };
}

class Store implements Bricks {
  readonly grid = fakeGrid(kDataset);
  readonly patches = [4, 4, 2] as const;
  private readonly have = new Map<number, Brick>();

  best(patch: number, finest: number): Brick | null {
    const brick = this.have.get(patch);
    return brick && brick.level >= finest ? brick : null;
  }

  put(patch: number, level: number): Brick {
    const brick = makeBrick(kDataset, kDataset.fields[0]!, 0, patch, level);
    this.have.set(patch, brick);
    return brick;
  }
}

function wishOf(bricks: Bricks): Parameters<SlicePicture["set"]>[0] {
  return { bricks, scale: { low: 0, high: 1 }, axis: 2, index: 13, clip: { begin: [0, 0, 0], end: [64, 64, 32] }, level: 0 };
}

describe("SlicePicture", () => {
  it("makes neighbours again when a patch arrives or becomes finer, in the slice and behind it", () => {
    const store = new Store();
    for (let patch = 0; patch < 16; ++patch) if (patch !== 5) store.put(patch, patch === 15 ? 0 : 3);
    const { gl, samples } = card();
    const picture = new SlicePicture(gl);
    picture.set(wishOf(store));
    picture.update(Infinity);

    for (const [patch, level] of [
      [5, 2],
      [6, 1],
      [9, 0],
      [21, 3],
      [25, 1],
    ] as const) {
      picture.add([store.put(patch, level)]);
      picture.update(Infinity);
      const whole = card();
      const fresh = new SlicePicture(whole.gl);
      fresh.set(wishOf(store));
      fresh.update(Infinity);
      expect(samples(), `patch ${patch}`).toEqual(whole.samples());
    }
  });

  it("does a little at a time when the deadline is over, and all of it in the end", () => {
    const store = new Store();
    for (let patch = 0; patch < 16; ++patch) store.put(patch, 0);
    const { gl, samples } = card();
    const picture = new SlicePicture(gl);
    picture.set(wishOf(store));
    picture.update(-Infinity);
    expect(picture.pending).toBe(false);

    picture.set({ ...wishOf(store), index: 14 });
    let parts = 0;
    for (; picture.pending; ++parts) picture.update(-Infinity);
    expect(parts).toBe(16);
    expect(samples()[1 + 64]).toBe(1 + 3 - 14);
  });
});
