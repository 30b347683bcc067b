import { describe, expect, it } from "vitest";
import type { Box, Vec3, Want } from "../../src/model";
import { brickBytes, needsOf, startLevel, type Subject } from "../../src/store/needs";
import { halves, plan, type Question } from "../../src/store/plan";
import { boxOf, wantOf } from "./harness";

function subject(dims: Vec3, patch: Vec3, levels: number): Subject {
  return { dims, patch, levels, field: { type: "float32" }, hasMissing: false, slices: null };
}

/** Position of a patch, and the patches of a box of samples, by other means than the code's. */
function patchesOf(s: Subject, box: Box): number[] {
  const n = s.dims.map((d, a) => Math.floor((d + s.patch[a]! - 1) / s.patch[a]!));
  const out: number[] = [];
  for (let i = 0; i < n[0]! * n[1]! * n[2]!; ++i) {
    const at = [i % n[0]!, Math.floor(i / n[0]!) % n[1]!, Math.floor(i / n[0]! / n[1]!)];
    if (at.every((p, a) => p * s.patch[a]! < box.end[a]! && (p + 1) * s.patch[a]! > box.begin[a]!)) out.push(i);
  }
  return out;
}

function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function asked(s: Subject, wants: readonly Want[], has: (patch: number, level: number) => boolean = () => false): Question[] {
  return plan(s, needsOf(s, wants, "visible", Infinity).patches.values(), has);
}

const kCube = subject([512, 512, 512], [64, 64, 64], 7);
const kWhole = boxOf([0, 0, 0], [512, 512, 512]);

describe("needs", () => {
  it("begin with the finest level of at most 32³ samples", () => {
    expect(startLevel(kCube, wantOf(kWhole, 0))).toBe(4);
    expect(startLevel(kCube, wantOf(boxOf([0, 0, 70], [512, 512, 71]), 0))).toBe(3);
    expect(startLevel(kCube, wantOf(boxOf([0, 0, 0], [10, 10, 10]), 0))).toBe(1);
    expect(startLevel(kCube, wantOf(kWhole, 5))).toBe(5);
  });

  it("of several wants come to the finest level of all", () => {
    const needs = needsOf(kCube, [wantOf(boxOf([0, 0, 70], [512, 512, 71]), 0), wantOf(kWhole, 2)], "visible", Infinity).patches;
    expect(needs.size).toBe(512);
    expect(needs.get(64)).toMatchObject({ target: 0, start: 4, want: 0 });
    expect(needs.get(0)).toMatchObject({ target: 2, start: 4, want: 1 });
  });

  it("make the largest want coarser until all fit", () => {
    const wants = [wantOf(boxOf([0, 0, 70], [512, 512, 71]), 0), wantOf(kWhole, 0)];
    const needs = needsOf(kCube, wants, "visible", 120 * 2 ** 20);

    // The volume at level 1 is 64 MiB, with its coarser levels 73 MiB; a layer of 64 patches at level 0 is 64 MiB.
    expect(needs.limited).toBe(true);
    expect(needs.bytes).toBeLessThanOrEqual(120 * 2 ** 20);
    expect([needs.patches.get(64)!.target, needs.patches.get(0)!.target]).toEqual([0, 2]);
  });

  it("keep patches around the focus where not even coarse ones fit", () => {
    const one = brickBytes(kCube, boxOf([0, 0, 0], [64, 64, 64]), 6);
    const needs = needsOf(kCube, [wantOf(kWhole, 6, { focus: [500, 500, 500] })], "visible", 40 * one);

    expect(needs.limited).toBe(true);
    expect(needs.patches.size * one).toBeLessThanOrEqual(40 * one);
    expect(needs.patches.has(511)).toBe(true);
    expect(needs.patches.has(0)).toBe(false);
  });

  it("are bounded for a grid of any size", () => {
    const vast = subject([2 ** 31, 2 ** 31, 2 ** 20], [1024, 1024, 64], 7);
    const needs = needsOf(vast, [wantOf(boxOf([0, 0, 0], vast.dims), 0)], "visible", 2 ** 29);

    expect(needs.patches.size).toBeLessThanOrEqual(2 ** 17);
    expect(needs.bytes).toBeLessThanOrEqual(2 ** 29);
  });
});

