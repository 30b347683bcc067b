/**
 * A source of computed fields, with levels that arrive one after the other. Samples of coarse levels are those of the field
 * itself, so a picture of a coarse level is right where the field is linear between them.
 */
import type {
  Attributes,
  Bounded,
  BoxStatistics,
  Brick,
  BrickSource,
  DatasetInfo,
  FieldInfo,
  FieldStepInfo,
  GridInfo,
  LoadStatus,
  Selection,
  Source,
  StepInfo,
  Vec3,
  Want,
} from "../../src/model";
import { gridOf, ViewerError } from "../../src/model";

export interface FakeField {
  readonly name: string;
  readonly unit: string;
  readonly min: number;
  readonly max: number;
  /** Among all of the dataset; left out: the first. */
  readonly grid?: number;
  readonly attributes?: Attributes;
  /** The first step alone has it. */
  readonly still?: boolean;
  readonly coordinate?: boolean;
  readonly complex?: FieldInfo["complex"];
  /** Left out: the field has one layer of accuracy. */
  readonly layer?: { readonly stored: string; readonly number: number; readonly count: number; readonly tolerance: number };
  /** Value by level-0 sample and step; NaN is missing. */
  value(x: number, y: number, z: number, step: number): number;
}

export interface FakeGrid {
  readonly dims: Vec3;
  readonly patch: Vec3;
  readonly levels: number;
  readonly spacing?: Vec3;
  readonly origin?: Vec3;
  readonly axisNames?: readonly [string, string, string];
  readonly axisUnits?: readonly [string, string, string];
  readonly coordinates?: GridInfo["coordinates"];
  readonly axisAttributes?: GridInfo["axisAttributes"];
  readonly axisTexts?: GridInfo["axisTexts"];
}

/** With its first grid. */
export interface FakeDataset extends FakeGrid {
  readonly name: string;
  readonly moreGrids?: readonly FakeGrid[];
  readonly attributes?: Attributes;
  readonly texts?: DatasetInfo["texts"];
  readonly steps: number;
  readonly fields: readonly FakeField[];
  /** Patches whose payload is damaged from this level on. */
  readonly damaged?: ReadonlyMap<number, number>;
}

export interface FakeOptions {
  /** Milliseconds between bricks that arrive together; 0: as soon as possible. */
  readonly delay?: number;
  /** The finest level that ever arrives. */
  readonly stopAt?: number;
  /** The finest level of a patch that ever arrives. */
  readonly stopFor?: (patch: number) => number;
  readonly token?: boolean;
}

function gridsOf(dataset: FakeDataset): readonly FakeGrid[] {
  return [dataset, ...(dataset.moreGrids ?? [])];
}

function fakeGridOf(dataset: FakeDataset, field: FakeField): FakeGrid {
  return gridsOf(dataset)[field.grid ?? 0]!;
}

function hasMissing(field: FakeField, grid: FakeGrid): boolean {
  for (let i = 0; i < 4096; ++i) {
    const at = grid.dims.map((n, a) => ((i * 7919 * (a + 1)) >> a) % n);
    if (Number.isNaN(field.value(at[0]!, at[1]!, at[2]!, 0))) return true;
  }
  return false;
}

export function fakeGrid(grid: FakeGrid): GridInfo {
  return {
    dims: grid.dims,
    patch: grid.patch,
    levels: grid.levels,
    origin: grid.origin ?? [0, 0, 0],
    spacing: grid.spacing ?? [1, 1, 1],
    axisNames: grid.axisNames ?? ["x", "y", "z"],
    axisUnits: grid.axisUnits ?? ["m", "m", "m"],
    coordinates: grid.coordinates ?? [null, null, null],
    axisAttributes: grid.axisAttributes ?? [[], [], []],
    axisTexts: grid.axisTexts ?? [[], [], []],
  };
}

