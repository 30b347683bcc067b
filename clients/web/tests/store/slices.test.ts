import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import type { Box, Brick, Slice, Vec3, Want } from "../../src/model";
import { ViewerError } from "../../src/model";
import { kTile } from "../../src/reading";
import { coded, settle } from "../net/fake_server";
import { boxOf, Harness, wantOf } from "./harness";

// 64³ samples in patches of 32³: a slice begins with level 1 of four patches, and level 0 of its plane is coded.
const kOptions = { dims: [64, 64, 64] as [number, number, number], patch: [32, 32, 32] as [number, number, number], levels: 6 };
const kAt = { axis: 2, index: 5 } as const;
const kPlane = boxOf([0, 0, 5], [64, 64, 6]);

function sliceWant(error: number, more: Partial<Want> = {}, at: Slice = kAt, box: Box = kPlane): Want {
  return wantOf(box, 0, { slice: { ...at, error }, ...more });
}

/** The part of a patch is what the server coded, within the error. */
function checkPart(t: Harness, brick: Brick | null, box: Box, error: number): void {
  const step = 2 ** brick!.level;
  const samples = t.server.samples([...box.begin] as [number, number, number], [...box.end] as [number, number, number], brick!.level, 0);
  expect([brick!.box, brick!.damaged]).toEqual([box, false]);
  expect([...brick!.samples]).toEqual(samples.map((one) => Math.fround(coded(one, error))));
  expect(brick!.part!.maxError).toBeCloseTo(0.01 * step ** 2 + error, 9);
}

const asked = (t: Harness): unknown[] => t.server.reads.map(({ encoding, first, level, begin, end, recode }) => [encoding, first, level, begin, end, recode]);

