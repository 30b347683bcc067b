import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Resting } from "../../src/ui/resting";
import { settle } from "../net/fake_server";

describe("a question that rests", () => {
  let due: () => void = () => undefined;
  beforeEach(() => {
    vi.stubGlobal("window", { setTimeout: (call: () => void) => ((due = call), 1), clearTimeout: () => { due = () => undefined; } });
  });
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it("is asked once, and answered until it changes", async () => {
    const asked: string[] = [];
    let changes = 0;
    const resting = new Resting<number>(() => { ++changes; });
    const at = (key: string): number | null => resting.at(key, () => Promise.resolve(asked.push(key)));
    expect([at("a"), at("b"), at("b")]).toEqual([null, null, null]);
    expect(asked).toEqual([]);
    due();
    await settle();

    expect([asked, changes, at("b")]).toEqual([["b"], 1, 1]);
    expect([at(""), at("b")]).toEqual([null, null]);
  });

  it("has no answer where it fails, and none of another question", async () => {
    const resting = new Resting<number>(() => undefined);
    resting.at("a", () => Promise.reject(new Error("gone")));
    due();
    await settle();
    expect(resting.at("a", () => Promise.resolve(1))).toBeNull();

    const signals: AbortSignal[] = [];
    resting.at("b", (signal) => (signals.push(signal), new Promise(() => undefined)));
    due();
    resting.at("c", () => Promise.resolve(2));
    expect(signals[0]!.aborted).toBe(true);
  });
});
