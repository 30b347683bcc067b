/** A server in memory, over connect's own router. What it sends follows docs/protocol.md, not the code under test. */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport, type HandlerContext, type Transport } from "@connectrpc/connect";
import { DataType, type DatasetManifest, DatasetManifestSchema, type StepManifest,
         StepManifestSchema } from "../../build/proto/quarry/v1/dataset_pb";
import { Encoding, LevelEndSchema, QuarryService, ReadEndSchema, type ReadRequest, type ReadResponse,
         ReadResponseSchema } from "../../build/proto/quarry/v1/service_pb";
import { type DecodedPatch, type DecodeJob, kTile, type PatchDecoder } from "../../src/reading";
import { ViewerError } from "../../src/model";

export type Three = [number, number, number];

export interface FakeOptions {
  readonly dims?: Three;
  readonly patch?: Three;
  readonly levels?: number;
  readonly steps?: readonly number[];
  readonly coder?: string;
  /** Tolerances of the layers of accuracy before the last. Their samples are larger than those of the last by these. */
  readonly rougher?: readonly number[];
  /** There is another grid before that of the field. */
  readonly second?: boolean;
  /** Value of the field, by position and step. */
  readonly value?: (x: number, y: number, z: number, step: number) => number;
  /** Patches whose payload of a level and of finer ones is damaged. */
  readonly damage?: ReadonlyMap<number, number>;
}

interface ReadRecord {
  readonly dataset: string;
  readonly step: number;
  readonly begin: Three;
  readonly end: Three;
  readonly first: number;
  readonly level: number;
  readonly layer: number;
  readonly encoding: "patches" | "samples" | "coded";
  /** The error that coding may add. */
  readonly recode: number;
  readonly resumed: boolean;
  sent: number;
  /** "open", "done", or "aborted" by the client. */
  state: string;
}

const kEncodings = { [Encoding.SAMPLES]: "samples", [Encoding.PATCHES]: "patches", [Encoding.CODED]: "coded" } as const;

const three = (f: (a: number) => number): Three => [f(0), f(1), f(2)];
const ceilShift = (n: number, level: number): number => Math.ceil(n / 2 ** level);

export class FakeServer {
  readonly dims: Three;
  readonly patch: Three;
  readonly levels: number;
  readonly coder: string;
  readonly rougher: readonly number[];
  readonly second: boolean;
  steps: number[];
  readonly reads: ReadRecord[] = [];
  calls: string[] = [];
  /** Calls for statistics and points: the method, the field, the layer. */
  readonly asked: [string, string, number | undefined][] = [];
  /** Called before each message of a read; may wait, or throw. */
  beforeMessage: (record: ReadRecord, message: ReadResponse, index: number) => Promise<void> | void = () => undefined;
  /** Called at the start of each call. */
  beforeCall: (method: string, context: HandlerContext) => void = () => undefined;
  /** Changes what is sent. */
  tamper: (message: ReadResponse) => ReadResponse = (message) => message;
  manifest: () => DatasetManifest = () => this.goodManifest();
  pageSize = 3;
  /** Questions for steps with their subfiles, which the viewer does not need. */
  withSubfiles = 0;
  nextPage: (token: string) => string = (token) => token;
  openWatches = 0;
  /** Messages after which a read ends in good order. */
  cutAfter = Infinity;
  /** The ends of levels and of the read come in messages of their own. */
  endsApart = false;
  datasets: string[] = ["run42"];
  /** One of them that is listed by its name alone. */
  unread: { name: string; late: boolean } | null = null;
  watchers: ((step: number | Error) => void)[] = [];
  readonly value: (x: number, y: number, z: number, step: number) => number;
  readonly damage: Map<number, number>;

  constructor(options: FakeOptions = {}) {
    this.dims = options.dims ?? [20, 12, 9];
    this.patch = options.patch ?? [8, 4, 4];
    this.levels = options.levels ?? 3;
    this.steps = [...(options.steps ?? [0])];
    this.rougher = options.rougher ?? [];
    this.second = options.second ?? false;
    this.coder = options.coder ?? "interpolate";
    this.value = options.value ?? ((x, y, z, step) => x + 100 * y + 10_000 * z + 0.5 * step);
    this.damage = new Map(options.damage);
  }

