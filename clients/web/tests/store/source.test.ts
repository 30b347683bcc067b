import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import type { LoadState } from "../../src/model";
import { settle } from "../net/fake_server";
import { boxOf, Harness, wantOf } from "./harness";

describe("a want", () => {
  for (const samples of [false, true]) {
    it(`is filled coarse to fine with what the server has, as ${samples ? "samples" : "patches"}`, async () => {
      const t = await Harness.open({ samples });
      const bricks = t.bricks();
      const order: number[] = [];
      bricks.subscribe((some) => { order.push(...(some ?? []).map((brick) => brick.level)); });
      bricks.want([wantOf(t.whole, 0)]);
      await settle();

      expect(t.server.reads.map((read) => read.encoding)).toEqual([samples ? "samples" : "patches"]);
      expect(order).toEqual([...order].sort((a, b) => b - a));
      for (const patch of t.patchesIn(t.whole)) {
        for (let level = t.server.reads[0]!.first; level >= 0; --level) t.check(bricks.best(patch, level), patch, level);
      }
      expect(bricks.status).toMatchObject({ state: "settled", level: 0, target: 0, maxError: 0.01, coverage: 1 });
      expect(bricks.status.damagedPatches).toBe(0);
      expect(bricks.status.received).toBe(bricks.status.expected);
    });
  }

  it("is about the grid of its field, whatever other grids the dataset has", async () => {
    for (const samples of [false, true]) {
      const t = await Harness.open({ samples, second: true });
      const bricks = t.bricks();
      bricks.want([wantOf(t.whole, 0)]);
      await settle();

      expect([bricks.grid.dims, bricks.patches]).toEqual([[20, 12, 9], [3, 3, 3]]);
      for (const patch of t.patchesIn(t.whole)) t.check(bricks.best(patch, 0), patch, 0);
      expect(bricks.status).toMatchObject({ state: "settled", level: 0 });
    }
  });

  it("of a layer of accuracy is filled with that layer, and the first is decoded here", async () => {
    const t = await Harness.open({ rougher: [10, 1] });
    for (const [field, layer] of [["speed, layer 0", 0], ["speed, layer 1", 1], ["speed", 2]] as const) {
      t.server.reads.length = 0;
      const bricks = t.bricks(0, field);
      bricks.want([wantOf(t.whole, 0)]);
      await settle();

      expect(t.server.reads.map((read) => [read.layer, read.encoding])).toEqual([[layer, layer === 0 ? "patches" : "samples"]]);
      for (const patch of t.patchesIn(t.whole)) t.check(bricks.best(patch, 0), patch, 0, 0, layer);
      expect(bricks.status).toMatchObject({ state: "settled", level: 0, maxError: [10, 1, 0.01][layer] });
    }
  });

  it("begins with the finest level that is little", async () => {
    // 64³: level 1 has 32³ samples, which is a first picture.
    const t = await Harness.open({ dims: [64, 64, 64], patch: [32, 32, 32], levels: 6 });
    t.bricks().want([wantOf(t.whole, 0)]);
    await settle();

    expect(t.server.reads.map((read) => [read.first, read.level])).toEqual([[1, 0]]);
  });

  it("asks for whole patches of the layer of a slice, and only for them", async () => {
    const t = await Harness.open();
    const slice = boxOf([0, 0, 5], [20, 12, 6]);
    const bricks = t.bricks();
    bricks.want([wantOf(slice, 0)]);
    await settle();

    expect(t.server.reads.map((read) => [read.begin, read.end])).toEqual([[[0, 0, 4], [20, 12, 8]]]);
    for (const patch of t.patchesIn(slice)) t.check(bricks.best(patch, 0), patch, 0);
  });

  it("that grows asks only for patches that are not in memory", async () => {
    const t = await Harness.open();
    const bricks = t.bricks();
    const first = boxOf([0, 0, 0], [8, 8, 9]);
    bricks.want([wantOf(first, 0)]);
    await settle();
    t.server.reads.length = 0;
    bricks.want([wantOf(t.whole, 0)]);
    await settle();

    const had = new Set(t.patchesIn(first));
    const asked = t.server.reads.flatMap((read) => t.patchesIn(read));
    expect(asked.filter((patch) => had.has(patch))).toEqual([]);
    expect(asked.sort((a, b) => a - b)).toEqual(t.patchesIn(t.whole).filter((patch) => !had.has(patch)));
  });

  it("for a finer level begins after the levels in memory", async () => {
    const t = await Harness.open();
    const bricks = t.bricks();
    bricks.want([wantOf(t.whole, 1)]);
    await settle();
    bricks.want([wantOf(t.whole, 0)]);
    await settle();

    expect(t.server.reads.map((read) => [read.first, read.level])).toEqual([[1, 1], [0, 0]]);
  });

  it("that is repeated asks nothing and tells nobody", async () => {
    const t = await Harness.open();
    const bricks = t.bricks();
    bricks.want([wantOf(t.whole, 0)]);
    await settle();
    let told = 0;
    bricks.subscribe(() => { ++told; });
    for (let i = 0; i < 3; ++i) bricks.want([wantOf(boxOf([0, 0, 0], [20, 12, 9]), 0)]);
    await settle();

    expect([t.server.reads.length, told]).toEqual([1, 0]);
  });

  it("may be changed by who hears of bricks", async () => {
    const t = await Harness.open();
    const bricks = t.bricks();
    let level = 2;
    bricks.subscribe(() => { bricks.want([wantOf(t.whole, level = Math.max(0, level - 1))]); });
    bricks.want([wantOf(t.whole, 2)]);
    await settle();

    expect(bricks.status).toMatchObject({ state: "settled", level: 0 });
  });

  it("of a coarser level than in memory is made of finer bricks, without a question", async () => {
    // The first picture of one patch is its level 0.
    const t = await Harness.open();
    const bricks = t.bricks();
    bricks.want([wantOf(boxOf([8, 4, 4], [16, 8, 8]), 0)]);
    await settle();
    expect(bricks.best(t.patchesIn(boxOf([8, 4, 4], [16, 8, 8]))[0]!, 1)).toBeNull();
    bricks.want([wantOf(boxOf([8, 4, 4], [16, 8, 8]), 1)]);
    await settle();

    const patch = t.patchesIn(boxOf([8, 4, 4], [16, 8, 8]))[0]!;
    expect(t.server.reads.length).toBe(1);
    t.check(bricks.best(patch, 1), patch, 1);
    expect(bricks.status).toMatchObject({ state: "settled", level: 1, maxError: 0.04 });
  });

  it("of a coarser level is asked for where coarse levels are filtered", async () => {
    const t = await Harness.open({ coder: "wavelet-zfp" });
    const bricks = t.bricks();
    bricks.want([wantOf(boxOf([8, 4, 4], [16, 8, 8]), 0)]);
    await settle();
    bricks.want([wantOf(boxOf([8, 4, 4], [16, 8, 8]), 1)]);
    await settle();

    expect(t.server.reads.map((read) => [read.first, read.level])).toEqual([[0, 0], [1, 1]]);
  });
});

