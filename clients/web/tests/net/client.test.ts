import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import type { Attribute, AttributeNumbersSchema, DatasetManifest, TextCoordinate } from "../../build/proto/quarry/v1/dataset_pb";
import { AttributeSchema, AxisAttributesSchema, ComplexPartSchema, DataType, GridCoordinatesSchema, GridSchema,
         TextCoordinateSchema } from "../../build/proto/quarry/v1/dataset_pb";
import type { GridInfo, Source, StepInfo } from "../../src/model";
import { gridOf } from "../../src/model";
import { askingAhead, createSource } from "../../src/source";
import { type FakeOptions, FakeServer, settle } from "./fake_server";

function open(options: FakeOptions = {}): { server: FakeServer; source: Source; waits: number[] } {
  const server = new FakeServer({ steps: [0, 2, 5, 7], ...options });
  const waits: number[] = [];
  const sleep = (ms: number): Promise<void> => {
    waits.push(ms);
    return Promise.resolve();
  };
  const source = createSource("http://fake", { transport: server.transport(), sleep });
  return { server, source, waits };
}

async function errorOf(promise: Promise<unknown>): Promise<{ code: string; message: string }> {
  try {
    await promise;
  } catch (error) {
    return error as { code: string; message: string };
  }
  throw new Error("there is no error");
}

const kSelection = { dataset: "run42", field: "speed", step: 0 };
const kBox = { begin: [0, 0, 0], end: [4, 4, 4] } as const;

const kGrid: GridInfo = {
  dims: [20, 12, 9], patch: [8, 4, 4], levels: 3, origin: [1, 2, 3], spacing: [0.5, 0.25, 2],
  axisNames: ["x", "y", "z"], axisUnits: ["m", "m", "m"], coordinates: [null, null, null],
  axisAttributes: [[], [], []], axisTexts: [[], [], []],
};

/** A manifest as it is, but for what a test changes. */
function changed(server: FakeServer, change: (manifest: DatasetManifest) => void): void {
  server.manifest = () => {
    const manifest = server.goodManifest();
    change(manifest);
    return manifest;
  };
}

const attribute = (name: string, value: MessageInitShape<typeof AttributeSchema>["value"]): Attribute => create(AttributeSchema, { name, value: value! });
const numbers = (value: MessageInitShape<typeof AttributeNumbersSchema>): MessageInitShape<typeof AttributeSchema>["value"] => ({ case: "numbers", value });
const texts = (init: MessageInitShape<typeof TextCoordinateSchema>): TextCoordinate => create(TextCoordinateSchema, init);
const kNine = ["a", "b", "", "d", "e", "f", "g", "h", "ß"];
const named = (text: string): Attribute => attribute("long_name", { case: "text", value: text });

describe("asking ahead", () => {
  async function ahead(dataset: string, options: FakeOptions = {}): Promise<{ server: FakeServer; source: Source; asked: () => number }> {
    const { server, source } = open(options);
    server.datasets.push("other");
    const made = askingAhead(source, dataset);
    await settle();
    const before = server.calls.length;
    return { server, source: made, asked: () => server.calls.length - before };
  }

  it("gives the first opening of the dataset the answer that is on its way", async () => {
    const { server, source, asked } = await ahead("run42");
    expect(new Set(server.calls)).toEqual(new Set(["GetDataset"]));

    const first = await source.open("run42");
    expect(asked()).toBe(0);
    expect(await source.open("run42")).toEqual(first);
    expect(asked()).toBeGreaterThan(0);
  });

  it("keeps the answer while another dataset is opened", async () => {
    const { source, asked } = await ahead("run42");

    await source.open("other");
    const others = asked();
    await source.open("run42");
    expect(asked()).toBe(others);
  });

  it("gives the error to whoever opens the dataset", async () => {
    const { source } = await ahead("gone");

    expect(await errorOf(source.open("gone"))).toMatchObject({ code: "not_found" });
  });

  it("has the list where no dataset is named", async () => {
    const { server, source, asked } = await ahead("");
    expect(server.calls).toEqual(["ListDatasets"]);

    expect((await source.list()).map(({ name }) => name)).toEqual(["run42", "other"]);
    expect(asked()).toBe(0);
  });
});

