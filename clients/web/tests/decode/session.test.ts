import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ViewerError } from "../../src/model";
import { canDecode, Decoder, hasSimd } from "../../src/decode/decoder";
import { DecodeSession, DEFAULT_LIMITS, type SessionLimits } from "../../src/decode/session";
import type { DecodeRequest } from "../../src/decode/messages";
import { readField, type StoredPatch } from "./dataset";
import { decodeLevels, GOLDEN, MODULES, requestOf } from "./modules";

const MODULE = MODULES[0][1];
const FIELD = readField(join(GOLDEN, "v2/golden.quarry"), 0, "holes");
const EXPECTED = FIELD.patches.map((patch) => decodeLevels(new Decoder(MODULE), FIELD, patch));

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof ViewerError) return error.code;
    throw error;
  }
  return "ok";
}

/** The request with one bit of the payload of its i-th level changed. */
function flipped(request: DecodeRequest, i: number): DecodeRequest {
  const bytes = new Uint8Array(request.bytes.slice(0));
  const at = request.sizes.slice(0, i).reduce((sum, { mask, payload }) => sum + mask + payload, request.sizes[i]!.mask);
  expect(request.sizes[i]!.payload).toBeGreaterThan(0);
  bytes[at] = bytes[at]! ^ 1;
  return { ...request, bytes: bytes.buffer };
}

/** With the checksums of the bytes as they are: only decoding can notice. */
function resealed(request: DecodeRequest): DecodeRequest {
  const decoder = new Decoder(MODULE);
  let at = 0;
  const next = (size: number): bigint => decoder.checksum(new Uint8Array(request.bytes, (at += size) - size, size));
  return { ...request, checksums: request.sizes.map(({ mask, payload }) => ({ mask: next(mask), payload: next(payload) })) };
}

const LARGE = FIELD.patches.findIndex(({ levels }) => levels.every(({ payload }) => payload.length > 4));
const PATCH: StoredPatch = FIELD.patches[LARGE]!;
const LEVELS = EXPECTED[LARGE]!;