  get counts(): Three {
    return three((a) => Math.ceil(this.dims[a]! / this.patch[a]!));
  }

  private tolerance(layer: number): number {
    return this.rougher[layer] ?? 0.01;
  }

  patchBegin(patch: number): Three {
    const [nx, ny] = this.counts;
    const at = [patch % nx, Math.floor(patch / nx) % ny, Math.floor(patch / (nx * ny))];
    return three((a) => at[a]! * this.patch[a]!);
  }

  patchEnd(patch: number): Three {
    const begin = this.patchBegin(patch);
    return three((a) => Math.min(this.dims[a]!, begin[a]! + this.patch[a]!));
  }

  /** Samples of a box of a level, x fastest. */
  samples(begin: Three, end: Three, level: number, step: number, layer = this.rougher.length): number[] {
    const out: number[] = [];
    const off = this.rougher[layer] ?? 0;
    for (let z = begin[2]; z < end[2]; ++z)
      for (let y = begin[1]; y < end[1]; ++y)
        for (let x = begin[0]; x < end[0]; ++x) out.push(this.value(x * 2 ** level, y * 2 ** level, z * 2 ** level, step) + off);
    return out;
  }

  patchLevel(patch: number, level: number, step: number, layer = this.rougher.length): number[] {
    const [begin, end] = [this.patchBegin(patch), this.patchEnd(patch)];
    return this.samples(three((a) => ceilShift(begin[a]!, level)), three((a) => ceilShift(end[a]!, level)), level, step, layer);
  }

  goodManifest(): DatasetManifest {
    const axes = { origin: [1, 2, 3], spacing: [0.5, 0.25, 2], axisNames: ["x", "y", "z"], axisUnits: ["m", "m", "m"] };
    const other = { ...axes, dims: [5, 4, 1], patch: [2, 2, 1], levels: 2, hasAxis: [true, true, false] };
    return create(DatasetManifestSchema, {
      formatVersion: 4, order: 1,
      grids: [...(this.second ? [other] : []), { ...axes, dims: this.dims, patch: this.patch, levels: this.levels }],
      fields: [{
        grid: this.second ? 1 : 0,
        name: "speed", dtype: DataType.FLOAT32, units: "m/s", codec: this.coder, bound: { case: "tolerance", value: 0.01 },
        rougher: [...this.rougher],
      }],
      time: { units: "days since 2001-01-01", calendar: "noleap" },
    });
  }

  stepManifest(step: number): StepManifest {
    const levels = (tolerance: number, bytes: number) => Array.from({ length: this.levels }, (_, level) => (
      { level, maxError: tolerance * 4 ** level, bytes: BigInt(Math.floor(bytes / 8 ** level)), coverage: 1 }));
    return create(StepManifestSchema, {
      formatVersion: 4, step: BigInt(step), time: step / 10, fields: [{
        name: "speed", tolerance: 0.01, min: 0, max: 90_000, valid: BigInt(this.dims[0] * this.dims[1] * this.dims[2]),
        levels: levels(0.01, 4000),
        rougher: this.rougher.map((tolerance) => ({ tolerance, levels: levels(tolerance, 1000) })),
      }],
    });
  }

  publish(step: number): void {
    this.steps.push(step);
    for (const watcher of this.watchers.splice(0)) watcher(step);
  }

  breakWatches(error: Error): void {
    for (const watcher of this.watchers.splice(0)) watcher(error);
  }