describe("lists", () => {
  it("have all pages", async () => {
    const { server, source } = open();
    server.datasets = Array.from({ length: 8 }, (_, i) => `run${i}`);

    expect(await source.list()).toEqual(server.datasets.map((name) => ({ name, dims: [20, 12, 9], grids: 1, steps: 4, fields: 1, late: false })));
    expect(server.calls.length).toBe(3);
  });

  it("say how many grids there are, and the shape of the first", async () => {
    const { source } = open({ second: true });

    expect(await source.list()).toEqual([{ name: "run42", dims: [5, 4, 1], grids: 2, steps: 4, fields: 1, late: false }]);
  });

  it.each([false, true])("have a dataset without grids by its name (late: %s)", async (late) => {
    const { server, source } = open();
    server.datasets = ["a", "b"];
    server.unread = { name: "b", late };

    expect(await source.list()).toEqual([
      { name: "a", dims: [20, 12, 9], grids: 1, steps: 4, fields: 1, late: false },
      { name: "b", dims: null, grids: 0, steps: 0, fields: 0, late },
    ]);
  });

  it.each([
    ["more grids than a dataset can have", (m: DatasetManifest) => { m.grids = Array.from({ length: 4097 }, () => m.grids[0]!); }],
    ["a grid of two axes", (m: DatasetManifest) => { m.grids[0]!.dims = [20, 12]; }],
  ] as const)("with %s are refused", async (_, change) => {
    const { server, source } = open();
    server.manifest = () => {
      const manifest = server.goodManifest();
      change(manifest);
      return manifest;
    };

    expect(await errorOf(source.list())).toMatchObject({ code: "internal" });
  });

  it("that turn in a circle are ended", async () => {
    const { server, source } = open();
    // The second page leads to itself.
    server.nextPage = () => "1";

    expect(await errorOf(source.list())).toMatchObject({ code: "internal" });
    expect(server.calls.length).toBeLessThan(5);
  });

  it("without end are ended", async () => {
    const { server, source } = open();
    let page = 0;
    server.nextPage = () => `${++page % 1000000}`;
    server.pageSize = 0;

    expect((await errorOf(source.list())).message).toContain("do not end");
    expect(server.calls.length).toBeLessThan(2000);
  });
});

