import { clone } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { ReadResponseSchema } from "../../build/proto/quarry/v1/service_pb";
import { ViewerError } from "../../src/model";
import { settle } from "../net/fake_server";
import { boxOf, Harness, wantOf } from "./harness";

describe("damage", () => {
  it("shows the coarser level, sample floor(i / 2^d) of it, and is marked and counted", async () => {
    const t = await Harness.open({ damage: new Map([[1, 0]]) });
    const bricks = t.bricks();
    bricks.want([wantOf(t.whole, 1)]);
    await settle();
    expect(bricks.status.damagedPatches).toBe(0);
    bricks.want([wantOf(t.whole, 0)]);
    await settle();

    const brick = bricks.best(1, 0)!;
    expect([brick.level, brick.damaged]).toEqual([0, true]);
    // Patch 1 begins at x = 8: level-0 sample (13, 2, 3) shows level-1 sample (6, 1, 1), which lies on (12, 2, 2).
    expect(brick.samples[5 + 8 * (2 + 4 * 3)]).toBe(12 + 200 + 20_000);
    t.check(bricks.best(0, 0), 0, 0);
    expect(bricks.status).toMatchObject({ state: "settled", level: 0, damagedPatches: 1, maxError: 0.01 });
  });

  it("that the server finds within one answer does not hide the levels before", async () => {
    const t = await Harness.open({ dims: [128, 128, 64], patch: [64, 64, 64], levels: 7, damage: new Map([[2, 1]]) });
    // The news of damage come before the levels before are decoded.
    t.decoder.before = () => settle(5);
    const bricks = t.bricks();
    bricks.want([wantOf(t.whole, 0)]);
    await settle();

    const { first } = t.server.reads[0]!;
    expect(first).toBe(2);
    t.check(bricks.best(2, 2), 2, 2);
    expect([bricks.best(2, 1)!.damaged, bricks.best(2, 0)!.damaged]).toEqual([true, true]);
    expect([...bricks.best(2, 0)!.samples.subarray(0, 5)]).toEqual([0, 0, 0, 0, 4].map((x) => x + 6400));
  });

  it("that only the decoder finds is shown the same way", async () => {
    const t = await Harness.open({ dims: [128, 128, 64], patch: [64, 64, 64], levels: 7 });
    t.decoder.before = (job) => {
      if (job.patch === 3 && job.target === 1) throw new ViewerError("data_loss", "level 1 of patch 3 is damaged");
    };
    const bricks = t.bricks();
    bricks.want([wantOf(t.whole, 0)]);
    await settle();

    t.check(bricks.best(3, 2), 3, 2);
    expect([bricks.best(3, 1)!.damaged, bricks.best(3, 0)!.damaged]).toEqual([true, true]);
    expect(bricks.status).toMatchObject({ state: "settled", damagedPatches: 1, message: "level 1 of patch 3 is damaged" });
  });

  it("of all levels of a patch leaves that patch out, and no other", async () => {
    const t = await Harness.open({ damage: new Map([[4, 2]]) });
    const bricks = t.bricks();
    bricks.want([wantOf(t.whole, 0)]);
    await settle(600);

    expect(bricks.best(4, 0)).toBeNull();
    for (const patch of t.patchesIn(t.whole)) if (patch !== 4) t.check(bricks.best(patch, 0), patch, 0);
    expect(bricks.status).toMatchObject({ state: "settled", damagedPatches: 1 });
  });

  it("in the samples encoding is marked", async () => {
    const t = await Harness.open({ samples: true });
    t.server.tamper = (message) => {
      if (message.part.case !== "samples" || message.part.value.blocks[0]!.begin[2] !== 0) return message;
      const damaged = clone(ReadResponseSchema, message);
      if (damaged.part.case === "samples") for (const block of damaged.part.value.blocks) block.shownLevel = 2;
      return damaged;
    };
    const bricks = t.bricks();
    bricks.want([wantOf(t.whole, 0)]);
    await settle();

    // Blocks are planes: those at z = 0 touch the lowest patches, 9 of 27.
    expect(bricks.status.damagedPatches).toBe(9);
    expect([bricks.best(0, 0)!.damaged, bricks.best(9, 0)!.damaged]).toEqual([true, false]);
  });
});

