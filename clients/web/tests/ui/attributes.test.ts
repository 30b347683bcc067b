import { describe, expect, it } from "vitest";
import { kStations } from "../fake/datasets";
import { fakeInfo } from "../fake/source";
import type { Attributes, AttributeValue, SampleType } from "../../src/model";
import { attributeGroups, fieldTitle, longName, valueText } from "../../src/ui/attributes";
import { fieldOptions, fieldsInOrder } from "../../src/ui/fields";
import { cut } from "../../src/ui/text";

const numbers = (type: SampleType, ...list: (number | bigint)[]): AttributeValue => ({ kind: "numbers", type, isList: true, numbers: list });
const text = (name: string, value: string): Attributes[number] => ({ name, value: { kind: "text", text: value } });

describe("values of attributes", () => {
  it("are texts as they are, and numbers with the digits of their type", () => {
    expect(valueText({ kind: "text", text: "sea <b>water</b>\nsalt" })).toBe("sea <b>water</b>\nsalt");
    expect(valueText({ kind: "json", json: "[true, null]" })).toBe("[true, null]");
    expect(valueText({ kind: "texts", texts: ["a, b", ""] })).toBe('"a, b", ""');
    expect(valueText(numbers("float32", Math.fround(0.1), Math.fround(1.17549435e-38), 16777216, NaN, -Infinity))).toBe(
      "0.1, 1.1754944e−38, 16777216, NaN, −Infinity",
    );
    expect(valueText(numbers("float64", 0.1, Math.fround(0.1), 1e21))).toBe("0.1, 0.10000000149011612, 1e21");
    expect(valueText(numbers("uint64", 2n ** 64n - 1n))).toBe("18446744073709551615");
    expect(valueText(numbers("int8", -128n))).toBe("−128");
    expect(valueText(numbers("int32"))).toBe("");
  });

  it("tell each number of float32 from its neighbours", () => {
    const view = new DataView(new ArrayBuffer(4));
    for (let i = 0, bits = 1; i < 2000; ++i, bits = (Math.imul(bits, 1664525) + 1013904223) >>> 0) {
      view.setUint32(0, bits);
      const value = view.getFloat32(0);
      if (Number.isFinite(value)) expect(Math.fround(Number(valueText(numbers("float32", value)).replaceAll("−", "-")))).toBe(value);
    }
  });

  it("are cut where they are long, and lists say how long they are", () => {
    expect(valueText({ kind: "text", text: "x".repeat(2 ** 20) })).toBe(`${"x".repeat(600)}…`);
    expect(valueText({ kind: "json", json: "1".repeat(2 ** 20) })).toBe(`${"1".repeat(600)}…`);
    expect(valueText(numbers("int16", ...Array.from({ length: 100_000 }, (_, i) => BigInt(i))))).toBe(
      "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … (100000 values)",
    );
    expect(valueText(numbers("int16", ...Array.from({ length: 12 }, (_, i) => BigInt(i))))).toBe("0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11");
    expect(valueText({ kind: "texts", texts: new Array<string>(50).fill("x".repeat(1000)) }).length).toBeLessThan(1100);
  });

  it("are not cut in the middle of a character", () => {
    expect(cut("ab𝄞cd", 3)).toBe("ab…");
    expect(cut("ab𝄞cd", 4)).toBe("ab𝄞…");
    expect(cut("abcd", 4)).toBe("abcd");
  });
});

describe("a field in words", () => {
  const kLong = text("long_name", " Sea  surface\ntemperature ");
  const kStandard = text("standard_name", "sea_surface_temperature");

  it("is its long name, with the standard one", () => {
    expect(fieldTitle([kStandard, kLong])).toBe("Sea surface temperature (sea_surface_temperature)");
    expect([fieldTitle([kLong]), fieldTitle([kStandard])]).toEqual(["Sea surface temperature", "sea_surface_temperature"]);
  });

  it("is nothing where the source does not say it, or not as a text", () => {
    expect([fieldTitle([]), fieldTitle([text("long_name", " \n")])]).toEqual([null, null]);
    expect(longName([{ name: "long_name", value: numbers("int8", 1n) }])).toBeNull();
  });

  it("is never longer than a line", () => {
    const endless = text("long_name", "x ".repeat(2 ** 19));
    expect(longName([endless], 60)!.length).toBe(61);
    expect(fieldTitle([endless, text("standard_name", "y".repeat(1000))])!.length).toBeLessThan(410);
  });
});

describe("what has attributes", () => {
  const field = { unit: "K", min: 0, max: 1, value: () => 0 };
  const info = fakeInfo({
    name: "d", dims: [4, 4, 4], patch: [4, 4, 4], levels: 1, steps: 1,
    attributes: [text("title", "a run")],
    axisAttributes: [[], [], [text("positive", "down")]],
    fields: [
      { ...field, name: "lat", unit: "degrees_north", coordinate: true },
      { ...field, name: "t", attributes: [text("long_name", "Temperature")] },
      { ...field, name: "s", unit: "" },
      { ...field, name: "lon", unit: "degrees_east", coordinate: true },
    ],
  });

  it("is the field on screen, its axes, the time and the dataset", () => {
    const groups = (name: string, more: Partial<typeof info> = {}): readonly string[] =>
      attributeGroups({ info: { ...info, ...more }, field: info.fields.find((each) => each.name === name)!, grid: info.grids[0]! })
        .map(({ title, attributes }) => `${title}: ${attributes.map((each) => each.name).join()}`);

    expect(groups("t")).toEqual(["Field t: long_name", "Axis z: positive", "Dataset d: title"]);
    const time = { timeAttributes: [text("axis", "T")], attributes: [] };
    expect(groups("s", time)).toEqual(["Axis z: positive", "Time: axis"]);
    expect(groups("s", { ...time, timeName: "time" })[1]).toBe("Time time: axis");
  });

  it("is also an axis with texts, and a text of the whole", () => {
    const stations = fakeInfo(kStations);
    const groups = attributeGroups({ info: stations, field: stations.fields[1]!, grid: stations.grids[0]! });
    const rows = (attributes: Attributes): string => attributes.map(({ name, value }) => `${name} ${valueText(value)}`).join("; ");
    expect(groups.map(({ title, attributes }) => `${title}: ${rows(attributes)}`))
      .toEqual([
        'Texts along station: station "Kiel", "Köln", "", "Málaga", "長崎", "Cabauw", "Oslo", '
          + `"a  ${"long ".repeat(16).slice(0, 77)}…"; country "D", "D", "", "ES", "JP", "NL", "N", "-"`,
        "Text station: cf_role timeseries_id",
        'Texts of the dataset: region "everywhere"',
        "Text region: long_name Region",
      ]);
  });

  it("has both parts of complex samples in one place, under the name of the whole", () => {
    expect(fieldOptions(fakeInfo(kStations))).toEqual([
      { value: "psi.real", text: "psi.real [V]", group: "psi (complex)" },
      { value: "psi.imag", text: "psi.imag [V]", group: "psi (complex)" },
      { value: "wind", text: "wind [m/s]", group: null },
    ]);
  });

  it("is in the list of fields by name, unit and long name, coordinates after the others", () => {
    expect(fieldsInOrder(info).map(({ name }) => name)).toEqual(["t", "s", "lat", "lon"]);
    expect(fieldOptions(info)).toEqual([
      { value: "t", text: "t [K] · Temperature", group: null },
      { value: "s", text: "s", group: null },
      { value: "lat", text: "lat [degrees_north]", group: "Coordinates" },
      { value: "lon", text: "lon [degrees_east]", group: "Coordinates" },
    ]);
  });
});