describe("opening", () => {
  it("gives the grid, the fields, and the steps of all pages", async () => {
    const { server, source } = open();
    const { info, steps } = await source.open("run42");

    expect(server.withSubfiles).toBe(0);

    expect(info).toEqual({
      name: "run42", grids: [kGrid],
      fields: [{ name: "speed", type: "float32", unit: "m/s", coder: "interpolate", fill: null, stored: "speed", layer: 0, layers: 1, refers: false, grid: 0,
                 attributes: [], still: false, coordinate: false, complex: null }],
      attributes: [], texts: [], timeUnit: "days since 2001-01-01", timeName: "", timeAttributes: [],
    });
    expect(steps.map((step) => [step.step, step.time, step.date])).toEqual(
      [[0, 0, "date 0"], [2, 0.2, "date 2"], [5, 0.5, "date 5"], [7, 0.7, "date 7"]]);
    expect(steps[1]!.fields.get("speed")).toMatchObject({ min: 0, max: 90_000, valid: 2160, tolerance: 0.01, hasMissing: false });
    expect(steps[1]!.fields.get("speed")!.levels[2]).toEqual({ maxError: 0.16, bytes: 62, coverage: 1 });
    // A level needs all coarser ones.
    expect(steps[1]!.fields.get("speed")!.levels.map(({ bytes }) => bytes)).toEqual([4000 + 500 + 62, 500 + 62, 62]);
  });

  it("gives what the source says besides, with the types of the numbers", async () => {
    const { server, source } = open({ rougher: [10] });
    changed(server, (m) => {
      m.attributes = [named("a run"), attribute("tags", { case: "texts", value: { texts: ["a", ""] } })];
      m.time!.name = "time";
      m.time!.attributes = [attribute("bounds", { case: "json", value: "null" })];
      m.grids[0]!.axisAttributes = [[], [], [named("depth")]].map((attributes) => create(AxisAttributesSchema, { attributes }));
      Object.assign(m.fields[0]!, { still: true, coordinate: true });
      m.fields[0]!.attributes = [
        attribute("range", numbers({ dtype: DataType.FLOAT32, isList: true, floats: [-0.5, NaN] })),
        attribute("flag", numbers({ dtype: DataType.INT8, integers: [-3n] })),
        attribute("mask", numbers({ dtype: DataType.UINT64, isList: true, naturals: [2n ** 64n - 1n] })),
        attribute("none", numbers({ dtype: DataType.INT32, isList: true })),
      ];
    });
    const { info } = await source.open("run42");

    const text = (text: string): unknown => ({ name: "long_name", value: { kind: "text", text } });
    expect(info.attributes).toEqual([text("a run"), { name: "tags", value: { kind: "texts", texts: ["a", ""] } }]);
    expect([info.timeName, info.timeAttributes]).toEqual(["time", [{ name: "bounds", value: { kind: "json", json: "null" } }]]);
    expect(info.grids[0]!.axisAttributes).toEqual([[], [], [text("depth")]]);
    // A layer of accuracy is a field as well.
    for (const field of info.fields)
      expect(field).toMatchObject({ still: true, coordinate: true, attributes: [
        { name: "range", value: { kind: "numbers", type: "float32", isList: true, numbers: [-0.5, NaN] } },
        { name: "flag", value: { kind: "numbers", type: "int8", isList: false, numbers: [-3n] } },
        { name: "mask", value: { kind: "numbers", type: "uint64", isList: true, numbers: [18446744073709551615n] } },
        { name: "none", value: { kind: "numbers", type: "int32", isList: true, numbers: [] } },
      ] });
    expect(info.fields.length).toBe(2);
  });

  it("takes as many attributes as the format allows, and as long ones", async () => {
    const { server, source } = open();
    changed(server, (m) => {
      m.attributes = Array.from({ length: 4096 }, (_, i) => attribute(`a${i}`, { case: "text", value: "" }));
      m.fields[0]!.attributes = [named("x".repeat(2 ** 20 - 9))];
    });

    expect((await source.open("run42")).info.attributes.length).toBe(4096);
  });

  it("gives coordinates of text to their axes, to axes of the same name, and to the dataset", async () => {
    const { server, source } = open({ second: true });
    changed(server, (m) => {
      Object.assign(m.grids[0]!, { dims: [5, 9, 1], patch: [2, 2, 1], axisNames: ["xu", "z", ""] });
      m.grids[1]!.axisNames = ["x", "", "z"];
      m.texts = [
        texts({ name: "country", grid: 1, axis: 2, texts: kNine }),
        texts({ name: "z", grid: 1, axis: 2, texts: kNine, attributes: [named("Stations")] }),
        texts({ name: "row", grid: 1, axis: 1, texts: Array.from({ length: 12 }, (_, i) => `row ${i}`) }),
        texts({ name: "region", texts: ["everywhere"] }),
      ];
    });
    const { info } = await source.open("run42");

    const country = { name: "country", texts: kNine, attributes: [] };
    const long = { name: "long_name", value: { kind: "text", text: "Stations" } };
    const station = { name: "z", texts: kNine, attributes: [long] };
    expect(info.grids[1]!.axisTexts).toEqual([[], [expect.objectContaining({ name: "row" })], [station, country]]);
    expect(info.grids[0]!.axisTexts).toEqual([[], [station, country], []]);
    expect(info.texts).toEqual([{ name: "region", texts: ["everywhere"], attributes: [] }]);
  });

  it("takes as many texts as the format allows, and as long ones", async () => {
    const { server, source } = open();
    changed(server, (m) => {
      const long = "x".repeat(2 ** 24);
      m.texts = Array.from({ length: 1024 }, (_, i) => texts({ name: `t${i}`, texts: [i === 0 ? long : ""] }));
    });

    expect((await source.open("run42")).info.texts.length).toBe(1024);
  });

  it("gives the parts of complex samples, in each of their layers", async () => {
    const { server, source } = open({ rougher: [10] });
    changed(server, (m) => {
      const [part, other] = [false, true].map((imaginary) => create(ComplexPartSchema, { of: "psi", imaginary }));
      m.fields[0]!.complex = part!;
      m.fields.push({ ...m.fields[0]!, name: "other", rougher: [], complex: other! });
    });
    const { info } = await source.open("run42");

    expect(info.fields.map(({ name, complex }) => [name, complex])).toEqual([
      ["speed", { of: "psi", imaginary: false }],
      ["speed, layer 0", { of: "psi", imaginary: false }],
      ["other", { of: "psi", imaginary: true }],
    ]);
  });

  it("gives each field its grid: one that lacks an axis has one sample along it", async () => {
    const { server, source } = open({ second: true });
    const good = server.goodManifest();
    const height = { ...good.fields[0]!, name: "height", grid: 0 };
    server.manifest = () => ({ ...good, fields: [...good.fields, height] });
    const { info } = await source.open("run42");

    expect(info.grids).toEqual([{ ...kGrid, dims: [5, 4, 1], patch: [2, 2, 1], levels: 2 }, kGrid]);
    expect(info.fields.map(({ name, grid }) => [name, grid])).toEqual([["speed", 1], ["height", 0]]);
    expect([gridOf(info, "speed"), gridOf(info, "height"), gridOf(info, "nothing")]).toEqual([info.grids[1], info.grids[0], info.grids[0]]);
  });

  it("checks a step by the grid of its field", async () => {
    const { server, source } = open({ second: true });
    expect((await source.open("run42")).steps[0]!.fields.get("speed")!.levels.length).toBe(3);

    const wrong = server.goodManifest();
    server.manifest = () => ({ ...wrong, fields: [{ ...wrong.fields[0]!, grid: 0 }] });
    expect((await errorOf(source.open("run42"))).message).toContain('"speed" has 3 of 2 levels');
  });

  it("leaves out a field of a step that the dataset had not when it was opened", async () => {
    const { server, source } = open();
    const good = server.stepManifest.bind(server);
    server.stepManifest = (step) => {
      const manifest = good(step);
      const { levels } = manifest.fields[0]!;
      return { ...manifest, fields: [...manifest.fields, { ...manifest.fields[0]!, name: "new", levels: levels.slice(1) }] };
    };

    expect([...(await source.open("run42")).steps[0]!.fields.keys()]).toEqual(["speed"]);
  });

  it("shows layers of accuracy as fields of their own", async () => {
    const { source } = open({ rougher: [10, 1] });
    const { info, steps } = await source.open("run42");

    expect(info.fields.map(({ name, stored, layer, layers }) => [name, stored, layer, layers])).toEqual([
      ["speed", "speed", 2, 3],
      ["speed, layer 1", "speed", 1, 3],
      ["speed, layer 0", "speed", 0, 3],
    ]);
    // A layer needs all before it, and a level all coarser ones: 125 and 15 bytes in layers 0 and 1, 500 and 62 in layer 2.
    const fields = [...steps[0]!.fields];
    expect(fields.map(([name, one]) => [name, one.tolerance, one.levels[1]!.maxError, one.levels[1]!.bytes])).toEqual([
      ["speed", 0.01, 0.04, 562 + 140 + 140], ["speed, layer 1", 1, 4, 140 + 140], ["speed, layer 0", 10, 40, 140],
    ]);
  });

  it("does not let a layer take the name of a field", async () => {
    const { server, source } = open({ rougher: [10] });
    const twice = server.goodManifest();
    server.manifest = () => ({ ...twice, fields: [...twice.fields, { ...twice.fields[0]!, name: "speed, layer 0", rougher: [] }] });
    const { info } = await source.open("run42");

    expect(info.fields.map(({ name, stored }) => [name, stored])).toEqual([["speed", "speed"], ["speed, layer 0", "speed, layer 0"]]);
  });

  it("refuses a step that has other layers than its field", async () => {
    const { server, source } = open({ rougher: [10] });
    const wrong = server.goodManifest();
    server.manifest = () => ({ ...wrong, fields: [{ ...wrong.fields[0]!, rougher: [10, 1] }] });

    expect(await errorOf(source.open("run42"))).toMatchObject({ code: "internal" });
  });

  it("says what the server says", async () => {
    const { source } = open();

    expect(await errorOf(source.open("nothing"))).toMatchObject({ code: "not_found", message: 'no dataset "nothing"' });
  });

  const hostile: [string, (manifest: DatasetManifest) => void][] = [
    ["a grid without a sample", (m) => { m.grids[0]!.dims = [0, 12, 9]; }],
    ["a grid of two axes", (m) => { m.grids[0]!.dims = [20, 12]; }],
    ["a grid of four axes", (m) => { m.grids[0]!.dims = [20, 12, 9, 1]; }],
    ["no grid", (m) => { m.grids = []; }],
    ["more grids than a dataset can have", (m) => { m.grids = Array.from({ length: 4097 }, () => m.grids[0]!); }],
    ["a field on a grid that there is not", (m) => { m.fields[0]!.grid = 1; }],
    ["a bad grid after a good one", (m) => { m.grids.push(create(GridSchema, { ...m.grids[0]!, patch: [8, 6, 4] })); }],
    ["a grid that lacks an axis with samples", (m) => { m.grids[0]!.hasAxis = [true, true, false]; }],
    ["a grid that says of two axes whether it has them", (m) => { m.grids[0]!.hasAxis = [true, true]; }],
    ["too many patches", (m) => { m.grids[0]!.dims = [2 ** 31, 2 ** 31, 2 ** 31]; m.grids[0]!.patch = [1, 1, 1]; m.grids[0]!.levels = 1; }],
    ["patches of no power of two", (m) => { m.grids[0]!.patch = [8, 6, 4]; }],
    ["patches without a sample", (m) => { m.grids[0]!.patch = [0, 4, 4]; }],
    ["vast patches", (m) => { m.grids[0]!.patch = [2 ** 20, 2 ** 20, 4]; }],
    ["more levels than patches have", (m) => { m.grids[0]!.levels = 4; }],
    ["no levels", (m) => { m.grids[0]!.levels = 0; }],
    ["an origin that is no number", (m) => { m.grids[0]!.origin = [NaN, 0, 0]; }],
    ["a spacing of 0", (m) => { m.grids[0]!.spacing = [1, 0, 1]; }],
    ["a spacing that is infinite", (m) => { m.grids[0]!.spacing = [1, Infinity, 1]; }],
    ["coordinates of another number", (m) => { m.grids[0]!.coordinates = create(GridCoordinatesSchema, { y: [1, 2, 3] }); }],
    ["coordinates that turn", (m) => {
      m.grids[0]!.coordinates = create(GridCoordinatesSchema, { z: [1, 2, 3, 4, 5, 6, 7, 8, 7] });
    }],
    ["an unknown type", (m) => { m.fields[0]!.dtype = 99 as DataType; }],
    ["a name without end", (m) => { m.fields[0]!.name = "x".repeat(100_000); }],
    ["a name of the times without end", (m) => { m.time!.name = "x".repeat(100_000); }],
    ["more attributes than there can be", (m) => {
      m.attributes = Array.from({ length: 4097 }, (_, i) => attribute(`a${i}`, { case: "text", value: "" }));
    }],
    ["attributes that are too long together", (m) => { m.fields[0]!.attributes = [named("x".repeat(2 ** 20 - 8))]; }],
    ["lists that are too long together", (m) => {
      m.time!.attributes = ["a", "b"].map((name) => attribute(name, numbers({ dtype: DataType.FLOAT32, isList: true, floats: new Array<number>(2 ** 16).fill(0) })));
    }],
    ["endless lists of nothing", (m) => { m.attributes = [attribute("a", { case: "texts", value: { texts: new Array<string>(2 ** 20).fill("") } })]; }],
    ["an attribute without a name", (m) => { m.attributes = [attribute("", { case: "text", value: "a" })]; }],
    ["an attribute with an endless name", (m) => { m.attributes = [attribute("x".repeat(256), { case: "text", value: "a" })]; }],
    ["an attribute twice", (m) => { m.attributes = [named("a"), named("b")]; }],
    ["an attribute without a value", (m) => { m.attributes = [create(AttributeSchema, { name: "a" })]; }],
    ["numbers of an unknown type", (m) => { m.attributes = [attribute("a", numbers({ dtype: 99 as DataType, floats: [1] }))]; }],
    ["one number that is two", (m) => { m.attributes = [attribute("a", numbers({ dtype: DataType.INT8, integers: [1n, 2n] }))]; }],
    ["one number in the list of another type", (m) => { m.attributes = [attribute("a", numbers({ dtype: DataType.INT8, floats: [1] }))]; }],
    ["texts of a grid that there is not", (m) => { m.texts = [texts({ name: "a", grid: 1, axis: 2, texts: kNine })]; }],
    ["texts along a fourth axis", (m) => { m.texts = [texts({ name: "a", axis: 3, texts: kNine })]; }],
    ["fewer texts than samples", (m) => { m.texts = [texts({ name: "a", axis: 2, texts: kNine.slice(1) })]; }],
    ["several texts for the whole", (m) => { m.texts = [texts({ name: "a", texts: ["a", "b"] })]; }],
    ["texts without a name", (m) => { m.texts = [texts({ name: "", texts: ["a"] })]; }],
    ["texts with an attribute twice", (m) => {
      m.texts = [texts({ name: "a", texts: ["a"], attributes: [named("a"), named("b")] })];
    }],
    ["more coordinates of text than there can be", (m) => {
      m.texts = Array.from({ length: 1025 }, (_, i) => texts({ name: `t${i}`, texts: [""] }));
    }],
    ["texts that are too long together", (m) => {
      m.texts = [texts({ name: "a", texts: ["x".repeat(2 ** 24 + 1)] })];
    }],
    ["complex samples with an endless name", (m) => {
      m.fields[0]!.complex = create(ComplexPartSchema, { of: "x".repeat(4097) });
    }],
    ["attributes of two axes", (m) => { m.grids[0]!.axisAttributes = [create(AxisAttributesSchema), create(AxisAttributesSchema)]; }],
    ["a bad attribute of an axis", (m) => {
      m.grids[0]!.axisAttributes = [[], [], [named("a"), named("b")]].map((attributes) => create(AxisAttributesSchema, { attributes }));
    }],
  ];
  for (const [what, change] of hostile) {
    it(`refuses ${what}`, async () => {
      const { server, source } = open();
      server.manifest = () => {
        const manifest = server.goodManifest();
        change(manifest);
        return manifest;
      };

      const error = await errorOf(source.open("run42"));
      expect(error.code).toBe("internal");
      expect(error.message).toContain("the server's answer is wrong");
      expect(error.message.length).toBeLessThanOrEqual(1024);
    });
  }

  it("takes coordinates that descend", async () => {
    const { server, source } = open();
    server.manifest = () => {
      const manifest = server.goodManifest();
      manifest.grids[0]!.coordinates = create(GridCoordinatesSchema, { z: [9, 8, 7, 6, 5, 4, 3, 2.5, 0] });
      return manifest;
    };

    expect([...(await source.open("run42")).info.grids[0]!.coordinates[2]!]).toEqual([9, 8, 7, 6, 5, 4, 3, 2.5, 0]);
  });

  const hostileSteps: [string, (step: ReturnType<FakeServer["stepManifest"]>) => void][] = [
    ["a range upside down", (s) => { s.fields[0]!.min = 3; s.fields[0]!.max = 2; }],
    ["a range that is infinite", (s) => { s.fields[0]!.max = Infinity; }],
    ["an error that is no number", (s) => { s.fields[0]!.levels[1]!.maxError = NaN; }],
    ["an error below zero", (s) => { s.fields[0]!.levels[1]!.maxError = -1; }],
    ["a coverage above one", (s) => { s.fields[0]!.levels[1]!.coverage = 2; }],
    ["a record of too few levels", (s) => { s.fields[0]!.levels.pop(); }],
    ["a number that no double holds", (s) => { s.step = 2n ** 63n; }],
    ["steps that do not ascend", (s) => { s.step = 0n; }],
  ];
  for (const [what, change] of hostileSteps) {
    it(`refuses ${what}`, async () => {
      const { server, source } = open();
      const good = server.stepManifest.bind(server);
      server.stepManifest = (step) => {
        const manifest = good(step);
        if (step === 2) change(manifest);
        return manifest;
      };

      expect((await errorOf(source.open("run42"))).code).toBe("internal");
    });
  }

  it("takes a step without a valid sample", async () => {
    const { server, source } = open();
    const good = server.stepManifest.bind(server);
    server.stepManifest = (step) => {
      const manifest = good(step);
      Object.assign(manifest.fields[0]!, { min: Infinity, max: -Infinity, valid: 0n });
      return manifest;
    };

    expect((await source.open("run42")).steps[0]!.fields.get("speed")).toMatchObject({ min: NaN, max: NaN, valid: 0 });
  });
});

