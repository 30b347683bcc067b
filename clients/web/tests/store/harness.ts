/** A source over the fake server, with time that tests turn by hand. */
import { expect } from "vitest";
import type { Box, Brick, BrickSource, Source, StepInfo, DatasetInfo, Vec3, Want } from "../../src/model";
import { createSource } from "../../src/source";
import { FakeDecoder, type FakeOptions, FakeServer } from "../net/fake_server";

export interface Options extends FakeOptions {
  readonly budget?: number;
  readonly samples?: boolean;
}

export class Harness {
  readonly server: FakeServer;
  readonly decoder = new FakeDecoder();
  readonly source: Source;
  readonly waits: { readonly ms: number; readonly go: () => void }[] = [];
  opened!: { readonly info: DatasetInfo; readonly steps: readonly StepInfo[] };

  private constructor(options: Options) {
    this.server = new FakeServer(options);
    this.source = createSource("http://fake", {
      transport: this.server.transport(), decoder: options.samples === true ? null : this.decoder,
      budget: options.budget ?? 2 ** 30,
      sleep: (ms, signal) => new Promise((resolve, reject) => {
        signal?.addEventListener("abort", () => { reject(new Error("aborted")); });
        this.waits.push({ ms, go: resolve });
      }),
    });
  }

  static async open(options: Options = {}): Promise<Harness> {
    const harness = new Harness(options);
    harness.opened = await harness.source.open("run42");
    return harness;
  }

  bricks(step = 0, field = "speed"): BrickSource {
    return this.source.bricks(this.opened, { dataset: "run42", field, step });
  }

  /** All that waits goes on. */
  passTime(): void {
    for (const wait of this.waits.splice(0)) wait.go();
  }

  get whole(): Box {
    return { begin: [0, 0, 0], end: this.server.dims };
  }

  patchesIn(box: Box): number[] {
    const [nx, ny, nz] = this.server.counts;
    return Array.from({ length: nx * ny * nz }, (_, i) => i).filter((patch) => {
      const [begin, end] = [this.server.patchBegin(patch), this.server.patchEnd(patch)];
      return [0, 1, 2].every((a) => begin[a]! < box.end[a]! && box.begin[a]! < end[a]!);
    });
  }

  /** The brick is what the server would send. */
  check(brick: Brick | null, patch: number, level: number, step = 0, layer = this.server.rougher.length): void {
    expect([brick?.patch, brick?.level, brick?.damaged]).toEqual([patch, level, false]);
    expect([...brick!.samples]).toEqual(this.server.patchLevel(patch, level, step, layer).map(Math.fround));
  }

  /** Nothing goes past the header of a read until the returned function is called. */
  hold(which: (read: FakeServer["reads"][number]) => boolean = () => true): () => void {
    let open: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => { open = resolve; });
    this.server.beforeMessage = (read, _message, index) => (index > 0 && which(read) ? gate : undefined);
    return () => {
      this.server.beforeMessage = () => undefined;
      open();
    };
  }
}

export function wantOf(box: Box, level: number, more: Partial<Want> = {}): Want {
  return { box, level, focus: box.begin, tier: "visible", ...more };
}

export function boxOf(begin: Vec3, end: Vec3): Box {
  return { begin, end };
}