describe("DecodeSession", () => {
  it("decodes level by level what one request decodes at once", () => {
    const session = new DecodeSession(MODULE);

    const steps = [2, 1, 0].map((level) => session.decode(requestOf(FIELD, PATCH, level, level)));
    const whole = new DecodeSession(MODULE).decode(requestOf(FIELD, PATCH, 2, 0));

    expect(steps.map(({ level }) => level)).toEqual([2, 1, 0]);
    expect(steps.map(({ samples }) => new Uint8Array(samples))).toEqual(LEVELS.map(({ samples }) => samples));
    expect(steps.map(({ validity }) => new Uint8Array(validity!))).toEqual(LEVELS.map(({ validity }) => validity));
    expect(new Uint8Array(whole.samples)).toEqual(LEVELS[2]!.samples);
    expect(session.state.patches).toBe(0);
  });

  it("keeps patches of answers apart, until an answer ends", () => {
    const session = new DecodeSession(MODULE);
    session.decode(requestOf(FIELD, PATCH, 2, 1, { answer: 1 }));
    session.decode(requestOf(FIELD, PATCH, 2, 2, { answer: 2 }));

    session.endAnswer(1);

    expect(codeOf(() => session.decode(requestOf(FIELD, PATCH, 0, 0, { answer: 1 })))).toBe("failed_precondition");
    expect(session.decode(requestOf(FIELD, PATCH, 1, 1, { answer: 2 })).level).toBe(1);
    session.endAnswer(2);
    expect(session.state).toMatchObject({ patches: 0, readers: 0, readerBytes: 0, payloadBytes: 0 });
  });

  it("refuses a level that does not follow", () => {
    const session = new DecodeSession(MODULE);
    session.decode(requestOf(FIELD, PATCH, 2, 2));

    expect(codeOf(() => session.decode(requestOf(FIELD, PATCH, 0, 0)))).toBe("failed_precondition");
  });

  const finders = [["checksum", (request: DecodeRequest): DecodeRequest => request], ["decoder", resealed]] as const;
  it.each(finders)("shows the level before damage that the %s finds", (_, seal) => {
    const session = new DecodeSession(MODULE);
    // The first byte of a level's samples counts what is listed: a wrong one is noticed.
    const request = seal(flipped(requestOf(FIELD, PATCH, 2, 0, { keep: true }), 1));

    const reply = session.decode(request);

    expect(reply.level).toBe(2);
    expect(new Uint8Array(reply.samples)).toEqual(LEVELS[0]!.samples);
    expect(reply.damage).toContain(`level 1 of patch ${PATCH.patch} is damaged`);
    expect(codeOf(() => session.decode(requestOf(FIELD, PATCH, 0, 0)))).toBe("data_loss");
    expect(session.state).toMatchObject({ patches: 1, readers: 0, payloadBytes: 0 });
  });

  it("fails where no level is whole, and names checksums", () => {
    const session = new DecodeSession(MODULE);
    const request = requestOf(FIELD, PATCH, 2, 0);
    const stored = request.checksums[0]!.payload.toString(16).padStart(16, "0");

    const message = `level 2 of patch ${PATCH.patch} is damaged: checksum of the samples: ${stored} stored`;
    expect(() => session.decode(flipped(request, 0))).toThrow(message);
    expect(codeOf(() => session.decode(flipped(request, 0)))).toBe("data_loss");
  });

  it("closes readers for memory, and makes them again from the payload", () => {
    const session = new DecodeSession(MODULE, { ...DEFAULT_LIMITS, readers: 2 });
    for (const patch of FIELD.patches) session.decode(requestOf(FIELD, patch, 2, 1));

    expect(session.state).toMatchObject({ patches: FIELD.patches.length, readers: 2 });

    for (const [i, patch] of FIELD.patches.entries())
      expect(new Uint8Array(session.decode(requestOf(FIELD, patch, 0, 0)).samples)).toEqual(EXPECTED[i]![2]!.samples);
    expect(session.state.patches).toBe(0);
  });

  function keepAll(limits: Partial<SessionLimits>): DecodeSession {
    const session = new DecodeSession(MODULE, { ...DEFAULT_LIMITS, ...limits });
    for (const patch of FIELD.patches) session.decode(requestOf(FIELD, patch, 2, 1));
    return session;
  }

  it("bounds the bytes of readers", () => {
    const readerBytes = keepAll({}).state.readerBytes / 2;
    const session = keepAll({ readerBytes });

    expect(session.state.readerBytes).toBeLessThanOrEqual(readerBytes);
    expect(session.state.readerBytes).toBeGreaterThan(0);
    expect(codeOf(() => session.decode(requestOf(FIELD, FIELD.patches[0]!, 0, 0)))).toBe("ok");
  });

  it("bounds the bytes of payload: the oldest patches are to be asked for again", () => {
    const payloadBytes = keepAll({}).state.payloadBytes / 2;
    const session = keepAll({ payloadBytes });

    expect(session.state.payloadBytes).toBeLessThanOrEqual(payloadBytes);
    expect(codeOf(() => session.decode(requestOf(FIELD, FIELD.patches[0]!, 0, 0)))).toBe("failed_precondition");
    expect(codeOf(() => session.decode(requestOf(FIELD, FIELD.patches.at(-1)!, 0, 0)))).toBe("ok");
  });

  it("takes a fresh module where one has grown, and goes on", () => {
    const session = new DecodeSession(MODULE, { ...DEFAULT_LIMITS, moduleBytes: 1 });

    const steps = [2, 1, 0].map((level) => session.decode(requestOf(FIELD, PATCH, level, level)));

    expect(steps.map(({ samples }) => new Uint8Array(samples))).toEqual(LEVELS.map(({ samples }) => samples));
  });
});

describe("Decoder", () => {
  it("computes XXH3", () => {
    const decoder = new Decoder(MODULE);

    expect(decoder.checksum(new Uint8Array(0))).toBe(0x2d06800538d394c2n);
    for (const { payload, checksum } of PATCH.levels) expect(decoder.checksum(payload)).toBe(checksum);
  });

  it.each([
    ["an unknown coder", { coder: "validity" }, "unknown coder 0"],
    ["a coder that lacks the type", { coder: "wavelet-zfp", type: "int16" as const }, "does not code int16"],
    ["no samples", { shape: [0, 4, 4] as const }, "0x4x4"],
    ["too many samples", { shape: [1024, 1024, 65] as const }, "1024x1024x65"],
    ["a product beyond 64 bits", { shape: [2 ** 31 - 1, 2 ** 31 - 1, 2 ** 31 - 1] as const }, "has 1 to 67108864 samples"],
    ["a shape beyond 32 bits", { shape: [2 ** 32 + 1, 1, 1] as const }, "4294967297x1x1"],
    ["no level", { levels: 0 }, "0 levels"],
    ["too many levels", { levels: 33 }, "33 levels"],
  ])("refuses %s", (_, change, message) => {
    const decoder = new Decoder(MODULE);
    const layout = { coder: "interpolate", type: "float32" as const, shape: [4, 4, 4] as const, levels: 2, ...change };

    expect(() => decoder.open(layout)).toThrow(message);
    expect(decoder.broken).toBe(false);
  });

  it("knows what it can decode", () => {
    expect(canDecode("interpolate", "uint8")).toBe(true);
    expect(canDecode("wavelet-zfp", "uint8")).toBe(false);
    expect(canDecode("validity", "uint8")).toBe(false);
    expect(canDecode("toString", "uint8")).toBe(false);
    expect(hasSimd()).toBe(true);
  });
});