export function fakeInfo(dataset: FakeDataset): DatasetInfo {
  return {
    name: dataset.name,
    grids: gridsOf(dataset).map(fakeGrid),
    attributes: dataset.attributes ?? [],
    texts: dataset.texts ?? [],
    timeUnit: "",
    timeName: "",
    timeAttributes: [],
    fields: dataset.fields.map((field) => ({
      name: field.name,
      type: "float32",
      unit: field.unit,
      coder: "interpolate",
      fill: null,
      stored: field.layer?.stored ?? field.name,
      layer: field.layer?.number ?? 0,
      layers: field.layer?.count ?? 1,
      refers: false,
      grid: field.grid ?? 0,
      attributes: field.attributes ?? [],
      still: field.still ?? false,
      coordinate: field.coordinate ?? false,
      complex: field.complex ?? null,
    })),
  };
}

function fakeFieldStep(field: FakeField, grid: FakeGrid): FieldStepInfo {
  const tolerance = field.layer?.tolerance ?? 0.001;
  return {
    min: field.min,
    max: field.max,
    valid: grid.dims[0] * grid.dims[1] * grid.dims[2],
    tolerance,
    hasMissing: hasMissing(field, grid),
    levels: Array.from({ length: grid.levels }, (_, level) => ({
      maxError: tolerance * 3 ** level,
      bytes: (40000 * (1 + (field.layer?.number ?? 0))) / 4 ** level,
      coverage: 1,
    })),
  };
}

function fakeStep(dataset: FakeDataset, step: number): StepInfo {
  const fields = new Map<string, FieldStepInfo>(
    dataset.fields
      .filter((field) => step === 0 || field.still !== true)
      .map((field) => [field.name, fakeFieldStep(field, fakeGridOf(dataset, field))]),
  );
  return { step, time: step * 0.25, date: "", fields };
}

export function makeBrick(dataset: FakeDataset, field: FakeField, step: number, patch: number, level: number): Brick {
  const { dims, patch: size } = fakeGridOf(dataset, field);
  const counts = dims.map((n, a) => Math.ceil(n / size[a]!));
  const at = [patch % counts[0]!, Math.floor(patch / counts[0]!) % counts[1]!, Math.floor(patch / (counts[0]! * counts[1]!))];
  const begin = at.map((p, a) => Math.ceil((p * size[a]!) / 2 ** level)) as unknown as Vec3;
  const end = at.map((p, a) => Math.ceil(Math.min((p + 1) * size[a]!, dims[a]!) / 2 ** level)) as unknown as Vec3;
  const [nx, ny, nz] = [0, 1, 2].map((a) => end[a]! - begin[a]!) as [number, number, number];
  const samples = new Float32Array(nx * ny * nz);
  let missing = 0;
  for (let z = 0, i = 0; z < nz; ++z)
    for (let y = 0; y < ny; ++y)
      for (let x = 0; x < nx; ++x, ++i) {
        samples[i] = field.value((x + begin[0]) * 2 ** level, (y + begin[1]) * 2 ** level, (z + begin[2]) * 2 ** level, step);
        if (Number.isNaN(samples[i])) ++missing;
      }
  const validity = missing > 0 ? Uint8Array.from(samples, (v) => (Number.isNaN(v) ? 0 : 1)) : null;
  return { patch, level, box: { begin, end }, damaged: (dataset.damaged?.get(patch) ?? -1) >= level, samples, validity };
}

class FakeBricks implements BrickSource {
  readonly patches: Vec3;
  readonly field: FieldInfo;
  readonly grid: GridInfo;
  readonly step: FieldStepInfo;
  private readonly have = new Map<number, Brick[]>();
  private readonly listeners = new Set<(bricks: readonly Brick[] | null) => void>();
  private wants: readonly Want[] = [];
  private running = false;
  private closed = false;
  private received = 0;

  constructor(
    private readonly dataset: FakeDataset,
    private readonly fake: FakeField,
    readonly selection: Selection,
    readonly info: DatasetInfo,
    steps: readonly StepInfo[],
    private readonly options: FakeOptions,
  ) {
    this.grid = gridOf(info, selection.field);
    this.patches = this.grid.dims.map((n, a) => Math.ceil(n / this.grid.patch[a]!)) as unknown as Vec3;
    this.field = info.fields.find((field) => field.name === selection.field)!;
    this.step = steps.find((step) => step.step === selection.step)!.fields.get(selection.field)!;
  }

  best(patch: number, finest: number): Brick | null {
    let best: Brick | null = null;
    for (const brick of this.have.get(patch) ?? [])
      if (brick.level >= finest && (!best || brick.level < best.level)) best = brick;
    return best;
  }

