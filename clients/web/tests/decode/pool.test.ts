import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ViewerError } from "../../src/model";
import { Decoder } from "../../src/decode/decoder";
import type { DecodedPatch, DecodeJob } from "../../src/reading";
import type { Reply, Request } from "../../src/decode/messages";
import { DecoderPool, type WorkerLike } from "../../src/decode/pool";
import { serve, type WorkerScope } from "../../src/decode/worker";
import { readField } from "./dataset";
import { decodeLevels, GOLDEN, jobOf, MODULES } from "./modules";

const MODULE = MODULES[0][1];
const FIELD = readField(join(GOLDEN, "v2/golden.quarry"), 0, "near");
const PATCHES = FIELD.patches;
const EXPECTED = PATCHES.map((patch) => decodeLevels(new Decoder(MODULE), FIELD, patch));

/** Runs the code of a worker in this thread, a message each time that the test says so. */
class FakeWorker implements WorkerLike {
  onmessage: WorkerLike["onmessage"] = null;
  onmessageerror: WorkerLike["onmessageerror"] = null;
  onerror: WorkerLike["onerror"] = null;
  terminated = false;
  readonly inbox: Request[] = [];
  private readonly scope: WorkerScope = {
    onmessage: null,
    postMessage: (message: Reply, transfer) => {
      this.onmessage?.({ data: structuredClone(message, { transfer }) } as MessageEvent<Reply>);
    },
  };

  constructor() {
    serve(this.scope);
  }

  postMessage(message: Request, transfer: Transferable[]): void {
    this.inbox.push(message.kind === "load" ? message : structuredClone(message, { transfer }));
  }

  terminate(): void {
    this.terminated = true;
  }

  /** Handles messages until it has handled a job, or none is left. */
  step(): boolean {
    for (let message = this.inbox.shift(); message !== undefined; message = this.inbox.shift()) {
      this.scope.onmessage?.({ data: message } as MessageEvent<Request>);
      if (message.kind === "decode") return true;
    }
    return false;
  }

  die(): void {
    this.onerror?.({ message: "it ran into a wall" } as ErrorEvent);
  }
}

class Bench {
  readonly workers: FakeWorker[] = [];
  readonly pool: DecoderPool;
  readonly done: string[] = [];

  constructor(count: number, load: () => Promise<WebAssembly.Module> = () => Promise.resolve(MODULE), ahead = 0) {
    this.pool = new DecoderPool({
      workers: count, ahead, load, spawn: () => {
        const worker = new FakeWorker();
        this.workers.push(worker);
        return worker;
      },
    });
  }

  /** A job that notes its end: "patch level", or the code of its error. */
  decode(patch: number, first: number, target: number, change: Partial<DecodeJob> = {},
         signal?: AbortSignal): Promise<DecodedPatch | string> {
    return this.pool.decode(jobOf(FIELD, PATCHES[patch]!, first, target, change), signal).then((decoded) => {
      this.done.push(`${patch} ${decoded.level}`);
      return decoded;
    }, (error: unknown) => {
      const code = error instanceof ViewerError ? error.code : (error as Error).name;
      this.done.push(`${patch} ${code}`);
      return code;
    });
  }

  /** All work there is, in turns; then the promises. */
  async run(): Promise<void> {
    await settle();
    while (this.workers.map((worker) => !worker.terminated && worker.step()).some((worked) => worked)) await settle();
    await settle();
  }
}

