import { describe, expect, it } from "vitest";
import { defaultBudget } from "../../src/store/memory";
import type { Brick } from "../../src/model";
import { type Entry, type Holder, Memory, type Rank } from "../../src/store/memory";
import { settle } from "../net/fake_server";
import { boxOf, Harness, wantOf } from "./harness";

function entryOf(patch: number, level: number, bytes: number, damaged = false): Entry {
  const brick: Brick = { patch, level, box: boxOf([0, 0, 0], [1, 1, 1]), damaged, samples: new Float32Array(1), validity: null };
  return { brick, bytes, payload: 0, maxError: 0, coverage: 1, used: 0 };
}

function holder(rank: (patch: number, level: number) => Rank): Holder {
  return { rank, changed: () => undefined };
}

const kSelection = { dataset: "d", field: "f", step: 0 };

describe("memory", () => {
  it("drops fine levels before coarse ones, then those not looked at for long", () => {
    const memory = new Memory(1000);
    const held = memory.holdings(kSelection, "");
    for (const [patch, level] of [[0, 0], [0, 2], [1, 0], [2, 0]] as const) memory.add(held, entryOf(patch, level, 250));
    memory.touch(held.get(0, 0)!);
    memory.add(held, entryOf(3, 1, 250));
    expect([0, 1, 2].map((patch) => held.get(patch, 0) !== null)).toEqual([true, false, false]);
    memory.add(held, entryOf(4, 1, 400));

    expect(held.get(0, 0)).toBeNull();
    expect(held.get(0, 2)).not.toBeNull();
    expect(memory.used).toBeLessThanOrEqual(1000);
  });

  it("never drops what is visible, and refuses what does not fit beside it", () => {
    const memory = new Memory(1000);
    const held = memory.holdings(kSelection, "");
    held.holders.add(holder(() => "visible"));
    expect(memory.add(held, entryOf(0, 0, 600))).toBe(true);
    expect(memory.add(held, entryOf(1, 0, 600))).toBe(false);

    expect([held.get(0, 0) !== null, held.get(1, 0), memory.used]).toEqual([true, null, 600]);
  });

  it("gives the room of what was prefetched to what is visible, not the other way round", () => {
    const memory = new Memory(1000);
    const held = memory.holdings(kSelection, "");
    held.holders.add(holder((patch) => (patch < 2 ? "prefetch" : "visible")));
    memory.add(held, entryOf(0, 0, 900));
    expect(memory.add(held, entryOf(1, 0, 900))).toBe(false);
    expect(memory.add(held, entryOf(2, 0, 900))).toBe(true);
    expect(memory.add(held, entryOf(0, 0, 900))).toBe(false);

    expect(memory.used).toBe(900);
  });

  it("takes an undamaged brick for a damaged one, never the other way round", () => {
    const memory = new Memory(1000);
    const held = memory.holdings(kSelection, "");
    memory.add(held, entryOf(0, 0, 100, true));
    memory.add(held, entryOf(0, 0, 100));
    memory.add(held, entryOf(0, 0, 100, true));

    expect([held.get(0, 0)!.brick.damaged, memory.used]).toEqual([false, 100]);
  });

  it("forgets bricks of other data under the same name", () => {
    const memory = new Memory(1000);
    memory.add(memory.holdings(kSelection, "one"), entryOf(0, 0, 100));
    expect(memory.holdings(kSelection, "one").get(0, 0)).not.toBeNull();
    expect(memory.holdings(kSelection, "two").get(0, 0)).toBeNull();

    expect(memory.used).toBe(0);
  });

  it("remembers no step whose bricks are gone", () => {
    const memory = new Memory(1000);
    for (let step = 0; step < 100; ++step) memory.add(memory.holdings({ ...kSelection, step }, ""), entryOf(0, 0, 400));

    expect(memory.size).toBe(2);
  });

  it("has a quarter of the machine's memory, 512 MiB at the most", () => {
    expect([defaultBudget(0.5), defaultBudget(1), defaultBudget(8), defaultBudget(undefined)].map((bytes) => bytes / 2 ** 20))
      .toEqual([128, 256, 512, 512]);
  });
});