describe("questions", () => {
  it("are about the layer of accuracy that is shown", async () => {
    const { server, source } = open({ rougher: [10, 1] });
    await source.open("run42");
    for (const field of ["speed", "speed, layer 1", "speed, layer 0"]) {
      await source.statistics({ ...kSelection, field }, kBox, 1, { percentiles: [50], bins: 2 });
      await source.points({ ...kSelection, field }, [0, 0, 0]);
    }

    expect(server.asked).toEqual([
      ["GetStatistics", "speed", 2], ["ReadPoints", "speed", 2], ["GetStatistics", "speed", 1], ["ReadPoints", "speed", 1],
      ["GetStatistics", "speed", 0], ["ReadPoints", "speed", 0],
    ]);
  });

  it("about statistics have their intervals", async () => {
    const { source } = open();
    const result = await source.statistics(kSelection, kBox, 1, { percentiles: [50], bins: 2 });

    const at = { value: 2, low: 1, high: 3, unresolved: false };
    const median = { percent: 50, at: { ...at, unresolved: true } };
    expect(result).toEqual({ field: "speed", level: 1, valid: 10, missing: 2, min: at, max: at, mean: at, stddev: at,
                             percentiles: [median], histogram: { begin: 0, end: 4, counts: [1, 9] } });
    const tooMuch = source.statistics(kSelection, kBox, 0, { percentiles: [], bins: 5000 });
    expect(await errorOf(tooMuch)).toMatchObject({ code: "invalid_argument" });
  });

  it("about many points are several", async () => {
    const { server, source } = open();
    const points = Array.from({ length: 3 * 100_001 }, (_, i) => (i % 3 === 0 ? i / 3 % 20 : 0));
    const { values, maxError } = await source.points(kSelection, points);

    expect([values.length, values[19], values[100_000], maxError]).toEqual([100_001, 19, 0, 0.01]);
    expect(server.calls.length).toBe(2);
  });
});

