import { describe, expect, it } from "vitest";
import type { Box } from "../../src/model";
import type { View } from "../../src/render/views";
import { codingError, wantsOf } from "../../src/ui/wants";
import { fakeGrid } from "../fake/source";

const kClip: Box = { begin: [0, 0, 0], end: [64, 64, 64] };
const kGrid = fakeGrid({ dims: [64, 64, 64], patch: [32, 32, 32], levels: 6 });
const scene = (low: number, high: number): View["scene"] =>
  ({ bricks: { grid: kGrid, patches: [2, 2, 2], best: () => null }, scale: { low, high }, hasMissing: false, low, high, map: "gray" });

function slice(low: number, high: number): View {
  return { kind: "slice", key: "z-a", scene: scene(low, high), clip: kClip, level: 0, axis: 2, index: 37 } as unknown as View;
}

describe("the error that coding may add to slices", () => {
  it("is at most one of 256 colours, and the same for nearly the same range", () => {
    for (const [low, high] of [[0, 1], [270, 300], [-1e-9, 1e-9], [1e20, 3e20], [-5, 7.25]] as const) {
      const error = codingError({ low, high }, "float32");
      expect(error).toBeLessThanOrEqual((high - low) / 256);
      expect(error).toBeGreaterThan((high - low) / 512);
    }
    expect(codingError({ low: 0, high: 40 }, "float64")).toBe(codingError({ low: 1, high: 37 }, "float64"));
  });

  it("is nothing for integers, which may be labels, and where all colours are one", () => {
    expect(["int8", "uint16", "int64"].map((type) => codingError({ low: 0, high: 255 }, type as "int8"))).toEqual([0, 0, 0]);
    expect([codingError({ low: 3, high: 3 }, "float32"), codingError({ low: NaN, high: 3 }, "float32")]).toEqual([0, 0]);
  });
});

describe("wants", () => {
  it("of slices may be coded within the range on screen, of volumes never", () => {
    const volume = { ...slice(0, 256), kind: "volume", key: "volume-a" } as unknown as View;
    const [thin, whole] = wantsOf([volume, slice(0, 256)], [1, 2, 37], false, "float32");

    expect(thin).toEqual({ box: { begin: [0, 0, 37], end: [64, 64, 38] }, level: 0, focus: [1, 2, 37], tier: "visible", slice: { axis: 2, index: 37, error: 1 } });
    expect(whole).toEqual({ box: kClip, level: 0, focus: [1, 2, 37], tier: "visible" });
  });

  it("are about samples as stored while something moves, and for differences", () => {
    expect(wantsOf([slice(0, 1)], [0, 0, 0], true, "float32").map((want) => [want.level, want.slice])).toEqual([[2, undefined]]);
    expect(wantsOf([slice(0, 1)], [0, 0, 0], false, null).map((want) => [want.level, want.slice])).toEqual([[0, undefined]]);
  });
});
