import { describe, expect, it } from "vitest";
import type { GridInfo, Vec3 } from "../../src/model";
import { Assembler } from "../../src/store/assemble";
import { levelBox, patchBox, patchNumber, patchPosition, thin } from "../../src/geometry";
import { samplesFrom, spread, validityOf } from "../../src/store/samples";
import { boxOf } from "./harness";

describe("levels", () => {
  it("hold the samples whose place is in the box", () => {
    // From docs/protocol.md: [ceil(begin / 2^l), ceil(end / 2^l)).
    expect(levelBox(boxOf([3, 0, 5], [9, 1, 6]), 1)).toEqual(boxOf([2, 0, 3], [5, 1, 3]));
  });
});

describe("patches", () => {
  const grid = { dims: [13, 9, 4] as Vec3, patch: [4, 4, 4] as Vec3 };

  it("are cut at the far ends", () => {
    expect(patchBox(grid, 3)).toEqual(boxOf([12, 0, 0], [13, 4, 4]));
    expect(patchBox(grid, 11)).toEqual(boxOf([12, 8, 0], [13, 9, 4]));
  });

  it("are numbered x fastest", () => {
    expect(patchPosition([4, 3, 1], 7)).toEqual([3, 1, 0]);
    expect(patchNumber([4, 3, 2], 1, 2, 1)).toBe(1 + 4 * (2 + 3 * 1));
  });
});

describe("integers of 64 bits", () => {
  it("are the nearest numbers", () => {
    const sent = new Uint8Array(BigInt64Array.of(-3n, 9007199254740993n, -9223372036854775808n).buffer);
    expect([...samplesFrom("int64", sent)]).toEqual([-3, 9007199254740992, -(2 ** 63)]);
    const unsigned = new Uint8Array(BigUint64Array.of(7n, 18446744073709551615n).buffer);
    expect([...samplesFrom("uint64", unsigned)]).toEqual([7, 2 ** 64]);
  });
});

describe("samples of another level", () => {
  it("are repeated where a level is damaged", () => {
    const coarse = { samples: Float32Array.of(10, 20, 30), validity: Uint8Array.of(1, 0, 1) };
    // Level-2 samples 4, 5, 6 for level-1 samples 9 to 12: sample i shows floor(i / 2), or the first that there is.
    const { samples, validity } = spread("float32", coarse, boxOf([4, 0, 0], [7, 1, 1]), 2, boxOf([7, 0, 0], [13, 1, 1]), 1);

    expect([...samples]).toEqual([10, 10, 10, 20, 20, 30]);
    expect([...validity!]).toEqual([1, 1, 1, 0, 0, 1]);
  });

  it("are every second one of the finer level", () => {
    const fine = { patch: 0, level: 0, box: boxOf([4, 2, 0], [9, 5, 1]), damaged: false, validity: null,
                   samples: Int16Array.from({ length: 15 }, (_, i) => i) };
    const coarse = thin("int16", fine, 1, boxOf([2, 1, 0], [5, 3, 1]));

    // x = 4, 6, 8 and y = 2, 4 of the finer level.
    expect([...coarse.samples]).toEqual([0, 2, 4, 10, 12, 14]);
    expect([coarse.level, coarse.box.begin[0]]).toEqual([1, 2]);
  });
});

describe("validity", () => {
  it("is that of numbers that are finite and not the fill value, in the field's own type", () => {
    expect([...validityOf(Float32Array.of(1, NaN, Infinity, -1e10), -1e10)!]).toEqual([1, 0, 0, 0]);
    expect([...validityOf(Float32Array.of(0.1, 1), 0.1)!]).toEqual([0, 1]);
    expect([...validityOf(Int16Array.of(-999, 3), -999)!]).toEqual([0, 1]);
  });

  it("is null where all are valid, and tells minus zero from zero", () => {
    expect(validityOf(Float32Array.of(1, 0), -0)).toBeNull();
    expect(validityOf(Uint8Array.of(0, 255), null)).toBeNull();
  });
});

describe("blocks", () => {
  const grid = { dims: [6, 2, 1], patch: [4, 4, 4], levels: 1 } as unknown as GridInfo;
  const field = { name: "f", type: "uint16", unit: "", coder: "", fill: 7, layers: 1, layer: 0, stored: "f", refers: false, grid: 0, attributes: [], still: false, coordinate: false, complex: null } as const;
  const kGrid = boxOf([0, 0, 0], [6, 2, 1]);
  const bytes = (...values: number[]): Uint8Array => new Uint8Array(Uint16Array.from(values).buffer);

  it("become bricks when these are whole, whatever the cut", () => {
    const assembler = new Assembler(grid, field, kGrid);
    expect(assembler.add(0, { box: boxOf([0, 0, 0], [6, 1, 1]), damaged: [], samples: Uint16Array.of(1, 2, 3, 4, 5, 6) })).toEqual([]);
    const bricks = assembler.add(0, { box: boxOf([0, 1, 0], [5, 2, 1]), damaged: [], samples: Uint16Array.of(7, 8, 9, 10, 11) });
    expect(bricks.map((brick) => [brick.patch, ...brick.samples])).toEqual([[0, 1, 2, 3, 4, 7, 8, 9, 10]]);
    expect([...bricks[0]!.validity!]).toEqual([1, 1, 1, 1, 0, 1, 1, 1]);
    const box = boxOf([5, 1, 0], [6, 2, 1]);
    const last = assembler.add(0, { box, damaged: [box], samples: Uint16Array.of(12) });

    expect(last.map((brick) => [brick.patch, brick.damaged, ...brick.samples])).toEqual([[1, true, 5, 6, 11, 12]]);
  });

  it("may begin at any byte of a message", () => {
    const message = new Uint8Array(25);
    message.set(bytes(...Array.from({ length: 12 }, (_, i) => i)), 1);

    expect([...samplesFrom("uint16", message.subarray(1))]).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  });

  it("are damaged where they say so, and parts of patches where the answer is one", () => {
    const assembler = new Assembler(grid, field, boxOf([0, 1, 0], [6, 2, 1]));
    const samples = Uint16Array.of(1, 2, 3, 4, 5, 6);
    const bricks = assembler.add(0, { box: boxOf([0, 1, 0], [6, 2, 1]), damaged: [boxOf([4, 1, 0], [5, 2, 1])], samples });

    expect(bricks.map((brick) => [brick.box, brick.damaged, ...brick.samples])).toEqual([
      [boxOf([0, 1, 0], [4, 2, 1]), false, 1, 2, 3, 4], [boxOf([4, 1, 0], [6, 2, 1]), true, 5, 6],
    ]);
  });
});
