import { describe, expect, it } from "vitest";
import type { Brick, BrickSource, Box, Want } from "../../src/model";
import { createSource } from "../../src/net/index";
import { FakeDecoder, type FakeOptions, FakeServer, settle } from "../net/fake_server";

const whole = (server: FakeServer): Box => ({ begin: [0, 0, 0], end: server.dims });

export function wantOf(box: Box, level: number, more: Partial<Want> = {}): Want {
  return { box, level, focus: box.begin, tier: "visible", ...more };
}

async function open(options: FakeOptions & { budget?: number; samples?: boolean } = {}) {
  const server = new FakeServer(options);
  const decoder = new FakeDecoder();
  const waits: { ms: number; go: () => void }[] = [];
  const source = createSource("http://fake", {
    transport: server.transport(), decoder: options.samples === true ? null : decoder,
    ...(options.budget === undefined ? {} : { budget: options.budget }),
    sleep: (ms) => new Promise((resolve) => { waits.push({ ms, go: resolve }); }),
  });
  const opened = await source.open("run42");
  const bricks = (step = 0): BrickSource => source.bricks(opened, { dataset: "run42", field: "speed", step });
  return { server, decoder, source, opened, bricks, waits };
}

function expectBrick(server: FakeServer, brick: Brick | null, patch: number, level: number, step = 0): void {
  expect(brick?.level).toBe(level);
  expect([...brick!.samples]).toEqual(server.patchLevel(patch, level, step).map(Math.fround));
}

describe("bricks", () => {
  for (const samples of [false, true]) {
    it(`come coarse to fine and are what the server has (${samples ? "samples" : "patches"})`, async () => {
      const { server, bricks } = await open({ samples });
      const source = bricks();
      const seen: number[] = [];
      source.subscribe((some) => { for (const brick of some ?? []) seen.push(brick.level); });
      source.want([wantOf(whole(server), 0)]);
      await settle();

      expect(source.status.state).toBe("settled");
      expect(source.status.level).toBe(0);
      expect(server.reads.map((read) => read.encoding)).toEqual([samples ? "samples" : "patches"]);
      const patches = server.counts[0] * server.counts[1] * server.counts[2];
      for (let patch = 0; patch < patches; ++patch) {
        for (let level = server.reads[0]!.first; level >= 0; --level) expectBrick(server, source.best(patch, level), patch, level);
      }
    });
  }
});
