import { afterEach, describe, expect, it, vi } from "vitest";
import { kOcean } from "../fake/datasets";
import { fakeInfo, fakeSource } from "../fake/source";
import type { FakeGrid } from "../fake/source";
import type { Box, DatasetInfo, Opened, Source, ViewState } from "../../src/model";
import { Data } from "../../src/ui/data";
import { whyNotBeside, withField } from "../../src/ui/otherfield";
import { defaultCamera, initialState } from "../../src/ui/session";

const kInfo = fakeInfo(kOcean);
const kState: ViewState = { ...initialState({ info: kInfo, steps: [] }), cursor: [10, 20, 5] };

/** Cells, and a field on another grid. */
function withGrid(grid: Partial<FakeGrid>): DatasetInfo {
  const other = { dims: [16, 16, 16], patch: [16, 16, 16], levels: 2, ...grid } as const;
  const fields = [kOcean.fields[0]!, { ...kOcean.fields[0]!, name: "other", grid: 1 }];
  return fakeInfo({ ...kOcean, moreGrids: [other], fields });
}

describe("a field of another grid", () => {
  it("is seen at the same place", () => {
    expect(withField(kInfo, kState, "ssh").cursor).toEqual([10, 20, 0]);
    expect(withField(kInfo, kState, "ice").cursor).toEqual([5, 11, 5]);
    expect(withField(kInfo, withField(kInfo, kState, "ice"), "temp").cursor).toEqual([10, 20, 5]);
  });

  it("is seen in the middle of axes that the one before did not have", () => {
    expect(withField(kInfo, withField(kInfo, kState, "ssh"), "temp")).toMatchObject({ field: "temp", cursor: [10, 20, 8] });
  });

  it("does not let the cursor wander between staggered grids", () => {
    // Sample 11 of one lies between 11 and 12 of the other, and sample 12 of that between 11 and 12.
    let state: ViewState = { ...kState, cursor: [11, 0, 0] };
    const places: number[] = [];
    for (const field of ["u", "temp", "u", "temp", "u", "temp"]) {
      state = withField(kInfo, state, field);
      places.push(state.cursor[0]);
    }
    expect(places).toEqual([12, 12, 12, 12, 12, 12]);
  });

  it("has the box of the same place, with all of the axes that were whole", () => {
    const clip: Box = { begin: [10, 4, 4], end: [20, 12, 8] };
    const boxOn = (field: string): Box | null => withField(kInfo, { ...kState, clip }, field).clip;

    expect(boxOn("ssh")).toEqual({ begin: [10, 4, 0], end: [20, 12, 1] });
    expect(boxOn("u")).toEqual({ begin: [10, 4, 4], end: [20, 12, 8] });
    expect(boxOn("ice")).toEqual({ begin: [5, 20, 4], end: [10, 28, 8] });
    expect(withField(kInfo, { ...kState, clip: { begin: [0, 0, 4], end: [64, 32, 8] } }, "u").clip).toEqual(
      { begin: [0, 0, 4], end: [65, 32, 8] });
    expect(withField(kInfo, { ...kState, clip: { begin: [0, 0, 4], end: [64, 32, 8] } }, "ssh").clip).toBeNull();
  });

  it("never has a place outside of its grid", () => {
    // Samples 40 to 55 along x: the box along x and the line have nothing there.
    const nested = withGrid({ origin: [40, 0, 0] });
    const state: ViewState = { ...kState, clip: { begin: [0, 8, 0], end: [10, 24, 16] }, level: 4, profile: [[0, 3, 3], [63, 3, 3]] };

    expect(withField(nested, state, "other")).toMatchObject(
      { cursor: [0, 15, 5], clip: { begin: [0, 8, 0], end: [16, 16, 16] }, level: 1, profile: null });
  });

  it("of other units is seen as a whole, and in its middle", () => {
    const globe = withGrid({ axisUnits: ["degrees", "m", "m"] });
    const state: ViewState = { ...kState, clip: { begin: [0, 8, 0], end: [10, 12, 16] } };

    expect(withField(globe, state, "other")).toMatchObject({ cursor: [8, 15, 5], clip: { begin: [0, 8, 0], end: [16, 12, 16] } });
  });

  it("has a place even where positions are no numbers any more", () => {
    const endless = withGrid({ origin: [1e308, 0, 0], spacing: [1e308, 1, 1] });
    const state: ViewState = { ...kState, field: "other", cursor: [10, 10, 10] };

    expect(withField(endless, state, "temp").cursor).toEqual([32, 10, 10]);
  });

  it("has the line where it is on the grid as well", () => {
    const lineOn = (field: string, profile: NonNullable<ViewState["profile"]>): ViewState["profile"] =>
      withField(kInfo, { ...kState, profile }, field).profile;

    expect(lineOn("u", [[0, 5, 5], [63, 5, 5]])).toEqual([[0.5, 5, 5], [63.5, 5, 5]]);
    expect(lineOn("ssh", [[0, 5, 5], [63, 5, 5]])).toEqual([[0, 5, 0], [63, 5, 0]]);
    expect(lineOn("ssh", [[3, 3, 0], [3, 3, 15]])).toBeNull();
    // The sides of the grid are half a sample beyond its centres.
    expect(withField(kInfo, { ...kState, field: "u", profile: [[0, 5, 5], [64, 5, 5]] }, "temp").profile).toEqual(
      [[0, 5, 5], [63, 5, 5]]);
  });

  it("is seen as a whole by a camera that saw the one before so, and by others as before", () => {
    const [temp, ssh] = [kInfo.grids[0]!, kInfo.grids[2]!];
    const turned = { ...defaultCamera(temp), azimuth: 17 };

    expect(withField(kInfo, { ...kState, camera: turned }, "ssh").camera).toEqual({ ...defaultCamera(ssh), azimuth: 17 });
    expect(withField(kInfo, { ...kState, camera: { ...turned, distance: 0.5 } }, "ssh").camera.distance).toBe(0.5);
  });

  it("leaves all as it is on the same grid, and where there is none", () => {
    const state: ViewState = { ...kState, clip: { begin: [0, 8, 0], end: [10, 24, 16] }, level: 4 };
    const info = fakeInfo({ ...kOcean, fields: [kOcean.fields[0]!, { ...kOcean.fields[0]!, name: "salt" }] });

    expect(withField(info, state, "salt")).toEqual({ ...state, field: "salt" });
    expect(withField(info, state, "nothing")).toBe(state);
  });
});