describe("a stream", () => {
  it("that breaks goes on where it was", async () => {
    const t = await Harness.open();
    let left = 3;
    t.server.beforeMessage = (read) => {
      if (left > 0 && read.sent === 3) {
        --left;
        throw new ConnectError("connection reset", Code.Unavailable);
      }
    };
    const bricks = t.bricks();
    bricks.want([wantOf(t.whole, 0)]);
    for (let i = 0; i < 4; ++i) {
      await settle(50);
      t.passTime();
    }
    await settle();

    expect(t.server.reads.map((read) => read.resumed)).toEqual([false, true, true, true]);
    expect(t.decoder.jobs.map((job) => `${job.patch}/${job.target}`).length).toBe(27);
    expect(new Set(t.decoder.jobs.map((job) => job.patch)).size).toBe(27);
    for (const patch of t.patchesIn(t.whole)) t.check(bricks.best(patch, 0), patch, 0);
  });

  it("is one of four at the most", async () => {
    const t = await Harness.open({ steps: [0, 1, 2, 3, 4, 5] });
    const release = t.hold();
    const all = [0, 1, 2, 3, 4, 5].map((step) => t.bricks(step));
    for (const bricks of all) bricks.want([wantOf(t.whole, 0)]);
    await settle();
    expect(t.server.reads.length).toBe(4);
    release();
    await settle(400);

    expect(all.map((bricks) => bricks.status.state)).toEqual(all.map(() => "settled"));
  });

  it("of fine levels waits for the first picture of the coarse one", async () => {
    const t = await Harness.open({ dims: [256, 256, 256], patch: [64, 64, 64], levels: 7, value: (x) => x });
    const release = t.hold();
    const bricks = t.bricks();
    bricks.want([wantOf(boxOf([0, 0, 100], [256, 256, 101]), 1), wantOf(t.whole, 3)]);
    await settle();
    expect(t.server.reads.map((read) => [read.first, read.level])).toEqual([[3, 3]]);
    release();
    await settle(400);

    const others = t.server.reads.slice(1).map((read) => [read.first, read.level, read.begin[2], read.end[2]]);
    expect(others).toEqual([[2, 1, 64, 128]]);
    expect(bricks.status).toMatchObject({ state: "settled", level: 1 });
  });
});

describe("a decoder", () => {
  it("that has dropped a patch gets it again from the coarsest level on", async () => {
    const t = await Harness.open({ dims: [128, 128, 64], patch: [64, 64, 64], levels: 7 });
    let refuse = 1;
    t.decoder.before = (job) => {
      if (job.patch === 1 && job.target === 1 && refuse-- > 0) throw new ViewerError("failed_precondition", "dropped");
    };
    const bricks = t.bricks();
    bricks.want([wantOf(t.whole, 0)]);
    await settle(400);

    t.check(bricks.best(1, 0), 1, 0);
    expect(bricks.status).toMatchObject({ state: "settled", damagedPatches: 0 });
    expect(t.server.reads.map((read) => [read.first, read.begin])).toEqual([[2, [0, 0, 0]], [1, [64, 0, 0]]]);
  });

  it("that refuses again and again is no reason to ask for ever", async () => {
    const t = await Harness.open();
    t.decoder.before = () => { throw new ViewerError("failed_precondition", "dropped"); };
    const bricks = t.bricks();
    bricks.want([wantOf(boxOf([0, 0, 0], [8, 4, 4]), 0)]);
    await settle();

    expect(t.server.reads.length).toBe(3);
    expect(bricks.status.state).toBe("failed");
  });

  for (const code of ["unimplemented", "unavailable"]) {
    it(`that is ${code} leaves it to the server`, async () => {
      const t = await Harness.open();
      t.decoder.before = () => { throw new ViewerError(code, "no such coder, or no workers"); };
      const bricks = t.bricks();
      bricks.want([wantOf(t.whole, 0)]);
      await settle();

      expect(t.server.reads.map((read) => read.encoding)).toEqual(["patches", "samples"]);
      t.check(bricks.best(3, 0), 3, 0);
      expect(bricks.status).toMatchObject({ state: "settled", level: 0 });
    });
  }

  it("hears of the end of each answer", async () => {
    const t = await Harness.open();
    const bricks = t.bricks();
    bricks.want([wantOf(t.whole, 0)]);
    await settle();

    expect(t.decoder.ended).toEqual([t.decoder.jobs[0]!.answer]);
  });
});

describe("closing", () => {
  it("aborts, and tells nobody any more", async () => {
    const t = await Harness.open();
    const bricks = t.bricks();
    t.hold();
    bricks.want([wantOf(t.whole, 0)]);
    await settle();
    let told = 0;
    bricks.subscribe(() => { ++told; });
    bricks.close();
    bricks.want([wantOf(t.whole, 1)]);
    await settle();

    expect(t.server.reads.map((read) => read.state)).toEqual(["aborted"]);
    expect(told).toBe(0);
  });
});
