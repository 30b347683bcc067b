import type { Attributes } from "../../src/model";
import type { FakeDataset } from "./source";

const kWake = (x: number, y: number, z: number, step: number): number => {
  const [u, v, w] = [x / 128, y / 64 - 0.5, z / 64 - 0.5];
  const phase = 22 * (u - step * 0.004);
  const spread = 0.05 + 0.16 * u;
  const street = Math.sin(phase) * Math.exp(-(((v - 0.11 * Math.cos(phase) - 0.02 * Math.sin(8 * w)) / spread) ** 2));
  return street * Math.exp(-1.2 * u) * Math.min(1, 9 * Math.max(0, u - 0.12)) * (1 + 0.25 * Math.sin(9 * w + phase / 2));
};

const kLatitudes = Float64Array.from({ length: 65 }, (_, i) => -80 + 160 * (i / 64) + 8 * Math.sin((i / 64) * Math.PI * 2));

/** Fields on four grids: centres of cells, their sides along x, their surface, and cells twice as long whose y goes downwards. */
export const kOcean: FakeDataset = {
  name: "ocean",
  dims: [64, 32, 16],
  patch: [16, 16, 16],
  levels: 5,
  moreGrids: [
    { dims: [65, 32, 16], patch: [16, 16, 16], levels: 5, origin: [-0.5, 0, 0], axisNames: ["xu", "y", "z"] },
    { dims: [64, 32, 1], patch: [16, 16, 1], levels: 3 },
    { dims: [32, 32, 16], patch: [16, 16, 16], levels: 5, origin: [0, 31, 0], spacing: [2, -1, 1], axisNames: ["half", "south", "z"] },
  ],
  steps: 2,
  fields: [
    { name: "temp", unit: "K", min: 270, max: 300, value: (x, y, z) => 270 + x / 8 + y / 4 + z / 2 },
    { name: "u", unit: "m/s", min: 0, max: 65, grid: 1, value: (x) => x },
    { name: "ssh", unit: "m", min: 0, max: 3, grid: 2, value: (x, y) => x / 32 + y / 32 },
    { name: "ice", unit: "1", min: 0, max: 32, grid: 3, value: (_, y) => y },
  ],
};

const text = (name: string, value: string): Attributes[number] => ({ name, value: { kind: "text", text: value } });

/** Cells in a grid that follows a coast, down to 110 m: their places are fields, and the ground below them does not change. */
export const kShelf: FakeDataset = {
  name: "shelf",
  dims: [32, 24, 12],
  patch: [16, 16, 8],
  levels: 3,
  axisNames: ["i", "j", "depth"],
  axisUnits: ["", "", "m"],
  spacing: [1, 1, 10],
  axisAttributes: [[], [], [text("positive", "down"), text("long_name", "Depth below the surface")]],
  attributes: [
    text("title", "Shelf <sea>"),
    { name: "versions", value: { kind: "numbers", type: "int32", isList: true, numbers: Array.from({ length: 20 }, (_, i) => i) } },
  ],
  moreGrids: [
    { dims: [32, 24, 1], patch: [16, 16, 1], levels: 3, axisNames: ["i", "j", ""], axisUnits: ["", "", ""] },
    { dims: [32, 24, 1], patch: [16, 16, 1], levels: 3, axisNames: ["iu", "j", ""], axisUnits: ["", "", ""] },
  ],
  steps: 3,
  fields: [
    { name: "lat", unit: "degrees_north", min: 52, max: 56, grid: 1, coordinate: true, still: true, value: (x, y) => 52 + 0.1 * y + 0.01 * x },
    {
      name: "temp", unit: "K", min: 270, max: 290, value: (_x, _y, z) => 288 - z,
      attributes: [text("long_name", "Sea water temperature"), text("standard_name", "sea_water_temperature")],
    },
    { name: "u", unit: "m/s", min: 0, max: 1, grid: 2, value: (x) => x / 32 },
    { name: "bathymetry", unit: "m", min: 0, max: 120, grid: 1, still: true, value: (x) => 3 * x },
    { name: "lon", unit: "degrees_east", min: 4, max: 8, grid: 1, coordinate: true, still: true, value: (x, y) => 4 + 0.1 * x - 0.01 * y },
  ],
};

const kPlaces = ["Kiel", "Köln", "", "Málaga", "長崎", "Cabauw", "Oslo", `a  ${"long ".repeat(40)} name`];

