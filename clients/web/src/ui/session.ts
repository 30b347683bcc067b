/** The open data: a dataset, the field at a step on screen, the one that replaces it once it has something to show. */
import { asViewerError } from "../errors";
import { mapVec, patchesMeeting, patchNumbers, wholeGrid } from "../geometry";
import type { Box, Brick, BrickSource, GridInfo, Opened, Selection, Source, Vec3, ViewerError, ViewState,
              Want } from "../model";
import { gridOf } from "../model";
import { fittingDistance } from "../render/camera";
import { extents } from "../render/layout";
import { fieldsInOrder } from "./fields";

export function resolveStep(opened: Opened, field: string, step: number | "live"): number | null {
  const having = opened.steps.filter((each) => each.fields.has(field)).map((each) => each.step);
  if (having.length === 0) return null;
  if (step === "live") return having.at(-1)!;
  return having.includes(step)
    ? step
    : having.reduce((best, each) => (Math.abs(each - step) < Math.abs(best - step) ? each : best));
}

/** One step stands for all. A simulation may write a second one, and with it the field changes as others do. */
export function isStill(opened: Opened, field: string): boolean {
  const still = opened.info.fields.some((each) => each.name === field && each.still);
  return still && opened.steps.filter((step) => step.fields.has(field)).length < 2;
}

/** Whether a source has the bricks of a selection, and knows the dataset as it is open now. */
export function isOf(source: BrickSource | null, { info }: Opened, { dataset, field, step }: Selection): boolean {
  const has = source?.selection;
  return source?.info === info && has?.dataset === dataset && has.field === field && has.step === step;
}

/** A field of a dataset on screen, and the one that is to follow it. */
export class Feed {
  shown: BrickSource | null = null;
  next: BrickSource | null = null;
  private wants: readonly Want[] = [];
  private wanted = "";

  constructor(
    private readonly source: Source,
    private readonly onBricks: (from: BrickSource, bricks: readonly Brick[]) => void,
    private readonly onStatus: () => void,
    private readonly onSwap: () => void,
  ) {}

  get latest(): BrickSource | null {
    return this.next ?? this.shown;
  }

  select(opened: Opened, selection: Selection): void {
    if (isOf(this.latest, opened, selection)) return;
    this.dropNext();
    if (isOf(this.shown, opened, selection)) {
      this.shown!.want(this.wants);
      return;
    }
    const next = this.source.bricks(opened, selection);
    const sameGrid = this.shown?.grid === next.grid;
    this.next = next;
    next.subscribe((bricks) => {
      this.arrived(next, bricks);
    });
    // A picture of another grid is of no use until the new one is there.
    if (!sameGrid) this.swap();
  }

  private arrived(from: BrickSource, bricks: readonly Brick[] | null): void {
    if (from === this.next && (this.covered(from) || from.status.state === "failed")) this.swap();
    else if (from === this.shown && bricks) this.onBricks(from, bricks);
    this.onStatus();
  }

  /** Whether each patch that is wanted has something to show. */
  private covered(from: BrickSource): boolean {
    const visible = this.wants.filter((want) => want.tier === "visible");
    return (
      visible.length > 0
      && visible.every((want) => patchesOf(from, want.box).every((patch) => from.best(patch, want.level, want.slice) !== null))
    );
  }

  private swap(): void {
    this.shown?.close();
    this.shown = this.next;
    this.next = null;
    this.onSwap();
  }

  private dropNext(): void {
    this.next?.close();
    this.next = null;
  }

  /** Tells sources what changes: each time they look for what to ask next. */
  want(wants: readonly Want[]): void {
    const key = JSON.stringify([wants, this.latest?.selection]);
    if (key === this.wanted) return;
    this.wanted = key;
    this.wants = wants;
    if (this.next) {
      this.shown?.want([]);
      this.next.want(wants);
      if (this.covered(this.next)) this.swap();
    } else {
      this.shown?.want(wants);
    }
  }