  transport(): Transport {
    return createRouterTransport(({ service }) => {
      service(QuarryService, {
        listDatasets: (request, context) => {
          this.begin("ListDatasets", context);
          const from = request.pageToken === "" ? 0 : Number(request.pageToken);
          const to = Math.min(this.datasets.length, from + this.pageSize);
          return {
            datasets: this.datasets.slice(from, to).map((name) => (name === this.unread?.name ? this.unread :
              { name, grids: this.manifest().grids, steps: BigInt(this.steps.length), fields: 1n })),
            nextPageToken: this.nextPage(to < this.datasets.length ? `${to}` : ""),
          };
        },
        getDataset: (request, context) => {
          this.begin("GetDataset", context);
          if (!request.withoutSubfiles && !request.manifestOnly) this.withSubfiles += 1;
          if (!this.datasets.includes(request.dataset)) throw new ConnectError(`no dataset "${request.dataset}"`, Code.NotFound);
          if (request.manifestOnly) return { manifest: this.manifest() };
          const from = request.pageToken === "" ? 0 : Number(request.pageToken);
          const to = Math.min(this.steps.length, from + this.pageSize);
          return {
            manifest: this.manifest(), steps: this.steps.slice(from, to).map((step) => this.stepManifest(step)),
            nextPageToken: to < this.steps.length ? `${to}` : "",
            dates: this.steps.slice(from, to).map((step) => `date ${step}`),
          };
        },
        read: (request, context) => this.read(request, context),
        watchSteps: (request, context) => {
          if (!request.withoutSubfiles) this.withSubfiles += 1;
          return this.watch(request.after, context);
        },
        getStatistics: (request, context) => {
          this.begin("GetStatistics", context);
          this.asked.push(["GetStatistics", request.query?.field ?? "", request.query?.layer]);
          const at = { value: 2, low: 1, high: 3 };
          const histogram = { begin: 0, end: 4, counts: [1n, 9n], low: [0n, 0n], high: [10n, 10n] };
          const percentiles = [{ percent: 50, at: { ...at, unresolved: true } }];
          return { statistics: { valid: 10n, missing: 2n, min: at, max: at, mean: at, stddev: at, percentiles, histogram } };
        },
        readPoints: (request, context) => {
          this.begin("ReadPoints", context);
          this.asked.push(["ReadPoints", request.field, request.layer]);
          const { coordinates: at, step } = request;
          const values: number[] = [];
          for (let i = 0; i < at.length; i += 3) values.push(this.value(at[i]!, at[i + 1]!, at[i + 2]!, Number(step ?? 0n)));
          return { step: request.step ?? 0n, maxError: 0.01, values };
        },
      });
    });
  }

  private begin(method: string, context: HandlerContext): void {
    this.calls.push(method);
    this.beforeCall(method, context);
  }

  private async *watch(after: bigint | undefined, context: HandlerContext): AsyncGenerator<{ step: StepManifest; date: string }> {
    this.begin("WatchSteps", context);
    ++this.openWatches;
    context.signal.addEventListener("abort", () => { --this.openWatches; }, { once: true });
    let last = after === undefined ? -1 : Number(after);
    for (;;) {
      for (const step of this.steps) {
        if (step <= last) continue;
        last = step;
        yield { step: this.stepManifest(step), date: `date ${step}` };
      }
      const next = await new Promise<number | Error | null>((resolve) => {
        this.watchers.push(resolve);
        context.signal.addEventListener("abort", () => { resolve(null); }, { once: true });
      });
      if (next === null) return;
      if (next instanceof Error) throw next;
    }
  }

  private async *read(request: ReadRequest, context: HandlerContext): AsyncGenerator<ReadResponse> {
    this.begin("Read", context);
    const query = request.query!;
    const level = query.target.case === "level" ? query.target.value : 0;
    const record: ReadRecord = {
      dataset: query.dataset, layer: query.layer ?? this.rougher.length, step: Number(query.step ?? 0n), first: query.firstLevel ?? level, level, sent: 0, state: "open",
      begin: three((a) => query.box!.begin[a]!), end: three((a) => query.box!.end[a]!), resumed: request.resumeAfter.length > 0,
      encoding: kEncodings[request.encoding],
      recode: request.recode.case === "recodeError" ? request.recode.value : 0,
    };
    this.reads.push(record);
    context.signal.addEventListener("abort", () => { if (record.state === "open") record.state = "aborted"; }, { once: true });
    const all = record.encoding === "patches" ? [...this.patchMessages(record)] : [...this.sampleMessages(record), ...this.tileMessages(record)];
    const header = all[0]!;
    const from = record.resumed ? new DataView(Uint8Array.from(request.resumeAfter).buffer).getUint32(0) + 1 : 1;
    try {
      const messages = [header, ...all.slice(from)];
      for (const [index, message] of (this.endsApart ? messages.flatMap(apart) : messages).entries()) {
        if (index >= this.cutAfter) break;
        await this.beforeMessage(record, message, index);
        if (context.signal.aborted) return;
        ++record.sent;
        yield this.tamper(message);
      }
      record.state = "done";
    } finally {
      if (record.state === "open") record.state = context.signal.aborted ? "aborted" : "broken";
    }
  }