describe("a slice", () => {
  it("is a first picture of whole patches, then its plane, coded within the error", async () => {
    const t = await Harness.open(kOptions);
    const bricks = t.bricks();
    bricks.want([sliceWant(0.25)]);
    await settle();

    expect(asked(t)).toEqual([
      ["patches", 1, 1, [0, 0, 0], [64, 64, 32], 0], ["coded", 0, 0, [0, 0, 5], [64, 64, 6], 0.25],
    ]);
    for (const patch of [0, 1, 2, 3]) {
      const begin: Vec3 = [patch % 2 * 32, Math.floor(patch / 2) * 32, 5];
      checkPart(t, bricks.best(patch, 0, kAt), boxOf(begin, [begin[0] + 32, begin[1] + 32, 6]), 0.25);
      t.check(bricks.best(patch, 0), patch, 1);
    }
    expect(bricks.status).toMatchObject({ state: "settled", level: 0, target: 0, maxError: 0.26 });
    expect(bricks.status.received).toBe(bricks.status.expected);
    // Two halves of a plane, whose bytes here are the samples; and 4 x 16³ samples of the first picture, with all coarser ones.
    expect(bricks.status.received).toBe(64 * 64 * 4 + 4 * 4 * (16 ** 3 + 8 ** 3 + 4 ** 3 + 2 ** 3 + 1));
  });

  it("between samples of its level has the planes on both sides", async () => {
    const t = await Harness.open({ ...kOptions, dims: [256, 256, 64], patch: [64, 64, 64], levels: 7 });
    const bricks = t.bricks();
    const slice = { axis: 2, index: 13 } as const;
    bricks.want([wantOf(boxOf([0, 0, 12], [256, 256, 17]), 2, { slice: { ...slice, error: 0 } })]);
    await settle();

    expect(asked(t)).toEqual([
      ["patches", 3, 3, [0, 0, 0], [256, 256, 64], 0], ["coded", 2, 2, [0, 0, 12], [256, 256, 17], 0],
    ]);
    checkPart(t, bricks.best(5, 0, slice), boxOf([16, 16, 3], [32, 32, 5]), 0);
    // A slice between the same samples has the same planes.
    bricks.want([wantOf(boxOf([0, 0, 12], [256, 256, 17]), 2, { slice: { axis: 2, index: 15, error: 0 } })]);
    await settle();
    expect([t.server.reads.length, bricks.status.state]).toEqual([2, "settled"]);
  });

  it("is asked for again within a smaller error, shows the samples before until then, and keeps them for a larger one", async () => {
    const t = await Harness.open(kOptions);
    const bricks = t.bricks();
    bricks.want([sliceWant(0.25)]);
    await settle();
    const release = t.hold();
    bricks.want([sliceWant(0.125)]);
    await settle();
    expect(bricks.best(0, 0, kAt)!.part!.maxError).toBeCloseTo(0.26, 9);
    expect(bricks.status.state).not.toBe("settled");
    release();
    await settle();
    expect(bricks.status).toMatchObject({ state: "settled", maxError: 0.135 });
    bricks.want([sliceWant(1)]);
    await settle();

    expect(asked(t).slice(2)).toEqual([["coded", 0, 0, [0, 0, 5], [64, 64, 6], 0.125]]);
    expect(bricks.best(0, 0, kAt)!.part!.maxError).toBeCloseTo(0.135, 9);
  });

  it("that moves away and comes back is still there", async () => {
    const t = await Harness.open(kOptions);
    const bricks = t.bricks();
    const next = { axis: 2, index: 6 } as const;
    bricks.want([sliceWant(0.25)]);
    await settle();
    bricks.want([sliceWant(0.25, {}, next, boxOf([0, 0, 6], [64, 64, 7]))]);
    await settle();
    expect(bricks.best(0, 0, next)!.part).toBeDefined();
    bricks.want([sliceWant(0.25)]);
    await settle();

    expect(asked(t).map((one) => (one as unknown[])[0])).toEqual(["patches", "coded", "coded"]);
    expect(bricks.status.state).toBe("settled");
  });

  it("needs no parts of patches that are there, or come, for something else", async () => {
    const t = await Harness.open(kOptions);
    const bricks = t.bricks();
    bricks.want([sliceWant(0.25), wantOf(boxOf([0, 0, 0], [32, 64, 64]), 0)]);
    await settle();

    const parts = t.server.reads.filter((read) => read.encoding === "coded");
    expect(parts.map(({ begin, end }) => [begin, end])).toEqual([[[32, 0, 5], [64, 64, 6]]]);
    t.check(bricks.best(0, 0, kAt), 0, 0);
    bricks.want([sliceWant(0.25, {}, { axis: 0, index: 3 }, boxOf([3, 0, 0], [4, 64, 64]))]);
    await settle();
    expect(t.server.reads.filter((read) => read.encoding === "coded")).toEqual(parts);
    expect(bricks.status).toMatchObject({ state: "settled", level: 0, maxError: 0.01 });
  });

  it("of thin patches comes as stored: there is nothing to gain", async () => {
    const t = await Harness.open({ dims: [256, 256, 2], patch: [64, 64, 2], levels: 2 });
    const bricks = t.bricks();
    bricks.want([sliceWant(0.25, {}, { axis: 2, index: 0 }, boxOf([0, 0, 0], [256, 256, 1]))]);
    await settle();

    expect([...new Set(t.server.reads.map((read) => read.encoding))]).toEqual(["patches"]);
    expect(bricks.status.state).toBe("settled");
  });

  it("comes as stored where nothing decodes here, and from a server that does not code", async () => {
    for (const samples of [true, false]) {
      const t = await Harness.open({ ...kOptions, samples });
      t.server.beforeMessage = (read) => {
        if (read.encoding === "coded") throw new ConnectError("encoding 2 is not known", Code.InvalidArgument);
      };
      const bricks = t.bricks();
      bricks.want([sliceWant(0.25)]);
      await settle();

      for (const patch of [0, 1, 2, 3]) t.check(bricks.best(patch, 0, kAt), patch, 0);
      expect(bricks.status).toMatchObject({ state: "settled", level: 0, maxError: 0.01 });
      expect(t.server.reads.filter((read) => read.encoding === "coded").length).toBe(samples ? 0 : 1);
    }
  });

  it("that was damaged on the way is asked for again", async () => {
    const t = await Harness.open(kOptions);
    let broken = 1;
    t.decoder.before = (job) => {
      if (job.coder === kTile && broken-- > 0) throw new ViewerError("data_loss", "a coded tile has the checksum 1, and 2 is computed");
    };
    const bricks = t.bricks();
    bricks.want([sliceWant(0.25)]);
    await settle();
    expect(bricks.status).toMatchObject({ state: "failed" });
    expect(bricks.status.message).toContain("cannot decode a part of a slice: a coded tile has the checksum");
    t.passTime();
    await settle();

    expect(bricks.status).toMatchObject({ state: "settled", level: 0 });
    expect([...bricks.damaged]).toEqual([]);
  });

  it("says where its payload is damaged", async () => {
    const t = await Harness.open({ ...kOptions, rougher: [10] });
    t.server.tamper = (message) => {
      if (message.part.case === "coded")
        message.part.value.tiles[1]!.damaged.push({ $typeName: "quarry.v1.BlockExtent", begin: [40, 40, 5], shape: [1, 1, 1], shownLayer: 0 });
      return message;
    };
    const bricks = t.bricks();
    bricks.want([sliceWant(0.25)]);
    await settle();

    expect([0, 1, 2, 3].map((patch) => bricks.best(patch, 0, kAt)!.damaged)).toEqual([false, false, false, true]);
    expect([...bricks.damaged]).toEqual([3]);
  });

  it("is prefetched like whole patches", async () => {
    const t = await Harness.open({ ...kOptions, steps: [0, 1] });
    const bricks = t.bricks(1);
    bricks.want([sliceWant(0.25, { tier: "prefetch" })]);
    await settle();

    expect(bricks.best(0, 0, kAt)!.level).toBe(0);
    expect(asked(t).length).toBe(2);
  });
});