describe("the budget", () => {
  it("holds through many fields of view, and is what the page shows", async () => {
    const t = await Harness.open({ dims: [64, 64, 64], patch: [16, 16, 16], levels: 5, steps: [0, 1, 2], budget: 700_000 });
    let most = 0;
    for (let i = 0; i < 12; ++i) {
      const bricks = t.bricks(i % 3);
      bricks.subscribe(() => { most = Math.max(most, bricks.status.memory); });
      bricks.want([wantOf(boxOf([0, 0, (5 * i) % 64], [64, 64, (5 * i) % 64 + 1]), 0)]);
      await settle(60);
      expect(bricks.status).toMatchObject({ state: "settled", level: 0, budget: 700_000 });
      bricks.close();
    }

    expect(most).toBeLessThanOrEqual(700_000);
    expect(most).toBeGreaterThan(350_000);
  });

  it("decides the level where the wanted one does not fit, and says so", async () => {
    // Level 0 is 1 MiB, level 1 an eighth of it.
    const t = await Harness.open({ dims: [64, 64, 64], patch: [16, 16, 16], levels: 5, budget: 400_000 });
    const bricks = t.bricks();
    bricks.want([wantOf(t.whole, 0)]);
    await settle();

    expect(bricks.status).toMatchObject({ state: "settled", level: 1, target: 1 });
    expect(bricks.status.message).toContain("does not fit into the memory");
    expect(t.server.reads.every((read) => read.level >= 1)).toBe(true);
  });

  it("is shared by two fields on screen", async () => {
    const t = await Harness.open({ dims: [64, 64, 64], patch: [16, 16, 16], levels: 5, steps: [0, 1], budget: 1_500_000 });
    const [one, two] = [t.bricks(0), t.bricks(1)];
    one.want([wantOf(t.whole, 0)]);
    await settle();
    expect(one.status).toMatchObject({ state: "settled", level: 0 });
    two.want([wantOf(t.whole, 0)]);
    await settle();

    expect([one.status.target, two.status.target]).toEqual([1, 1]);
    expect([one.status.state, two.status.state]).toEqual(["settled", "settled"]);
    expect(two.status.memory).toBeLessThanOrEqual(1_500_000);
    two.close();
    await settle();
    expect(one.status).toMatchObject({ state: "settled", level: 0, target: 0, message: null });
  });

  it("is shared by two levels of one field: each side has its own, and the coarse one never the finer bricks", async () => {
    const t = await Harness.open();
    const [fine, coarse] = [t.bricks(), t.bricks()];
    fine.want([wantOf(t.whole, 0)]);
    await settle();
    coarse.want([wantOf(t.whole, 2)]);
    await settle();

    expect([fine.status.level, coarse.status.level, coarse.status.target]).toEqual([0, 2, 2]);
    for (const patch of t.patchesIn(t.whole)) {
      t.check(fine.best(patch, 0), patch, 0);
      t.check(coarse.best(patch, 2), patch, 2);
    }
  });

  it("keeps what was looked at, for as long as there is room", async () => {
    const t = await Harness.open({ steps: [0, 1] });
    for (const step of [0, 1, 0, 1]) {
      const bricks = t.bricks(step);
      bricks.want([wantOf(t.whole, 0)]);
      await settle();
      expect(bricks.status.state).toBe("settled");
      t.check(bricks.best(7, 0), 7, 0, step);
      bricks.close();
    }

    expect(t.server.reads.map((read) => read.step)).toEqual([0, 1]);
  });
});

describe("prefetching", () => {
  it("waits until all that is visible is there", async () => {
    const t = await Harness.open({ steps: [0, 1] });
    const [now, next] = [t.bricks(0), t.bricks(1)];
    const release = t.hold((read) => read.step === 0);
    next.want([wantOf(t.whole, 0, { tier: "prefetch" })]);
    now.want([wantOf(t.whole, 0)]);
    await settle();
    expect(t.server.reads.map((read) => read.step)).toEqual([0]);
    release();
    await settle();

    expect(t.server.reads.map((read) => [read.step, read.state])).toEqual([[0, "done"], [1, "done"]]);
    expect(next.status.state).toBe("idle");
    next.want([wantOf(t.whole, 0)]);
    expect(next.status).toMatchObject({ state: "settled", level: 0 });
  });

  it("asks nothing of patches that are visible in a finer level", async () => {
    // Level 2 of the whole grid would be another question, were it not for level 0 of the left part.
    const t = await Harness.open();
    const bricks = t.bricks();
    bricks.want([wantOf(boxOf([0, 0, 0], [16, 12, 9]), 0), wantOf(t.whole, 2, { tier: "prefetch" })]);
    await settle();

    expect(t.server.reads.map((read) => [read.begin, read.end, read.level])).toEqual([
      [[0, 0, 0], [16, 12, 9], 0], [[16, 0, 0], [20, 12, 9], 2],
    ]);
  });

  it("is aborted by a visible want, and comes back", async () => {
    const t = await Harness.open({ steps: [0, 1] });
    const [now, next] = [t.bricks(0), t.bricks(1)];
    const release = t.hold((read) => read.step === 1);
    next.want([wantOf(t.whole, 0, { tier: "prefetch" })]);
    await settle();
    now.want([wantOf(t.whole, 0)]);
    await settle();
    expect(t.server.reads.map((read) => [read.step, read.state])).toEqual([[1, "aborted"], [0, "done"], [1, "open"]]);
    release();
    await settle();

    expect(t.server.reads.at(-1)!.state).toBe("done");
  });

  it("that becomes visible goes on", async () => {
    const t = await Harness.open({ steps: [0, 1] });
    const next = t.bricks(1);
    const release = t.hold();
    next.want([wantOf(t.whole, 0, { tier: "prefetch" })]);
    await settle();
    next.want([wantOf(t.whole, 0)]);
    await settle();
    release();
    await settle();

    expect(t.server.reads.map((read) => read.state)).toEqual(["done"]);
    expect(next.status.state).toBe("settled");
  });
});