describe("what is asked for", () => {
  const source = fakeSource([kOcean, { ...kOcean, name: "sea" }]);
  const boxes: Box[] = [];
  const counting: Source = {
    ...source,
    statistics: (selection, box, ...more) => {
      boxes.push(box);
      return source.statistics(selection, box, ...more);
    },
  };
  afterEach(() => {
    boxes.length = 0;
    vi.unstubAllGlobals();
  });

  interface Page {
    readonly data: Data;
    readonly opened: Opened;
    readonly state: ViewState;
    /** Once another dataset is open. */
    readonly next: () => Promise<void>;
  }

  async function open(): Promise<Page> {
    const nothing = (): void => undefined;
    let tell = nothing;
    const next = (): Promise<void> => new Promise((resolve) => { tell = resolve; });
    const data = new Data(counting, { opened: () => { tell(); }, failed: nothing, arrived: nothing, status: nothing, swapped: nothing });
    const first = next();
    data.open("ocean");
    await first;
    const opened = data.dataset.opened!;
    return { data, opened, state: initialState(opened), next };
  }

  it("is the field that is chosen, without a picture of the other grid until it is there", async () => {
    const { data, opened, state } = await open();
    data.select(state, opened);
    const first = data.feeds.a;
    data.select(withField(opened.info, state, "ssh"), opened);

    expect(first?.field.name).toBe("temp");
    expect([data.feeds.a?.field.name, data.feeds.a?.grid.dims]).toEqual(["ssh", [64, 32, 1]]);
    expect(data.latest).toBe(data.feeds.a);
  });

  it("is nothing of a field without a step: what is on screen would be of the grid before", async () => {
    const { data, opened, state } = await open();
    data.select(state, opened);
    const without = { ...opened, steps: opened.steps.map((step) => ({ ...step, fields: new Map([...step.fields].slice(0, 1)) })) };
    data.select(withField(opened.info, state, "ssh"), without);

    expect(data.feeds.a).toBeNull();
  });

  it("are statistics of the part of the box that the grid on screen has", async () => {
    vi.stubGlobal("window", { setTimeout: (call: () => void) => (call(), 0), clearTimeout: () => undefined });
    const { data, opened, state } = await open();
    const surface = withField(opened.info, state, "ssh");
    data.select(surface, opened);
    data.askStatistics({ ...surface, clip: { begin: [8, 0, 4], end: [100, 32, 16] } });

    expect(boxes).toEqual([{ begin: [8, 0, 0], end: [64, 32, 1] }]);
  });

  it.each([false, true])("is nothing for a comparison with a field of another grid, difference %s", async (difference) => {
    const { data, opened, state } = await open();
    const compare = { dataset: "ocean", field: "ssh", step: 0, difference, level: null };
    const both = { ...state, compare };
    data.select(both, opened);

    expect(data.compareProblem(both)).toBe(
      '"temp" and "ssh" are on different grids, of 64 x 32 x 16 and 64 x 32 x 1 samples; only fields of one grid are compared');
    expect([data.feeds.b, data.showable(both).compare]).toEqual([null, null]);
    // The field that is chosen decides, whichever came first.
    const surface = withField(opened.info, both, "ssh");
    data.select(surface, opened);
    expect([data.compareProblem(surface), data.feeds.b?.field.name, data.showable(surface)]).toEqual([null, "ssh", surface]);
    data.select(both, opened);
    expect(data.feeds.b).toBeNull();
  });

  it("is a field of another dataset, as before", async () => {
    const { data, opened, state, next } = await open();
    const both = { ...state, compare: { dataset: "sea", field: "ssh", step: 0, difference: true, level: null } };
    const other = next();
    data.select(both, opened);
    await other;
    data.select(both, opened);

    expect(data.feeds.b?.info.name).toBe("sea");
    expect(data.compareProblem(both)).toContain("64 x 32 x 16 and 64 x 32 x 1");
  });

  it("is compared on one grid only", () => {
    expect(whyNotBeside(kInfo, "temp", "temp")).toBeNull();
    expect(whyNotBeside(kInfo, "temp", "u")).toContain("64 x 32 x 16 and 65 x 32 x 16");
  });
});