  /** @param end  the level ends with this message, and the read with that of the last level */
  private message(record: ReadRecord, index: number, part: ReadResponse["part"], end: number | null = null): ReadResponse {
    const position = new Uint8Array(4);
    new DataView(position.buffer).setUint32(0, index);
    const message = create(ReadResponseSchema, { part, position });
    if (end === null) return message;
    message.levelEnd = create(LevelEndSchema, { level: end, maxError: this.tolerance(record.layer) * 4 ** end });
    if (end === record.level) {
      message.readEnd = create(ReadEndSchema);
      message.position = new Uint8Array();
    }
    return message;
  }

  /** Patches of the box, and the header. */
  private outline(record: ReadRecord): { header: ReadResponse["part"]; patches: number[] } {
    const [nx, ny, nz] = this.counts;
    const patches = Array.from({ length: nx * ny * nz }, (_, i) => i).filter((patch) => {
      const [begin, end] = [this.patchBegin(patch), this.patchEnd(patch)];
      return [0, 1, 2].every((a) => begin[a]! < record.end[a]! && record.begin[a]! < end[a]!);
    });
    const levels = [];
    for (let level = record.first; level >= record.level; --level) {
      const begin = three((a) => ceilShift(record.begin[a]!, level));
      const bytes = patches.reduce((sum, patch) => sum + 4 * this.patchLevel(patch, level, 0).length, 0);
      levels.push({ level, begin, shape: three((a) => ceilShift(record.end[a]!, level) - begin[a]!), maxError: this.tolerance(record.layer) * 4 ** level + record.recode,
                    codingError: record.recode, bytes: BigInt(bytes), coverage: 1 });
    }
    const value = { dtype: DataType.FLOAT32, step: BigInt(record.step), levels, field: "speed", number: 0n, count: 1n, layer: record.layer };
    return { header: create(ReadResponseSchema, { part: { case: "header", value } }).part, patches };
  }

  private *patchMessages(record: ReadRecord): Generator<ReadResponse> {
    const { header, patches } = this.outline(record);
    let index = 0;
    yield this.message(record, index++, header);
    for (let level = record.first; level >= record.level; --level) {
      for (let i = 0; i < patches.length; i += 2) {
        const some = patches.slice(i, i + 2);
        const coarsest = level === record.first ? this.levels - 1 : level;
        const data: number[] = [];
        const list = some.map((patch) => {
          const added = [];
          for (let l = coarsest; l >= level && l > (this.damage.get(patch) ?? -1); --l) {
            const bytes = new Uint8Array(Float32Array.from(this.patchLevel(patch, l, record.step, record.layer)).buffer);
            for (const byte of bytes) data.push(byte);
            added.push({ maskSize: 0n, size: BigInt(bytes.length), maskChecksum: 0n, checksum: 0n });
          }
          return { patch: BigInt(patch), levels: added, damaged: added.length < coarsest - level + 1 };
        });
        const isLost = some.some((patch) => this.damage.get(patch) === this.levels - 1);
        if (isLost) throw new ConnectError("a patch is damaged at every level", Code.DataLoss);
        const value = { level, patches: list, data: Uint8Array.from(data) };
        const { part } = create(ReadResponseSchema, { part: { case: "patches", value } });
        yield this.message(record, index++, part, i + 2 >= patches.length ? level : null);
      }
    }
  }