describe("questions", () => {
  it("are one where one is enough", () => {
    expect(asked(kCube, [wantOf(kWhole, 2)])).toMatchObject([{ box: kWhole, first: 4, level: 2 }]);
  });

  it("are the coarse layer first, then the fine one without doubling where slices cross", () => {
    const slices = [boxOf([70, 0, 0], [71, 512, 512]), boxOf([0, 200, 0], [512, 201, 512])];
    const questions = asked(kCube, [...slices.map((slice) => wantOf(slice, 0)), wantOf(kWhole, 2)]);

    expect(questions[0]).toMatchObject({ box: kWhole, first: 4, level: 2 });
    const fine = questions.slice(1).flatMap((question) => patchesOf(kCube, question.box));
    expect(questions.slice(1).every((question) => question.first === 1 && question.level === 0)).toBe(true);
    expect(fine.length).toBe(64 + 64 - 8);
    expect(new Set(fine).size).toBe(fine.length);
  });

  it("ask for all levels that a patch lacks at once, beside patches that lack the finest alone", () => {
    // Levels 4 and 3 are there, and of the first half of the layer level 2 too.
    const has = (patch: number, level: number): boolean => level >= 3 || (level === 2 && patch % 8 < 4);
    const questions = asked(kCube, [wantOf(boxOf([0, 0, 0], [512, 512, 1]), 1)], has);

    expect(questions).toMatchObject([
      { box: boxOf([256, 0, 0], [512, 512, 64]), first: 2, level: 1 },
      { box: boxOf([0, 0, 0], [256, 512, 64]), first: 1, level: 1 },
    ]);
  });

  it("cover what is missing and little else, for random memory", () => {
    const next = random(7);
    for (let round = 0; round < 60; ++round) {
      const side = (most: number): number => 1 + Math.floor(next() * most);
      const s = subject([side(100), side(100), side(60)], [16, 16, 16], 1);
      const there = new Set<number>();
      const cut = Math.floor(next() * 6);
      for (const patch of patchesOf(s, boxOf([0, 0, 0], s.dims))) if (patch % 7 < cut && next() < 0.9) there.add(patch);
      const whole = boxOf([0, 0, 0], s.dims);
      const questions = asked(s, [wantOf(whole, 0)], (patch) => there.has(patch));

      const missing = patchesOf(s, whole).filter((patch) => !there.has(patch));
      const covered = questions.flatMap((question) => patchesOf(s, question.box));
      expect(questions.flatMap((question) => [...question.patches]).sort((a, b) => a - b)).toEqual(missing);
      expect(new Set(covered).size).toBe(covered.length);
      expect(missing.every((patch) => covered.includes(patch))).toBe(true);
      expect(questions.length).toBeLessThanOrEqual(12);
    }
  });

  it("of the first want come first", () => {
    const places = [boxOf([448, 448, 448], [512, 512, 512]), boxOf([0, 448, 0], [64, 512, 64]), boxOf([0, 0, 0], [64, 64, 64])];
    const questions = asked(kCube, places.map((place) => wantOf(place, 1)));

    expect(questions.map((question) => question.box)).toEqual(places);
  });

  it("are exactly the missing patches where these are a few boxes", () => {
    const there = new Set(patchesOf(kCube, boxOf([0, 0, 0], [256, 256, 512])));
    const questions = asked(kCube, [wantOf(kWhole, 0)], (patch) => there.has(patch));

    expect(questions.flatMap((question) => patchesOf(kCube, question.box)).length).toBe(512 - 128);
    expect(questions.length).toBe(2);
  });

  it("are halved until one patch is left", () => {
    const needs = [...needsOf(kCube, [wantOf(boxOf([0, 0, 0], [320, 64, 64]), 0)], "visible", Infinity).patches.values()];
    const [question] = plan(kCube, needs, () => false);
    const parts = halves(kCube, question!, needs);

    expect(parts.map((part) => part.patches)).toEqual([[0, 1, 2], [3, 4]]);
    expect(parts.map((part) => [part.box.begin[0], part.box.end[0]])).toEqual([[0, 192], [192, 320]]);
    expect(halves(kCube, parts[1]!, needs.slice(3)).map((part) => part.patches)).toEqual([[3], [4]]);
  });
});