  want(wants: readonly Want[]): void {
    this.wants = wants;
    if (!this.running) void this.run();
  }

  private next(): { readonly level: number; readonly patches: readonly number[] } | null {
    const [nx, ny, nz] = this.patches;
    for (let level = this.grid.levels - 1; level >= (this.options.stopAt ?? 0); --level) {
      const patches: number[] = [];
      for (let p = 0; p < nx * ny * nz; ++p) {
        const at = [p % nx, Math.floor(p / nx) % ny, Math.floor(p / (nx * ny))];
        const wanted = this.wants.some(
          (want) =>
            want.level <= level
            && [0, 1, 2].every(
              (a) => at[a]! * this.grid.patch[a]! < want.box.end[a]! && (at[a]! + 1) * this.grid.patch[a]! > want.box.begin[a]!,
            ),
        );
        if (wanted && level >= (this.options.stopFor?.(p) ?? 0) && !this.have.get(p)?.some((brick) => brick.level === level))
          patches.push(p);
      }
      if (patches.length > 0) return { level, patches: patches.slice(0, 16) };
    }
    return null;
  }

  private async run(): Promise<void> {
    this.running = true;
    for (let next = this.next(); next && !this.closed; next = this.next()) {
      await new Promise((resolve) => setTimeout(resolve, this.options.delay ?? 0));
      const bricks = next.patches.map((patch) => {
        const damage = this.dataset.damaged?.get(patch) ?? -1;
        const shown = makeBrick(
          this.dataset,
          this.fake,
          this.selection.step,
          patch,
          next.level > damage ? next.level : damage + 1,
        );
        return next.level > damage
          ? shown
          : { ...makeBrick(this.dataset, this.fake, this.selection.step, patch, next.level), damaged: true };
      });
      for (const brick of bricks) this.have.set(brick.patch, [...(this.have.get(brick.patch) ?? []), brick]);
      this.received += bricks.reduce((sum, brick) => sum + brick.samples.byteLength / 8, 0);
      this.tell(bricks);
    }
    this.running = false;
    this.tell(null);
  }

  private tell(bricks: readonly Brick[] | null): void {
    for (const listener of this.listeners) listener(bricks);
  }

  get status(): LoadStatus {
    const next = this.next();
    const target = Math.min(...this.wants.map((want) => want.level), this.grid.levels - 1);
    const level = next ? Math.min(this.grid.levels - 1, next.level + 1) : Math.max(target, this.options.stopAt ?? 0);
    return {
      state: this.wants.length === 0 ? "idle" : next ? (next.level === this.grid.levels - 1 ? "coarse" : "refining") : "settled",
      message: null,
      level,
      target,
      maxError: this.step.levels[level]?.maxError ?? null,
      coverage: 1,
      received: this.received,
      expected: this.received * 1.4,
      memory: this.received * 8,
      budget: 512 * 2 ** 20,
      damagedPatches: this.dataset.damaged?.size ?? 0,
    };
  }

  get damaged(): ReadonlySet<number> {
    return new Set(this.dataset.damaged?.keys() ?? []);
  }

  subscribe(listener: (bricks: readonly Brick[] | null) => void): void {
    this.listeners.add(listener);
  }

  close(): void {
    this.closed = true;
    this.listeners.clear();
  }
}

function boxValues(field: FakeField, step: number, box: { readonly begin: Vec3; readonly end: Vec3 }, level: number): number[] {
  const stride = 2 ** level;
  const values: number[] = [];
  for (let z = Math.ceil(box.begin[2] / stride) * stride; z < box.end[2]; z += stride)
    for (let y = Math.ceil(box.begin[1] / stride) * stride; y < box.end[1]; y += stride)
      for (let x = Math.ceil(box.begin[0] / stride) * stride; x < box.end[0]; x += stride)
        values.push(field.value(x, y, z, step));
  return values;
}

