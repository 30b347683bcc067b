import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { kShelf } from "../fake/datasets";
import { fakeInfo, fakeSource } from "../fake/source";
import type { BrickSource, Opened, Source, Vec3 } from "../../src/model";
import { CoordinateFeed, coordinatesOf } from "../../src/ui/coordinates";
import { settle } from "../net/fake_server";

const kInfo = fakeInfo(kShelf);
const namesOf = (info: typeof kInfo, field: string): readonly string[] =>
  coordinatesOf(info, info.fields.find((each) => each.name === field)!).map(({ name }) => name);

describe("coordinates of a field", () => {
  it("lie along axes that it has as well", () => {
    expect(namesOf(kInfo, "temp")).toEqual(["lat", "lon"]);
    expect(namesOf(kInfo, "bathymetry")).toEqual(["lat", "lon"]);
    // Axes of other names are others, and a coordinate has none itself.
    expect(namesOf(kInfo, "u")).toEqual([]);
    expect(namesOf(kInfo, "lat")).toEqual([]);
  });

  it("are not those of other shapes, without a name, or of a single value", () => {
    const first = kShelf.moreGrids![0]!;
    const withGrid = (more: Partial<typeof first>): readonly string[] =>
      namesOf(fakeInfo({ ...kShelf, moreGrids: [{ ...first, ...more }, kShelf.moreGrids![1]!] }), "temp");

    expect(withGrid({})).toEqual(["lat", "lon"]);
    expect(withGrid({ dims: [32, 23, 1] })).toEqual([]);
    // Axes without a name are told apart by their grid.
    const nameless = { axisNames: ["i", "", ""] } as const;
    expect(namesOf(fakeInfo({ ...kShelf, ...nameless, moreGrids: [{ ...first, ...nameless }, kShelf.moreGrids![1]!] }), "temp")).toEqual([]);
    expect(withGrid({ dims: [1, 1, 1] })).toEqual([]);
    // One profile for all: the axes that it lacks do not matter.
    expect(withGrid({ dims: [1, 1, 12], axisNames: ["", "", "depth"] })).toEqual(["lat", "lon"]);
  });

  it("are no more than a line has room for", () => {
    const many = Array.from({ length: 50 }, (_, i) => ({ ...kShelf.fields.find(({ name }) => name === "lat")!, name: `lat${i}` }));
    expect(namesOf(fakeInfo({ ...kShelf, fields: [...kShelf.fields, ...many] }), "temp").length).toBe(4);
  });
});

describe("the place of a sample", () => {
  const fake = fakeSource([kShelf]);
  const asked: [string, number, readonly number[]][] = [];
  let fails = false;
  const source: Source = {
    ...fake,
    points: (selection, coordinates, signal) => {
      asked.push([selection.field, selection.step, coordinates]);
      return fails ? Promise.reject(new Error("the server is gone")) : fake.points(selection, coordinates, signal);
    },
  };
  let due: () => void = () => undefined;
  /** The pointer rests for long enough. */
  const rest = (): void => {
    const call = due;
    due = () => undefined;
    call();
  };
  let changes = 0;
  let feed: CoordinateFeed;
  beforeEach(() => {
    [asked.length, changes, fails] = [0, 0, false];
    due = () => undefined;
    vi.stubGlobal("window", { setTimeout: (call: () => void) => ((due = call), 1), clearTimeout: () => ((due = () => undefined), undefined) });
    feed = new CoordinateFeed(() => { ++changes; });
  });
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  async function shown(field: string): Promise<{ readonly opened: Opened; readonly at: (index: Vec3) => string; readonly bricks: BrickSource }> {
    const opened = await source.open("shelf");
    const bricks = source.bricks(opened, { dataset: "shelf", field, step: 10 });
    return { opened, bricks, at: (index) => feed.at(source, opened, bricks, index) };
  }

  it("is asked for once the pointer rests, at the sample and the step that has it", async () => {
    const { at } = await shown("temp");
    expect([at([3, 5, 2]), at([4.4, 5.2, 2])]).toEqual(["", ""]);
    expect(asked).toEqual([]);
    rest();
    await settle();

    expect(asked).toEqual([["lat", 0, [4, 5, 0]], ["lon", 0, [4, 5, 0]]]);
    expect(changes).toBe(1);
    expect(at([4.4, 5.2, 7])).toBe("lat 52.54 degrees_north   lon 4.35 degrees_east");
    rest();
    await settle();
    expect(asked.length).toBe(2);
    expect(at([5, 5, 2])).toBe("");
  });

  it("is nothing outside of the grid, and where there are no coordinates", async () => {
    const temp = await shown("temp");
    expect(temp.at([-1, 5, 2])).toBe("");
    rest();
    expect((await shown("u")).at([3, 5, 2])).toBe("");
    rest();
    await settle();

    expect(asked).toEqual([]);
  });

  it("that comes late is not taken for another one", async () => {
    const { at } = await shown("temp");
    at([3, 5, 2]);
    rest();
    at([6, 6, 6]);
    await settle();

    expect(at([6, 6, 6])).toBe("");
    expect(changes).toBe(0);
  });

  it("that does not come says why", async () => {
    fails = true;
    const { at } = await shown("temp");
    at([3, 5, 2]);
    rest();
    await settle();

    expect(at([3, 5, 2])).toBe("lat, lon: the server is gone");
  });
});