describe("a change", () => {
  const left = boxOf([0, 0, 0], [8, 12, 9]);
  const right = boxOf([16, 0, 0], [20, 12, 9]);

  it("aborts what no want needs, at the server, and drops what still comes", async () => {
    const t = await Harness.open();
    const bricks = t.bricks();
    const release = t.hold((read) => read.begin[0] === 0);
    bricks.want([wantOf(left, 0)]);
    await settle();
    bricks.want([wantOf(right, 0)]);
    await settle();
    release();
    await settle();

    expect(t.server.reads.map((read) => read.state)).toEqual(["aborted", "done"]);
    for (const patch of t.patchesIn(left)) expect(bricks.best(patch, 0)).toBeNull();
    expect(bricks.status).toMatchObject({ state: "settled", level: 0 });
  });

  it("drops samples of a decoder that is late", async () => {
    const t = await Harness.open();
    const bricks = t.bricks();
    let go: () => void = () => undefined;
    t.decoder.before = () => new Promise((resolve) => { go = resolve; });
    bricks.want([wantOf(boxOf([0, 0, 0], [8, 4, 4]), 0)]);
    await settle();
    bricks.want([wantOf(right, 0)]);
    t.decoder.before = () => undefined;
    await settle();
    go();
    await settle();

    expect(bricks.best(0, 0)).toBeNull();
  });

  it("leaves a question alone that still serves", async () => {
    const t = await Harness.open();
    const bricks = t.bricks();
    const release = t.hold();
    bricks.want([wantOf(t.whole, 0)]);
    await settle();
    bricks.want([wantOf(boxOf([0, 0, 0], [20, 12, 4]), 0, { focus: [3, 3, 3] })]);
    await settle();
    release();
    await settle();

    expect(t.server.reads.map((read) => read.state)).toEqual(["done"]);
  });

  it("ends a question once its levels are fine enough", async () => {
    const t = await Harness.open({ dims: [128, 128, 64], patch: [64, 64, 64], levels: 7 });
    const bricks = t.bricks();
    const release = t.hold();
    bricks.want([wantOf(t.whole, 0)]);
    await settle();
    const { first } = t.server.reads[0]!;
    bricks.want([wantOf(t.whole, first)]);
    // Stands after the first level, until the client has had time to see it.
    t.server.beforeMessage = (_read, message) => (message.levelEnd === undefined ? settle(20) : undefined);
    release();
    t.server.beforeMessage = (read) => (read.sent > 3 ? settle(50) : undefined);
    await settle(400);

    expect(t.server.reads.map((read) => read.state)).toEqual(["aborted"]);
    expect(bricks.status).toMatchObject({ state: "settled", level: first });
  });

  it("never makes a patch coarser while it is wanted", async () => {
    const t = await Harness.open({ dims: [64, 32, 32], patch: [8, 8, 8], levels: 4, budget: 600_000 });
    const bricks = t.bricks();
    const shown = new Map<number, number>();
    const coarser: string[] = [];
    bricks.subscribe(() => {
      for (const patch of t.patchesIn(boxOf([0, 0, 0], [32, 32, 32]))) {
        const level = bricks.best(patch, 0)?.level ?? 99;
        if (level > (shown.get(patch) ?? 99)) coarser.push(`patch ${patch}: ${level} after ${shown.get(patch)!}`);
        shown.set(patch, level);
      }
      expect(bricks.status.memory).toBeLessThanOrEqual(bricks.status.budget);
    });
    for (let x = 0; x < 8; ++x) {
      bricks.want([wantOf(boxOf([0, 0, 0], [32, 32, 32]), 0), wantOf(boxOf([8 * x, 0, 0], [8 * x + 1, 32, 32]), x % 3)]);
      await settle(20);
    }
    await settle();

    expect(coarser).toEqual([]);
    expect(bricks.status).toMatchObject({ state: "settled", level: 0 });
  });
});

