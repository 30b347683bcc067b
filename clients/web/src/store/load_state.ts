/** State of loading, as a pure state machine: (phase, event) -> phase. All transitions are in one table. */
import type { LoadState } from "../model";

/**
 * | state    | means                                                                                  |
 * |----------|----------------------------------------------------------------------------------------|
 * | idle     | nothing is wanted                                                                      |
 * | opening  | asked, and no answer yet                                                               |
 * | coarse   | samples arrive, and no level is complete                                               |
 * | refining | a level is complete, and finer ones are on their way                                   |
 * | settled  | all that is wanted is there                                                            |
 * | stale    | the same, but a newer step exists, or the connection is lost                           |
 * | failed   | a question failed: the picture stays, and it is asked again                            |
 */
export type LoadEvent =
  /** Nothing is wanted any more. */
  | { readonly kind: "cleared" }
  /** No level is complete for all wants. */
  | { readonly kind: "missing" }
  /** A level of all that is wanted is complete, and finer ones are not. */
  | { readonly kind: "level" }
  /** All that is wanted is there. */
  | { readonly kind: "complete" }
  /** The header of an answer has come. */
  | { readonly kind: "answered" }
  | { readonly kind: "failed"; readonly message: string }
  /** It is asked again. */
  | { readonly kind: "retrying" }
  /** A newer step exists, or the connection is lost. */
  | { readonly kind: "outdated"; readonly message: string }
  /** That is over. */
  | { readonly kind: "current" }
  | { readonly kind: "closed" };

export interface Phase {
  readonly state: LoadState;
  readonly failure: string | null;
  /** Why the picture is not the newest; kept while other things happen. */
  readonly outdated: string | null;
}

export const kIdle: Phase = { state: "idle", failure: null, outdated: null };

type Row = Readonly<Record<LoadEvent["kind"], LoadState>>;

/** "settled" stands for "stale" too, while the phase is outdated. */
export const kTransitions: Readonly<Record<LoadState, Row>> = {
  idle: { cleared: "idle", missing: "opening", level: "refining", complete: "settled", answered: "idle",
          failed: "idle", retrying: "idle", outdated: "idle", current: "idle", closed: "idle" },
  opening: { cleared: "idle", missing: "opening", level: "refining", complete: "settled", answered: "coarse",
             failed: "failed", retrying: "opening", outdated: "opening", current: "opening", closed: "idle" },
  coarse: { cleared: "idle", missing: "coarse", level: "refining", complete: "settled", answered: "coarse",
            failed: "failed", retrying: "coarse", outdated: "coarse", current: "coarse", closed: "idle" },
  refining: { cleared: "idle", missing: "coarse", level: "refining", complete: "settled", answered: "refining",
              failed: "failed", retrying: "refining", outdated: "refining", current: "refining", closed: "idle" },
  settled: { cleared: "idle", missing: "coarse", level: "refining", complete: "settled", answered: "settled",
             failed: "settled", retrying: "settled", outdated: "stale", current: "settled", closed: "idle" },
  stale: { cleared: "idle", missing: "coarse", level: "refining", complete: "settled", answered: "stale",
           failed: "stale", retrying: "stale", outdated: "stale", current: "settled", closed: "idle" },
  failed: { cleared: "idle", missing: "failed", level: "failed", complete: "settled", answered: "failed",
            failed: "failed", retrying: "opening", outdated: "failed", current: "failed", closed: "idle" },
};

function outdatedAfter(phase: Phase, event: LoadEvent): string | null {
  if (event.kind === "outdated") return event.message;
  return event.kind === "current" || event.kind === "closed" ? null : phase.outdated;
}

export function transition(phase: Phase, event: LoadEvent): Phase {
  const outdated = outdatedAfter(phase, event);
  const next = kTransitions[phase.state][event.kind];
  const state = next === "settled" && outdated !== null ? "stale" : next;
  const text = event.kind === "failed" ? event.message : phase.failure;
  return { state, outdated, failure: state === "failed" ? text : null };
}

export function messageOf(phase: Phase): string | null {
  return phase.failure ?? (phase.state === "stale" ? phase.outdated : null);
}
