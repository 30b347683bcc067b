import { describe, expect, it } from "vitest";
import type { DatasetInfo, StepInfo, ViewState } from "../../src/model";
import { completeLink, formatLink, parseLink } from "../../src/state/index";

const kState: ViewState = {
  dataset: "runs/wake 42", field: "speed", step: 17, cursor: [10, 20.5, 30], clip: { begin: [0, 1, 2], end: [10, 20, 30] },
  pane: "z",
  camera: { azimuth: 300, elevation: -24.5, distance: 1.75 }, colour: { map: "viridis", mode: "locked", low: -1e-7, high: 3e22 },
  volume: { threshold: 0.25, opacity: 0.6, mode: "surface" }, level: 2,
  profile: [[1, 2, 3], [4.5, 6, 7.25]],
  compare: { field: "p;q", step: "live", dataset: "other&run=1", difference: true, level: 3 },
};

/** A link as a whole view. */
function restored(hash: string): unknown {
  const { values, problems } = parseLink(hash);
  const nothing = { clip: null, level: null, profile: null, compare: null };
  return { ...nothing, ...values, colour: { low: null, high: null, ...values.colour }, problems };
}

function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const kLetters = Array.from("az09_-./ ;,:#&=%+?ü☃𝄞\"'\\");

function randomState(next: () => number): ViewState {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!;
  const whole = (most: number): number => Math.floor(next() * most);
  const number = (): number => (next() - 0.5) * 10 ** Math.floor(next() * 60 - 30);
  const name = (): string => Array.from({ length: 1 + whole(12) }, () => pick(kLetters)).join("");
  const maybe = <T>(make: () => T): T | null => (next() < 0.4 ? null : make());
  const step = (): number | "live" => (next() < 0.2 ? "live" : whole(2 ** 40));
  const begin = [whole(100), whole(100), whole(100)] as const;
  return {
    dataset: name(), field: name(), step: step(), cursor: [whole(1e6), next() * 1e3, whole(1e6)],
    clip: next() < 0.5 ? null : { begin, end: [begin[0] + 1 + whole(9), begin[1] + 1 + whole(9), begin[2] + 1 + whole(9)] },
    pane: pick(["all", "x", "y", "z", "volume"] as const),
    camera: { azimuth: next() * 360, elevation: next() * 180 - 90, distance: 0.01 + next() * 10 },
    colour: { map: name(), mode: pick(["auto", "locked", "step"] as const), low: maybe(number), high: maybe(number) },
    volume: { threshold: next(), opacity: next(), mode: pick(["ray", "maximum", "surface"] as const) },
    level: maybe(() => whole(32)),
    profile: maybe(() => [[next() * 9, whole(9), 0], [whole(9), next() * 1e3, whole(1e6)]] as const),
    compare: next() < 0.5 ? null : { field: name(), step: step(), dataset: name(), difference: next() < 0.5, level: maybe(() => whole(32)) },
  };
}

describe("a link", () => {
  it("is short, readable, and restores the view", () => {
    const hash = formatLink(kState);

    expect(hash).toBe("#v=1&d=runs/wake%2042&f=speed&t=17&at=10,20.5,30&box=0:10,1:20,2:30&pane=z&cam=300,-24.5,1.75" +
                      "&map=viridis&range=locked&low=-1e-7&high=3e22&vol=0.25,0.6,surface&level=2&line=1,2,3:4.5,6,7.25" +
                      "&with=live;p%3Bq;other%26run%3D1;level=3;difference");
    expect(restored(hash)).toEqual({ ...kState, problems: [] });
  });

  it("restores any view, through any browser", () => {
    const next = random(20261123);
    for (let i = 0; i < 2000; ++i) {
      const state = randomState(next);
      const hash = formatLink(state);
      expect(new URL(`http://host/${hash}`).hash).toBe(hash);
      expect(restored(hash)).toEqual({ ...state, problems: [] });
    }
  });

  it("keeps what other versions have put there, but no token", () => {
    const { unknown, problems } = parseLink("#v=1&token=secret&future=a%20b&flag&d=run42");
    expect([unknown, problems]).toEqual([[["future", "a%20b"], ["flag", ""]], []]);
    const hash = formatLink(kState, [...unknown, ["token", "secret"], ["d", "evil"]]);

    expect(hash.endsWith("difference&future=a%20b&flag")).toBe(true);
    expect(hash).not.toContain("secret");
    expect(hash).not.toContain("evil");
  });

  const bad = ["v=2", "d=", "d=%", "t=-1", "t=1.5", "t=soon", "t=99999999999999999",
               "at=1,2", "at=1,2,x", "at=-1,0,0", "at=1,2,Infinity", "at=1,2,0x10",
               "box=0:1,0:1", "box=0:1,0:1,1:1", "box=0:1,0:1,2:1", "box=0:1:2,0:1,0:1", "box=0:1.5,0:1,0:1",
               "pane=w", "cam=1,2", "cam=1,2,0", "cam=NaN,1,1", "range=mine", "low=x", "high=1e999",
               "vol=2,0.5,ray", "vol=0.5,0.5,fog", "vol=0.5,0.5", "vol=0.1,0.1,ray,1", "level=-1", "level=1.5", "level=99",
               "with=1;f", "with=x;f;d", "with=1;f;d;maybe", "with=1;f;d;difference;more", "with=1;;d", "with=1;f;d;level=", "with=1;f;d;level=x",
               "with=1;f;d;level=32", "with=1;f;d;difference;level=1", "with=1;f;d;level=1;level=2"];
  for (const pair of bad) {
    it(`reports ${pair}, and takes the rest`, () => {
      const { values, problems } = parseLink(`#${pair}&f=speed`);

      expect(values).toEqual({ field: "speed" });
      expect(problems.length).toBe(1);
      expect(problems[0]).toContain(pair.slice(0, 10));
    });
  }

  it("compares levels as beside it where it does not say one, as links of before", () => {
    const other = { step: 3, field: "f", dataset: "d" };
    const read = (text: string): unknown => parseLink(`#with=${text}`).values.compare;

    expect(read("3;f;d")).toEqual({ ...other, difference: false, level: null });
    expect(read("3;f;d;difference")).toEqual({ ...other, difference: true, level: null });
    expect(read("3;f;d;level=0")).toEqual({ ...other, difference: false, level: 0 });
  });

  it("may be anything", () => {
    const next = random(5);
    const letters = "dftvat=&%,:;#0123456789.eE-+xlow\u0000ü\ud800";
    for (let i = 0; i < 3000; ++i) {
      const text = Array.from({ length: Math.floor(next() * 40) }, () => letters[Math.floor(next() * letters.length)]).join("");
      expect(() => parseLink(`#${text}`)).not.toThrow();
    }
    expect(parseLink(`#d=${"x".repeat(1e6)}`).values).toEqual({});
  });
});