async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe("DecoderPool", () => {
  it("decodes, and leaves the caller's bytes alone", async () => {
    const bench = new Bench(2);
    const job = jobOf(FIELD, PATCHES[0]!, 2, 0);
    const before = job.payloads.map(({ payload }) => payload.slice());

    const [decoded] = [bench.pool.decode(job)];
    await bench.run();

    expect((await decoded).samples).toEqual(new Float32Array(EXPECTED[0]![2]!.samples.buffer));
    expect(await decoded).toMatchObject({ level: 0, validity: null, damage: null });
    expect(job.payloads.map(({ payload }) => payload)).toEqual(before);
  });

  it("begins with the smallest priority, and keeps the order of a patch's levels", async () => {
    const bench = new Bench(1);
    void bench.decode(0, 2, 2, { priority: 5 });
    void bench.decode(1, 2, 0, { priority: 9 });
    void bench.decode(2, 2, 0, { priority: 1 });
    void bench.decode(3, 2, 0, { priority: 3 });
    void bench.decode(0, 1, 0, { priority: 2 });

    await bench.run();

    expect(bench.done).toEqual(["2 0", "0 2", "0 0", "3 0", "1 0"]);
  });

  it("gives all levels of a patch to the same worker, and work to every worker", async () => {
    const bench = new Bench(3);
    const jobs = [2, 1, 0].flatMap((level) => [0, 1, 2, 3].map((patch) => bench.decode(patch, level, level)));

    await bench.run();

    expect(bench.workers.length).toBe(3);
    const decoded = await Promise.all(jobs);
    for (const [i, result] of decoded.entries())
      expect((result as DecodedPatch).samples).toEqual(new Float32Array(EXPECTED[i % 4]![Math.floor(i / 4)]!.samples.buffer));
  });

  it.each([
    ["its answer has ended", (bench: Bench) => { bench.pool.endAnswer(0); }],
    ["its last level has come", (bench: Bench) => { void bench.decode(0, 0, 0); }],
  ])("lets a patch begin anywhere again once %s", async (_, end) => {
    const bench = new Bench(2);
    void bench.decode(0, 2, 1);
    await bench.run();
    end(bench);
    await bench.run();

    void bench.decode(1, 2, 0);
    void bench.decode(0, 2, 0);

    expect(bench.workers.length).toBe(2);
  });

  it("starts no more workers than it has work for", async () => {
    const bench = new Bench(4);
    void bench.decode(0, 2, 0);
    await bench.run();
    void bench.decode(1, 2, 0);
    await bench.run();

    expect(bench.workers.length).toBe(1);
  });

  it("drops what waits when its signal aborts, and the result of what is under way", async () => {
    const bench = new Bench(1);
    const [running, waiting] = [new AbortController(), new AbortController()];
    void bench.decode(0, 2, 0, {}, running.signal);
    void bench.decode(1, 2, 0);
    void bench.decode(2, 2, 0, {}, waiting.signal);
    await settle();
    waiting.abort();
    running.abort();
    await settle();
    expect(bench.done).toEqual(["2 AbortError", "0 AbortError"]);
    const posted = bench.workers[0]!.inbox.length;

    await bench.run();

    expect(bench.done.slice(2)).toEqual(["1 0"]);
    expect(posted).toBe(3);  // the module and two jobs: the third was never sent
    await expect(bench.pool.decode(jobOf(FIELD, PATCHES[0]!, 2, 0), AbortSignal.abort())).rejects.toThrow("abort");
  });

  it("gives small patches many at a time, and large ones two", async () => {
    const samples = PATCHES[0]!.shape.reduce((product, n) => product * n, 1);
    for (const [target, given] of [[0, 2], [2, 5]] as const) {
      const bench = new Bench(1, undefined, samples / 8);
      for (const patch of [0, 1, 2, 3]) void bench.decode(patch, 2, target);
      void bench.decode(0, 2, target, { answer: 9 });
      await settle();
      expect(bench.workers[0]!.inbox.length).toBe(1 + given);
      await bench.run();
      expect(bench.done.length).toBe(5);
    }
  });

  it("says that a level is missing whose patch was aborted before it", async () => {
    const bench = new Bench(1);
    const abort = new AbortController();
    for (const patch of [1, 2, 3]) void bench.decode(patch, 2, 0);
    void bench.decode(0, 2, 2, {}, abort.signal);
    void bench.decode(0, 1, 1);
    await settle();
    abort.abort();

    await bench.run();

    expect(bench.done).toContain("0 failed_precondition");
  });

  it("starts another worker for one that died; what waits goes on", async () => {
    const bench = new Bench(1);
    void bench.decode(0, 2, 2);
    await bench.run();
    for (const patch of [1, 2, 3]) void bench.decode(patch, 2, 0);
    void bench.decode(0, 1, 0);
    await settle();

    bench.workers[0]!.die();
    await bench.run();

    expect(bench.workers.map(({ terminated }) => terminated)).toEqual([true, false]);
    expect(bench.done).toEqual(["0 2", "1 internal", "2 failed_precondition", "3 0", "0 failed_precondition"]);
  });

  it("gives up on workers that never run", async () => {
    const bench = new Bench(2);
    for (let patch = 0; patch < 12; ++patch) void bench.decode(patch, 2, 0);
    await settle();
    for (let died = true; died;) {
      const living = bench.workers.filter(({ terminated }) => !terminated);
      died = living.length > 0;
      for (const worker of living) worker.die();
      await settle();
    }

    expect(bench.done.length).toBe(12);
    expect(bench.done.at(-1)).toBe("11 unavailable");
    expect(bench.workers.length).toBeLessThan(6);
  });

  it("reports damage of one patch alone", async () => {
    const bench = new Bench(1);
    const bad = jobOf(FIELD, PATCHES[0]!, 2, 0);
    const payloads = bad.payloads.map((level, i) => (i === 1 ? { ...level, checksum: level.checksum ^ 1n } : level));
    const damaged = bench.decode(0, 2, 0, { payloads });
    void bench.decode(1, 2, 0);
    void bench.decode(2, 2, 2, { payloads: [{ ...payloads[0]!, checksum: 1n }] });

    await bench.run();

    expect(await damaged).toMatchObject({ level: 2, samples: new Float32Array(EXPECTED[0]![0]!.samples.buffer) });
    expect(((await damaged) as DecodedPatch).damage).toMatch(/^level 1 of patch \d+ is damaged: checksum of the samples: /);
    expect(bench.done).toEqual(["0 2", "1 0", "2 data_loss"]);
  });

  it("ends an answer: in the queue and in the workers", async () => {
    const bench = new Bench(1);
    void bench.decode(0, 2, 1, { answer: 7 });
    await bench.run();
    for (const patch of [1, 2, 3]) void bench.decode(patch, 2, 0, { answer: patch === 3 ? 7 : 8 });
    await settle();

    bench.pool.endAnswer(7);
    void bench.decode(0, 0, 0, { answer: 7 });
    await bench.run();

    expect(bench.done).toEqual(["0 1", "3 cancelled", "1 0", "2 0", "0 failed_precondition"]);
  });

  it("says that there are no workers where the browser allows none", async () => {
    const pool = new DecoderPool({ workers: 2, load: () => Promise.resolve(MODULE), spawn: () => { throw new Error("not allowed"); } });
    await expect(pool.decode(jobOf(FIELD, PATCHES[0]!, 2, 0))).rejects.toMatchObject({ code: "unavailable" });
  });

  it("says why the decoder cannot be loaded, and tries again with the next job", async () => {
    let loads = 0;
    const bench = new Bench(1, () => (++loads === 1 ? Promise.reject(new Error("status 404")) : Promise.resolve(MODULE)));
    await expect(bench.pool.decode(jobOf(FIELD, PATCHES[0]!, 2, 0))).rejects.toThrow("cannot load the decoder: status 404");

    void bench.decode(1, 2, 0);
    await bench.run();

    expect(bench.done).toEqual(["1 0"]);
  });

  it("rejects all and ends its workers when it is closed", async () => {
    const bench = new Bench(1);
    for (const patch of [0, 1, 2]) void bench.decode(patch, 2, 0);
    await settle();

    bench.pool.close();
    void bench.decode(3, 2, 0);
    await settle();

    expect(bench.done).toHaveLength(4);
    expect(new Set(bench.done.map((line) => line.slice(2)))).toEqual(new Set(["unavailable"]));
    expect(bench.workers[0]!.terminated).toBe(true);
  });

  it.each([
    ["no payload", { payloads: [] }, "invalid_argument"],
    ["more payloads than levels", { target: 1, levels: 3 }, "invalid_argument"],
    ["a shape that is no number of samples", { shape: [4, 0.5, 4] as const }, "invalid_argument"],
    ["too many levels", { levels: 33 }, "invalid_argument"],
    ["a coder of the future", { coder: "neural" }, "unimplemented"],
  ])("refuses %s", async (_, change, code) => {
    const bench = new Bench(1);

    await expect(bench.pool.decode(jobOf(FIELD, PATCHES[0]!, 2, 0, change))).rejects.toMatchObject({ code });
  });
});
