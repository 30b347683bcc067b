import { describe, expect, it } from "vitest";
import type { Selection } from "../../src/model";
import { Ahead } from "../../src/ui/ahead";
import { settle } from "../net/fake_server";
import { Harness, type Options, wantOf } from "../store/harness";

const of = (step: number): Selection => ({ dataset: "run42", field: "speed", step });

/** Step 1 of 0, 1 and 2 is on screen. */
async function onScreen(options: Options = {}): Promise<{ readonly t: Harness; readonly ahead: Ahead; readonly steps: () => number[] }> {
  const t = await Harness.open({ dims: [32, 32, 32], patch: [16, 16, 16], steps: [0, 1, 2], ...options });
  t.bricks(1).want([wantOf(t.whole, 0)]);
  await settle();
  return { t, ahead: new Ahead(), steps: () => t.server.reads.map((read) => read.step) };
}

describe("while steps are played", () => {
  it("the next step comes first, and the one before it once that is complete", async () => {
    const { t, ahead, steps } = await onScreen();
    const release = t.hold((read) => read.step === 2);
    ahead.ask(t.source, t.opened, of(2), of(0), [wantOf(t.whole, 0)]);
    await settle();
    expect(steps()).toEqual([1, 2]);
    release();
    await settle();

    expect(steps()).toEqual([1, 2, 0]);
    for (const patch of t.patchesIn(t.whole)) t.check(t.bricks(0).best(patch, 0), patch, 0, 0);
  });

  it("the step before is not asked for again while it is in memory", async () => {
    const { t, ahead, steps } = await onScreen();
    const before = t.bricks(0);
    before.want([wantOf(t.whole, 0)]);
    await settle();
    before.close();
    ahead.ask(t.source, t.opened, of(2), of(0), [wantOf(t.whole, 0)]);
    await settle();

    expect(steps()).toEqual([1, 0, 2]);
  });

  it("the step before has no memory that the next one needs", async () => {
    // A step is 128 KiB, asked for without coarser levels: two of them, and a part of a third.
    const { t, ahead } = await onScreen({ budget: 370_000 });
    const before = t.bricks(0);
    before.want([wantOf(t.whole, 0)]);
    await settle();
    before.close();
    const already = t.server.reads.length;
    ahead.ask(t.source, t.opened, of(2), of(0), [wantOf(t.whole, 0)]);
    await settle();

    const next = t.bricks(2);
    for (const patch of t.patchesIn(t.whole)) t.check(next.best(patch, 0), patch, 0, 2);
    // The step before gets only the patch at the focus: it finds room.
    const asked = t.server.reads.slice(already).filter((read) => read.step === 0);
    expect(asked.map((read) => [read.begin, read.end])).toEqual([[[0, 0, 0], [16, 16, 16]]]);
    t.check(t.bricks(0).best(0, 0), 0, 0, 0);
    expect(next.status.memory).toBeLessThanOrEqual(370_000);
  });

  it("nothing is asked for any more after the end", async () => {
    const { t, ahead, steps } = await onScreen();
    const release = t.hold((read) => read.step === 2);
    ahead.ask(t.source, t.opened, of(2), of(0), [wantOf(t.whole, 0)]);
    await settle();
    ahead.close();
    release();
    await settle();

    expect(steps()).toEqual([1, 2]);
  });
});