describe("a busy server", () => {
  it("is asked again after the time that it names", async () => {
    const { server, source, waits } = open();
    let refuse = 2;
    server.beforeCall = () => {
      const pushback = { "grpc-retry-pushback-ms": "5000" };
      if (refuse-- > 0) throw new ConnectError("too many calls run", Code.ResourceExhausted, pushback);
    };
    await source.list();

    expect(waits).toEqual([5000, 5000]);
  });

  it("is not asked for ever", async () => {
    const { server, source, waits } = open();
    server.beforeCall = () => { throw new ConnectError("not now", Code.Unavailable); };

    expect(await errorOf(source.list())).toMatchObject({ code: "unavailable", message: "not now" });
    expect(waits.length).toBe(4);
    expect(waits[3]).toBeGreaterThan(waits[0]!);
  });

  it("that says a question is too large is not asked again", async () => {
    const { server, source, waits } = open();
    server.beforeCall = () => { throw new ConnectError("this read needs 9 GiB, and 1 GiB is allowed", Code.ResourceExhausted); };

    expect(await errorOf(source.list())).toMatchObject({ code: "resource_exhausted" });
    expect(waits).toEqual([]);
  });
});

describe("watching", () => {
  async function take(steps: AsyncIterable<StepInfo>, into: number[]): Promise<void> {
    for await (const step of steps) {
      expect(step.date).toBe(`date ${step.step}`);
      into.push(step.step);
    }
  }

  it("goes on after a broken connection, with nothing twice and nothing left out", async () => {
    const { server, source } = open();
    await source.open("run42");
    const stop = new AbortController();
    const seen: number[] = [];
    const watching = take(source.watch("run42", 2, stop.signal), seen);
    await settle();
    server.breakWatches(new ConnectError("reset", Code.Unavailable));
    server.steps.push(8);
    await settle();
    server.publish(9);
    await settle();
    stop.abort();
    await watching;

    expect(seen).toEqual([5, 7, 8, 9]);
    expect(server.openWatches).toBe(0);
  });

  it("is one stream: the next one takes its place", async () => {
    const { server, source } = open();
    const stop = new AbortController();
    const [first, second]: [number[], number[]] = [[], []];
    const one = take(source.watch("run42", 5, stop.signal), first);
    await settle();
    const two = take(source.watch("run42", 5, stop.signal), second);
    await one;
    await settle();
    expect(server.openWatches).toBe(1);
    stop.abort();
    await two;

    expect([first, second]).toEqual([[7], [7]]);
  });

  it("ends with what waiting does not mend", async () => {
    const { server, source } = open();
    const seen: number[] = [];
    const watching = take(source.watch("run42", null, new AbortController().signal), seen);
    await settle();
    server.breakWatches(new ConnectError("the dataset has gone", Code.NotFound));

    expect(await errorOf(watching)).toMatchObject({ code: "not_found", message: "the dataset has gone" });
    expect(seen).toEqual([0, 2, 5, 7]);
  });
});