  /** One block for every layer of samples: blocks that cross patches, to hold clients to what is promised. */
  private *sampleMessages(record: ReadRecord): Generator<ReadResponse> {
    let index = 0;
    yield this.message(record, index++, this.outline(record).header);
    for (let level = record.first; level >= record.level && record.encoding === "samples"; --level) {
      const [begin, end] = [three((a) => ceilShift(record.begin[a]!, level)), three((a) => ceilShift(record.end[a]!, level))];
      for (let z = begin[2]; z < end[2]; ++z) {
        const samples = this.samples([begin[0], begin[1], z], [end[0], end[1], z + 1], level, record.step, record.layer);
        const value = {
          level, blocks: [{ begin: [begin[0], begin[1], z], shape: [end[0] - begin[0], end[1] - begin[1], 1] }],
          data: new Uint8Array(Float32Array.from(samples).buffer),
        };
        const { part } = create(ReadResponseSchema, { part: { case: "samples", value } });
        yield this.message(record, index++, part, z === end[2] - 1 ? level : null);
      }
    }
  }

  /** Two tiles in each plane of samples, cut where no patch ends; their bytes are the samples. */
  private *tileMessages(record: ReadRecord): Generator<ReadResponse> {
    let index = 1;
    for (let level = record.first; level >= record.level && record.encoding === "coded"; --level) {
      const [begin, end] = [three((a) => ceilShift(record.begin[a]!, level)), three((a) => ceilShift(record.end[a]!, level))];
      for (let z = begin[2]; z < end[2]; ++z) {
        const middle = begin[0] + Math.ceil((end[0] - begin[0]) / 2) - 1;
        const tiles = [[begin[0], middle] as const, [middle, end[0]] as const].filter(([from, to]) => from < to).map(([from, to]) => {
          const samples = this.samples([from, begin[1], z], [to, end[1], z + 1], level, record.step, record.layer);
          const bytes = new Uint8Array(Float32Array.from(samples, (one) => coded(one, record.recode)).buffer);
          return { bytes, tile: { begin: [from, begin[1], z], shape: [to - from, end[1] - begin[1], 1], size: bytes.length } };
        });
        const data = Uint8Array.from(tiles.flatMap(({ bytes }) => [...bytes]));
        const { part } = create(ReadResponseSchema, { part: { case: "coded", value: { level, tiles: tiles.map(({ tile }) => tile), data } } });
        yield this.message(record, index++, part, z === end[2] - 1 ? level : null);
      }
    }
  }
}

/** A sample after coding, which here rounds to multiples of twice the error. */
export function coded(sample: number, error: number): number {
  return error === 0 ? sample : Math.round(sample / (2 * error)) * 2 * error;
}

/** A message, with its ends in messages of their own. */
function apart(message: ReadResponse): ReadResponse[] {
  const { part, levelEnd, readEnd, position } = message;
  return [{ part }, { levelEnd }, { readEnd }].filter((one) => Object.values(one)[0] !== undefined)
    .map((one) => create(ReadResponseSchema, { ...one, position }));
}

/** Payload of the fake server is samples as they are. Keeps the promises of PatchDecoder. */
export class FakeDecoder implements PatchDecoder {
  jobs: DecodeJob[] = [];
  ended: number[] = [];
  /** Throws, or waits. */
  before: (job: DecodeJob) => Promise<void> | void = () => undefined;
  private readonly kept = new Map<string, number>();

  async decode(job: DecodeJob, signal?: AbortSignal): Promise<DecodedPatch> {
    this.jobs.push(job);
    if (job.coder === kTile) {
      const samples = new Float32Array(Uint8Array.from(job.payloads[0]!.payload).buffer);
      await this.before(job);
      return { level: 0, samples, validity: null, damage: null };
    }
    const name = `${job.answer}/${job.patch}`;
    const first = job.target + job.payloads.length - 1;
    const due = (this.kept.get(name) ?? job.levels) - 1;
    if (first !== due) throw new ViewerError("failed_precondition", `level ${first} follows ${due + 1}`);
    if (job.keep) this.kept.set(name, job.target);
    else this.kept.delete(name);
    const bytes = Uint8Array.from(job.payloads.at(-1)!.payload);
    await this.before(job);
    signal?.throwIfAborted();
    return { level: job.target, samples: new Float32Array(bytes.buffer), validity: null, damage: null };
  }

  endAnswer(answer: number): void {
    this.ended.push(answer);
  }

  close(): void {
    this.jobs = [];
  }
}

/** All that is due without waiting for time. */
export async function settle(turns = 200): Promise<void> {
  for (let i = 0; i < turns; ++i) await new Promise((resolve) => { setImmediate(resolve); });
}
