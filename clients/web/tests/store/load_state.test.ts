import { describe, expect, it } from "vitest";
import type { LoadState } from "../../src/model";
import { kIdle, kTransitions, type LoadEvent, messageOf, type Phase, transition } from "../../src/store/load_state";

const kEvents = ["cleared", "missing", "level", "complete", "answered", "failed", "retrying", "outdated", "current",
                 "closed"] as const;

/** Written by hand from what the states mean: the row of a state has the next one for each event, in the order above. */
const kTable = `
  idle      idle  opening  refining  settled  idle      idle     idle      idle      idle      idle
  opening   idle  opening  refining  settled  coarse    failed   opening   opening   opening   idle
  coarse    idle  coarse   refining  settled  coarse    failed   coarse    coarse    coarse    idle
  refining  idle  coarse   refining  settled  refining  failed   refining  refining  refining  idle
  settled   idle  coarse   refining  settled  settled   settled  settled   stale     settled   idle
  stale     idle  coarse   refining  stale    stale     stale    stale     stale     settled   idle
  failed    idle  failed   failed    settled  failed    failed   opening   failed    failed    idle
`.trim().split("\n").map((row) => row.trim().split(/\s+/) as LoadState[]);

function eventOf(kind: LoadEvent["kind"]): LoadEvent {
  return kind === "failed" || kind === "outdated" ? { kind, message: `${kind} for a reason` } : { kind };
}

function phaseOf(state: LoadState): Phase {
  return { state, failure: state === "failed" ? "broken" : null, outdated: state === "stale" ? "step 2 is newer" : null };
}

describe("the machine of loading", () => {
  for (const [state, ...next] of kTable) {
    it(`goes from ${state!} where it should`, () => {
      expect(kEvents.map((kind) => transition(phaseOf(state!), eventOf(kind)).state)).toEqual(next);
    });
  }

  it("has no other states and events", () => {
    expect(Object.keys(kTransitions).sort()).toEqual(kTable.map(([state]) => state!).sort());
    for (const row of Object.values(kTransitions)) expect(Object.keys(row).sort()).toEqual([...kEvents].sort());
  });

  it("settles as stale while the picture is not the newest", () => {
    const kinds: LoadEvent["kind"][] = ["missing", "outdated", "answered", "level", "complete"];
    const phase = kinds.reduce((before, kind) => transition(before, eventOf(kind)), kIdle);

    expect(phase.state).toBe("stale");
    expect(messageOf(phase)).toBe("outdated for a reason");
    expect(transition(phase, { kind: "current" })).toEqual({ state: "settled", failure: null, outdated: null });
  });

  it("has the message of a failure only while it has failed", () => {
    const failed = transition(transition(kIdle, { kind: "missing" }), eventOf("failed"));
    expect(messageOf(failed)).toBe("failed for a reason");

    expect(messageOf(transition(failed, { kind: "retrying" }))).toBeNull();
  });
});