/** Stations that have names and countries, in one region; what they measure has amplitude and phase. */
export const kStations: FakeDataset = {
  name: "stations",
  dims: [8, 6, 1],
  patch: [8, 4, 1],
  levels: 3,
  axisNames: ["station", "height", ""],
  axisUnits: ["", "m", ""],
  axisTexts: [
    [
      { name: "station", texts: kPlaces, attributes: [text("cf_role", "timeseries_id")] },
      { name: "country", texts: ["D", "D", "", "ES", "JP", "NL", "N", "-"], attributes: [] },
    ],
    [],
    [],
  ],
  texts: [{ name: "region", texts: ["everywhere"], attributes: [text("long_name", "Region")] }],
  steps: 1,
  fields: [
    { name: "psi.real", unit: "V", min: 0, max: 7, complex: { of: "psi", imaginary: false }, value: (x) => x },
    { name: "wind", unit: "m/s", min: 0, max: 12, value: (x, y) => x + y },
    { name: "psi.imag", unit: "V", min: 0, max: 5, complex: { of: "psi", imaginary: true }, value: (_x, y) => y },
  ],
};

/** A field in three layers of accuracy, each a field of the page, and a field in one. */
export const kLadder: FakeDataset = {
  name: "ladder",
  dims: [32, 32, 32],
  patch: [16, 16, 16],
  levels: 4,
  steps: 2,
  fields: [
    { name: "temp", unit: "K", min: 270, max: 300, layer: { stored: "temp", number: 2, count: 3, tolerance: 0 }, value: (x) => 270 + x / 8 },
    { name: "temp, layer 1", unit: "K", min: 270, max: 300, layer: { stored: "temp", number: 1, count: 3, tolerance: 0.0125 }, value: (x) => 270 + x / 8 },
    { name: "temp, layer 0", unit: "K", min: 270, max: 300, layer: { stored: "temp", number: 0, count: 3, tolerance: 0.5 }, value: (x) => 270.25 + x / 8 },
    { name: "p", unit: "", min: 0, max: 32, value: (_, y) => y },
  ],
};

/** Datasets for the tests of the page. */
export const kFakes: readonly FakeDataset[] = [
  {
    name: "wake",
    dims: [128, 64, 64],
    patch: [32, 32, 32],
    levels: 5,
    spacing: [0.01, 0.01, 0.01],
    steps: 9,
    fields: [
      { name: "vorticity", unit: "1/s", min: -0.8, max: 0.8, value: kWake },
      { name: "speed", unit: "m/s", min: 0, max: 1, value: (x, y, z, step) => Math.abs(kWake(x, y, z, step)) ** 0.7 },
    ],
  },
  {
    name: "ramp",
    dims: [129, 97, 65],
    patch: [32, 32, 32],
    levels: 5,
    steps: 1,
    fields: [{ name: "ramp", unit: "", min: 0, max: 288, value: (x, y, z) => x + y + z }],
  },
  {
    name: "checkerboard",
    dims: [64, 64, 64],
    patch: [16, 16, 16],
    levels: 4,
    steps: 1,
    fields: [
      {
        name: "cells",
        unit: "",
        min: 0,
        max: 1,
        value: (x, y, z) => (Math.floor(x / 8) + Math.floor(y / 8) + Math.floor(z / 8)) % 2,
      },
    ],
  },
  {
    name: "ball",
    dims: [96, 96, 96],
    patch: [32, 32, 32],
    levels: 5,
    steps: 3,
    damaged: new Map([[13, 1]]),
    fields: [
      {
        name: "density",
        unit: "kg/m3",
        min: 0,
        max: 1,
        value: (x, y, z) => {
          const r = Math.hypot(x - 47.5, y - 47.5, z - 47.5) / 46;
          const hole = Math.hypot(x - 60, y - 35, z - 47.5) < 12 || r > 1;
          return hole ? NaN : 1 - r * r;
        },
      },
    ],
  },
  {
    name: "map",
    dims: [128, 65, 1],
    patch: [32, 32, 1],
    levels: 5,
    steps: 1,
    axisNames: ["longitude", "latitude", "z"],
    axisUnits: ["degrees", "degrees", ""],
    spacing: [2.8125, 1, 1],
    coordinates: [null, kLatitudes, null],
    fields: [
      {
        name: "temperature",
        unit: "K",
        min: 230,
        max: 305,
        value: (x, y) => 300 - (Math.abs(kLatitudes[y]!) / 90) ** 2 * 60 + 3 * Math.sin(x / 9 + y / 7),
      },
    ],
  },
  {
    name: "line",
    dims: [1000, 1, 1],
    patch: [64, 1, 1],
    levels: 5,
    steps: 1,
    spacing: [0.001, 1, 1],
    axisNames: ["time", "y", "z"],
    axisUnits: ["s", "", ""],
    fields: [
      {
        name: "voltage",
        unit: "V",
        min: -1.4,
        max: 1.4,
        value: (x) => (x > 600 && x < 640 ? NaN : Math.sin(x / 40) + 0.4 * Math.sin(x / 7)),
      },
    ],
  },
  kOcean,
  kShelf,
  kStations,
  kLadder,
];