function statisticsOf(values: readonly number[], level: number, percentiles: readonly number[], bins: number): Omit<BoxStatistics, "field"> {
  const valid = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  const bounded = (value: number): Bounded => ({
    value,
    low: value - 0.001,
    high: value + 0.001,
    unresolved: false,
  });
  const mean = valid.reduce((sum, value) => sum + value, 0) / Math.max(1, valid.length);
  const variance = valid.reduce((sum, value) => sum + (value - mean) ** 2, 0) / Math.max(1, valid.length);
  const [begin, end] = [valid[0] ?? 0, valid.at(-1) ?? 1];
  const counts = new Array<number>(bins).fill(0);
  for (const value of valid) counts[Math.min(bins - 1, Math.floor(((value - begin) / (end - begin || 1)) * bins))]! += 1;
  return {
    level,
    valid: valid.length,
    missing: values.length - valid.length,
    min: bounded(begin),
    max: bounded(end),
    mean: bounded(mean),
    stddev: bounded(Math.sqrt(variance)),
    percentiles: percentiles.map((percent) => ({
      percent,
      at: bounded(valid[Math.floor(((valid.length - 1) * percent) / 100)] ?? 0),
    })),
    histogram: { begin, end, counts },
  };
}

export function fakeSource(
  datasets: readonly FakeDataset[],
  options: FakeOptions = {},
): Source & { publish(dataset: string): void; token: string | null } {
  const steps = new Map(datasets.map((dataset) => [dataset.name, dataset.steps]));
  const waiting = new Set<() => void>();
  const find = (name: string): FakeDataset => {
    const dataset = datasets.find((each) => each.name === name);
    if (!dataset) throw new ViewerError("not_found", `no dataset "${name}" on this server; the list has what there is`);
    return dataset;
  };
  const stepsOf = (dataset: FakeDataset): StepInfo[] =>
    Array.from({ length: steps.get(dataset.name)! }, (_, i) => fakeStep(dataset, i * 10));
  const source = {
    token: null as string | null,
    publish(name: string): void {
      steps.set(name, steps.get(name)! + 1);
      for (const wake of waiting) wake();
    },
    async list() {
      await Promise.resolve();
      if (options.token === true && source.token !== "secret")
        throw new ViewerError("unauthenticated", "this server requires a token");
      return datasets.map((each) => ({
        name: each.name,
        dims: each.dims,
        grids: gridsOf(each).length,
        steps: each.steps,
        fields: each.fields.length,
      }));
    },
    async open(name: string) {
      await Promise.resolve();
      if (options.token === true && source.token !== "secret")
        throw new ViewerError("unauthenticated", "this server requires a token");
      const dataset = find(name);
      return { info: fakeInfo(dataset), steps: stepsOf(dataset) };
    },
    async *watch(name: string, after: number | null, signal: AbortSignal) {
      find(name);
      let last = after ?? -1;
      while (!signal.aborted) {
        for (const step of stepsOf(find(name)))
          if (step.step > last) {
            last = step.step;
            yield step;
          }
        await new Promise<void>((resolve) => {
          waiting.add(resolve);
          signal.addEventListener("abort", () => {
            resolve();
          });
        });
      }
    },
    async statistics(
      selection: Selection,
      box: { begin: Vec3; end: Vec3 },
      level: number,
      wish: { percentiles: readonly number[]; bins: number },
    ) {
      await Promise.resolve();
      const dataset = find(selection.dataset);
      const field = dataset.fields.find((each) => each.name === selection.field)!;
      const values = boxValues(field, selection.step, box, level);
      return { field: field.name, ...statisticsOf(values, level, wish.percentiles, wish.bins) };
    },
    async points(selection: Selection, indices: readonly number[]) {
      await Promise.resolve();
      const dataset = find(selection.dataset);
      const field = dataset.fields.find((each) => each.name === selection.field)!;
      const values: number[] = [];
      for (let i = 0; i < indices.length; i += 3)
        values.push(field.value(indices[i]!, indices[i + 1]!, indices[i + 2]!, selection.step));
      return { values, maxError: 0.001 };
    },
    bricks(opened: { readonly info: DatasetInfo; readonly steps: readonly StepInfo[] }, selection: Selection): BrickSource {
      const dataset = find(selection.dataset);
      return new FakeBricks(
        dataset,
        dataset.fields.find((each) => each.name === selection.field)!,
        selection,
        opened.info,
        opened.steps,
        options,
      );
    },
  };
  return source as unknown as Source & { publish(dataset: string): void; token: string | null };
}