  close(): void {
    this.dropNext();
    this.shown?.close();
    this.shown = null;
    this.wanted = "";
  }
}

export function patchesOf(source: BrickSource, box: Box): readonly number[] {
  return [...patchNumbers(source.patches, patchesMeeting(source.grid, box))];
}

/** One open dataset, watched for new steps while somebody follows them. */
export class OpenDataset {
  opened: Opened | null = null;
  /** The dataset that is open, or on its way. */
  name = "";
  private abort = new AbortController();
  private watching: AbortController | null = null;

  constructor(
    private readonly source: Source,
    private readonly onChange: () => void,
    private readonly onError: (error: ViewerError) => void,
  ) {}

  open(dataset: string, again = false): void {
    if (dataset === this.name && !again) return;
    this.close();
    this.name = dataset;
    if (dataset === "") return;
    const { signal } = (this.abort = new AbortController());
    this.source.open(dataset, signal).then(
      (opened) => {
        if (signal.aborted) return;
        this.opened = opened;
        this.onChange();
      },
      (error: unknown) => {
        if (!signal.aborted) this.onError(asViewerError(error));
      },
    );
  }

  follow(on: boolean): void {
    if (on === (this.watching !== null) || !this.opened) return;
    this.watching?.abort();
    this.watching = null;
    if (on) void this.watch((this.watching = new AbortController()).signal);
  }

  private async watch(signal: AbortSignal): Promise<void> {
    const last = this.opened?.steps.at(-1)?.step ?? null;
    try {
      for await (const step of this.source.watch(this.name, last, signal)) {
        if (signal.aborted || !this.opened) return;
        const others = this.opened.steps.filter((each) => each.step !== step.step);
        this.opened = { info: this.opened.info, steps: [...others, step].sort((a, b) => a.step - b.step) };
        this.onChange();
      }
    } catch (error) {
      if (!signal.aborted) this.onError(asViewerError(error));
    }
    if (!signal.aborted) this.watching = null;
  }

  close(): void {
    this.abort.abort();
    this.watching?.abort();
    this.watching = null;
    this.opened = null;
    this.name = "";
  }
}

/** From the front and above, as near as the whole box allows. */
export function defaultCamera(grid: GridInfo): ViewState["camera"] {
  const camera = { azimuth: 300, elevation: 24, distance: 2 };
  return { ...camera, distance: fittingDistance(camera, extents(grid, wholeGrid(grid)), 1.1) };
}

export function middleOf(grid: GridInfo): Vec3 {
  return mapVec((a) => Math.floor(grid.dims[a] / 2));
}

export function initialState(opened: Opened): ViewState {
  const { info } = opened;
  const fields = fieldsInOrder(info);
  const field = fields.find((each) => opened.steps.some((step) => step.fields.has(each.name))) ?? fields[0];
  const newest = opened.steps.filter((step) => step.fields.has(field?.name ?? "")).at(-1);
  // The step of a field that does not change is not one that the others begin with.
  const step = (field?.still === true ? opened.steps.at(-1) : newest)?.step ?? 0;
  const values = newest?.fields.get(field?.name ?? "");
  const grid = gridOf(info, field?.name ?? "");
  // Values of both signs, and neither of them rare: zero is the middle of the colours.
  const signed =
    values !== undefined
    && values.min < 0
    && values.max > 0
    && Math.min(-values.min, values.max) > 0.2 * Math.max(-values.min, values.max);
  return {
    dataset: info.name,
    field: field?.name ?? "",
    step,
    cursor: middleOf(grid),
    clip: null,
    pane: "all",
    camera: defaultCamera(grid),
    colour: { map: signed ? "balance" : "viridis", mode: "auto", low: null, high: null },
    volume: { threshold: 0.25, opacity: 0.6, mode: "ray" },
    level: null,
    profile: null,
    compare: null,
  };
}
