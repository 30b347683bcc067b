import { afterEach, describe, expect, it, vi } from "vitest";
import type { BrickSource, LoadStatus, Opened } from "../../src/model";
import { accuracyLabel, accuracyOptions } from "../../src/ui/accuracy";
import { commandOf } from "../../src/ui/captions";
import { fieldOptions, storedName } from "../../src/ui/fields";
import { Scenes } from "../../src/ui/scenes";
import { initialState } from "../../src/ui/session";
import { kLadder } from "../fake/datasets";
import { fakeSource } from "../fake/source";

const fake = fakeSource([kLadder]);

/** A field on screen at step 10, at a level. */
function shown(opened: Opened, field: string, level: number): BrickSource {
  const source = fake.bricks(opened, { dataset: "ladder", field, step: 10 });
  const { info, grid, selection, step } = source;
  const status = { level: 3, target: level, damagedPatches: 0 } as LoadStatus;
  return { info, grid, selection, step, field: source.field, status, best: () => null } as unknown as BrickSource;
}

describe("layers of accuracy", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it("are one field in the list, and a choice of errors with their bytes at the level on screen", async () => {
    const opened = await fake.open("ladder");

    expect(fieldOptions(opened.info).map(({ value, text }) => [value, text])).toEqual([["temp", "temp [K]"], ["p", "p"]]);
    expect(["temp", "temp, layer 0", "p", "gone"].map((name) => storedName(opened.info, name))).toEqual(["temp", "temp", "p", "gone"]);
    for (const field of ["temp", "temp, layer 0"])
      expect(accuracyOptions(opened, field, shown(opened, field, 1))).toEqual([
        { value: "temp", text: "exact · 30.0 kB · full" },
        { value: "temp, layer 1", text: "±0.0125 K · 20.0 kB · layer 1" },
        { value: "temp, layer 0", text: "±0.5 K · 10.0 kB · layer 0" },
      ]);
    expect(accuracyOptions(opened, "temp", shown(opened, "temp", 0)).map(({ text }) => text.split(" · ")[1])).toEqual(["120 kB", "80.0 kB", "40.0 kB"]);
    expect(accuracyOptions(opened, "p", shown(opened, "p", 0))).toEqual([{ value: "p", text: "±0.001 · 40.0 kB · full" }]);
  });

  it("have no errors and bytes before there is something on screen", async () => {
    const opened = await fake.open("ladder");
    const gone = { ...shown(opened, "temp", 0), selection: { dataset: "ladder", field: "temp", step: 7 } };

    for (const source of [null, gone])
      expect(accuracyOptions(opened, "temp", source).map(({ text }) => text)).toEqual(["full", "layer 1", "layer 0"]);
    expect(accuracyOptions(opened, "gone", null)).toEqual([]);
  });

  it("have a label with the unit", async () => {
    const opened = await fake.open("ladder");

    expect(accuracyLabel("Accuracy", opened, "temp, layer 0", shown(opened, "temp", 2))).toBe("Accuracy: largest error in K at level 0, bytes down to level 2");
    expect(accuracyLabel("Accuracy", opened, "p", null)).toBe("Accuracy: largest error at level 0, bytes down to level 0");
  });

  it("are in the copied lines as they are on screen", async () => {
    vi.stubGlobal("location", { protocol: "http:", hostname: "h" });
    const opened = await fake.open("ladder");
    const line = (field: string, kind: "get" | "python"): string | null => {
      const a = shown(opened, field, 1);
      return commandOf({ state: initialState(opened), feeds: { a, b: null } }, kind, 5);
    };

    expect(line("temp, layer 0", "get")).toContain("--field temp --step 10 --box 0:32,0:32,0:32 --level 1 --layer 0 --output ladder-temp-10-a0-l1.npy");
    expect(line("temp", "get")).toContain(" --layer 2 ");
    expect(line("temp, layer 1", "python")).toContain('["temp"].read(step=10, box=((0, 32), (0, 32), (0, 32)), level=1, layer=1)');
    expect(line("p", "get")).not.toContain("--layer");
  });

  it("have the colours of their field beside each other", async () => {
    const opened = await fake.open("ladder");
    const state = { ...initialState(opened), colour: { map: "viridis", mode: "locked", low: 280, high: 290 } as const };
    const beside = (field: string): unknown =>
      new Scenes().scene({ a: shown(opened, "temp", 0), b: shown(opened, field, 0) }, "b", state);

    expect(beside("temp, layer 0")).toMatchObject({ low: 280, high: 290 });
    expect(beside("p")).toMatchObject({ low: 0, high: 32 });
  });
});