describe("states", () => {
  it("follow from opening to settled", async () => {
    const t = await Harness.open({ dims: [128, 128, 64], patch: [64, 64, 64], levels: 7 });
    const bricks = t.bricks();
    const states: LoadState[] = [bricks.status.state];
    const note = (): void => { if (states.at(-1) !== bricks.status.state) states.push(bricks.status.state); };
    bricks.subscribe(note);
    bricks.want([wantOf(t.whole, 0)]);
    note();
    t.server.beforeMessage = () => settle(3);
    await settle(400);

    expect(states).toEqual(["idle", "opening", "coarse", "refining", "settled"]);
    bricks.want([]);
    expect(bricks.status.state).toBe("idle");
  });

  it("fail, keep the picture, ask again, and settle", async () => {
    const t = await Harness.open({ dims: [128, 128, 64], patch: [64, 64, 64], levels: 7 });
    const bricks = t.bricks();
    let broken = true;
    t.server.beforeMessage = (read, message) => {
      const fine = message.part.case === "patches" && message.part.value.level < read.first;
      if (broken && fine) throw new ConnectError("the disk is on fire", Code.Internal);
    };
    bricks.want([wantOf(t.whole, 0)]);
    await settle();

    expect(bricks.status).toMatchObject({ state: "failed", level: t.server.reads[0]!.first });
    expect(bricks.status.message).toContain("the disk is on fire");
    expect(bricks.best(0, 0)).not.toBeNull();
    const before = t.server.reads.length;
    broken = false;
    t.passTime();
    await settle();
    expect(t.server.reads.slice(before).map((read) => read.first)).toEqual([t.server.reads[0]!.first - 1]);
    expect(bricks.status).toMatchObject({ state: "settled", level: 0, message: null });
  });

  it("wait longer from one failure to the next", async () => {
    const t = await Harness.open();
    t.server.beforeCall = () => { throw new ConnectError("broken", Code.Internal); };
    t.bricks().want([wantOf(t.whole, 0)]);
    const waits: number[] = [];
    for (let i = 0; i < 4; ++i) {
      await settle(50);
      waits.push(...t.waits.map((wait) => wait.ms));
      t.passTime();
    }

    expect(waits.length).toBe(4);
    expect(waits[3]).toBeGreaterThan(2 * waits[0]!);
  });

  it("stay failed where waiting does not help, until something else is wanted", async () => {
    const t = await Harness.open();
    const bricks = t.bricks();
    t.server.beforeCall = () => { throw new ConnectError("the token does not cover this", Code.PermissionDenied); };
    bricks.want([wantOf(t.whole, 0)]);
    await settle();
    expect(bricks.status).toMatchObject({ state: "failed", message: "the token does not cover this" });
    const calls = t.server.calls.length;
    bricks.want([wantOf(t.whole, 0)]);
    await settle();
    expect([t.waits, t.server.calls.length]).toEqual([[], calls]);
    t.server.beforeCall = () => undefined;
    bricks.want([wantOf(t.whole, 1)]);
    await settle();

    expect(bricks.status.state).toBe("settled");
  });

  it("are stale after a newer step, and while the connection is lost", async () => {
    const t = await Harness.open({ steps: [0, 1] });
    const [old, newest] = [t.bricks(0), t.bricks(1)];
    for (const bricks of [old, newest]) bricks.want([wantOf(t.whole, 0)]);
    const stop = new AbortController();
    const watching = (async () => {
      for await (const step of t.source.watch("run42", 1, stop.signal)) expect(step.step).toBe(2);
    })();
    await settle();
    t.server.breakWatches(new ConnectError("gone", Code.Unavailable));
    await settle();
    expect([old.status.state, newest.status.state]).toEqual(["stale", "stale"]);
    t.passTime();
    await settle();
    t.server.publish(2);
    await settle();

    expect([old.status.state, newest.status.state]).toEqual(["settled", "stale"]);
    expect(newest.status.message).toBe("step 2 is newer");
    stop.abort();
    await watching;
  });

  it("are never stale of a field that does not change, whatever the source says of it", async () => {
    const t = await Harness.open({ steps: [0] });
    const attributes = [{ name: "valid_max", value: { kind: "numbers", type: "int64", isList: false, numbers: [2n ** 63n - 1n] } }] as const;
    t.opened = { ...t.opened, info: { ...t.opened.info, fields: t.opened.info.fields.map((field) => ({ ...field, still: true, attributes })) } };
    const bricks = t.bricks(0);
    bricks.want([wantOf(t.whole, 0)]);
    const stop = new AbortController();
    const watching = (async () => {
      for await (const step of t.source.watch("run42", 0, stop.signal)) expect(step.step).toBe(1);
    })();
    await settle();
    t.server.publish(1);
    await settle();

    expect(bricks.status).toMatchObject({ state: "settled", message: null });
    stop.abort();
    await watching;
  });
});