describe("a view of a dataset", () => {
  const fields = [{ name: "speed", grid: 0 }, { name: "p", grid: 0 }, { name: "height", grid: 1 }];
  const grids = [{ dims: [100, 50, 20], levels: 4 }, { dims: [60, 70, 1], levels: 2 }];
  const info = { name: "run42", grids, fields } as unknown as DatasetInfo;
  const step = (number: number, ...fields: string[]): StepInfo =>
    ({ step: number, time: null, fields: new Map(fields.map((name) => [name, {}])) }) as unknown as StepInfo;
  const opened = { info, steps: [step(0, "speed"), step(3, "speed", "p", "height")] };
  const nothing = { clip: null, level: null, profile: null, compare: null };
  const initial: ViewState = { ...kState, ...nothing, dataset: "run42", step: 0, cursor: [50, 25, 10] };

  it("has what the link says, and defaults for the rest", () => {
    const { state, problems } = completeLink({ field: "p", step: 3, colour: { low: 5 } }, opened, initial);

    expect(state).toEqual({ ...initial, field: "p", step: 3, colour: { ...initial.colour, low: 5 } });
    expect(problems).toEqual([]);
  });

  it("stays inside the grid", () => {
    const clip = { begin: [90, 0, 0], end: [200, 50, 20] } as const;
    const { state } = completeLink({ cursor: [1e9, 3, 20], clip, level: 31 }, opened, initial);
    expect([state.cursor, state.clip, state.level]).toEqual([[99, 3, 19], { begin: [90, 0, 0], end: [100, 50, 20] }, 3]);

    expect(completeLink({ clip: { begin: [100, 0, 0], end: [200, 50, 20] } }, opened, initial).state.clip).toBeNull();
    expect(completeLink({ clip: { begin: [0, 0, 0], end: [200, 60, 20] } }, opened, initial).state.clip).toBeNull();
  });

  it("stays inside the grid of its field", () => {
    const clip = { begin: [50, 10, 0], end: [90, 70, 20] } as const;
    const profile = [[0, 60, 5], [99, 0, 5]] as const;
    const values = { field: "height", cursor: [99, 60, 19], clip, level: 31, profile } as const;
    const { state } = completeLink(values, opened, initial);

    expect([state.cursor, state.clip, state.level]).toEqual([[59, 60, 0], { begin: [50, 10, 0], end: [60, 70, 1] }, 1]);
    expect(state.profile).toEqual([[0, 60, 0], [59, 0, 0]]);
  });

  it("has the step of the others where its field does not change", () => {
    const still = { ...opened, info: { ...info, fields: [...fields, { name: "mask", grid: 0, still: true }] } as unknown as DatasetInfo,
                    steps: [step(0, "speed", "mask"), step(3, "speed")] };

    expect(completeLink({ field: "mask", step: 3 }, still, initial)).toMatchObject({ state: { field: "mask", step: 3 }, problems: [] });
    expect(completeLink({ field: "mask", step: 5 }, still, initial)).toMatchObject({ state: { step: 0 }, problems: ['"mask" has no step 5; showing step 0'] });
  });

  it("has the layer of accuracy that it names, beside another one", () => {
    const layers = { ...opened, info: { ...info, fields: [...fields, { name: "speed, layer 0", grid: 0 }] } as unknown as DatasetInfo,
                     steps: [step(0, "speed", "speed, layer 0")] };
    const { values, problems } = parseLink("#v=1&d=run42&f=speed,%20layer%200&t=0&with=0;speed,%20layer%201;run42;difference");
    const { state } = completeLink(values, layers, initial);

    expect([problems, state.field, state.compare?.field]).toEqual([[], "speed, layer 0", "speed, layer 1"]);
    expect(formatLink(state)).toContain("&f=speed,%20layer%200&t=0");
    expect(formatLink(state)).toContain("&with=0;speed,%20layer%201;run42;difference");
    expect(completeLink({ field: "speed, layer 7" }, layers, initial).problems).toEqual(['"run42" has no field "speed, layer 7"; showing "speed"']);
  });

  it("says what the dataset does not have", () => {
    const values = { field: "gone", step: 2, colour: { map: "rainbow" } };
    const { state, problems } = completeLink(values, opened, initial, ["viridis", "magma"]);

    expect([state.field, state.step, state.colour.map]).toEqual(["speed", 0, "viridis"]);
    expect(problems.length).toBe(3);
    expect(completeLink({ field: "p" }, opened, initial)).toMatchObject({ state: { step: 3 }, problems: [] });
    expect(completeLink({ field: "p", step: "live" }, opened, initial)).toMatchObject({ state: { step: "live" }, problems: [] });
  });
});
