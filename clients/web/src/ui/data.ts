/** Open data of a server, and the consequences of the user's view: which fields, bricks and statistics to ask for. */
import type { Brick, BrickSource, DatasetInfo, Opened, Selection, Source, Vec3, ViewerError, ViewState } from "../model";
import { Ahead } from "./ahead";
import { CoordinateFeed } from "./coordinates";
import { fieldsInOrder } from "./fields";
import { whyNotBeside } from "./otherfield";
import { clipOf } from "./panes";
import { Resting } from "./resting";
import { Scenes } from "./scenes";
import type { Feeds, StageInput } from "./scenes";
import { Feed, OpenDataset, resolveStep } from "./session";
import type { Stage } from "./stage";
import { StatisticsFeed } from "./statistics";

export interface DataEvents {
  /** A dataset is open, or has more steps. */
  readonly opened: () => void;
  readonly failed: (error: ViewerError) => void;
  readonly arrived: (from: BrickSource, bricks: readonly Brick[]) => void;
  readonly status: () => void;
  /** Another field or step is on screen. */
  readonly swapped: () => void;
}

/** The first field where the dataset has none of the name. */
function comparedField(info: DatasetInfo, compare: NonNullable<ViewState["compare"]>): string {
  return info.fields.some((each) => each.name === compare.field) ? compare.field : (fieldsInOrder(info)[0]?.name ?? "");
}

export class Data {
  readonly scenes = new Scenes();
  readonly statistics: StatisticsFeed;
  readonly coordinates: CoordinateFeed;
  private readonly stored: Resting<{ readonly value: number; readonly error: number }>;
  readonly dataset: OpenDataset;
  error: ViewerError | null = null;
  private readonly other: OpenDataset;
  private readonly feed: Feed;
  private readonly otherFeed: Feed;
  private readonly ahead = new Ahead();
  private otherError: ViewerError | null = null;
  private compares = false;

  constructor(
    readonly source: Source,
    events: DataEvents,
  ) {
    const failed = (error: ViewerError, main: boolean): void => {
      if (main) this.error = error;
      else this.otherError = error;
      events.failed(error);
    };
    this.dataset = new OpenDataset(source, events.opened, (error) => {
      failed(error, true);
    });
    this.other = new OpenDataset(source, events.opened, (error) => {
      failed(error, false);
    });
    this.feed = new Feed(source, events.arrived, events.status, events.swapped);
    this.otherFeed = new Feed(source, events.arrived, events.status, events.swapped);
    this.statistics = new StatisticsFeed(events.status);
    this.coordinates = new CoordinateFeed(events.status);
    this.stored = new Resting(events.status);
  }

  get feeds(): Feeds {
    return { a: this.feed.shown, b: this.compares ? this.otherFeed.shown : null };
  }

  get latest(): BrickSource | null {
    return this.feed.latest;
  }

  /** The reason why there is no comparison; null if there is one, or none is wanted. */
  compareProblem(state: ViewState | null): string | null {
    if (!state?.compare) return null;
    return this.otherError?.message ?? this.refusal(state) ?? this.replacement(state, state.compare) ?? (state.compare.difference ? this.scenes.problem(this.feeds) : null);
  }

  /** The view without a comparison that cannot be. */
  showable(state: ViewState): ViewState {
    return this.refusal(state) === null ? state : { ...state, compare: null };
  }

  private refusal({ dataset, field, compare }: ViewState): string | null {
    const info = this.dataset.opened?.info;
    if (!compare || !info || compare.dataset !== dataset) return null;
    return whyNotBeside(info, field, comparedField(info, compare));
  }

  private replacement(state: ViewState, compare: NonNullable<ViewState["compare"]>): string | null {
    const info = this.otherOpened(state)?.info;
    const field = info ? comparedField(info, compare) : compare.field;
    return field === compare.field ? null : `"${compare.dataset}" has no field "${compare.field}"; "${field}" is compared`;
  }

  otherOpened(state: ViewState | null): Opened | null {
    return state?.compare?.dataset === state?.dataset ? this.dataset.opened : this.other.opened;
  }

  /** A sample as stored at full resolution, and its error, once the place rests. */
  storedAt({ selection }: BrickSource, sample: Vec3): { readonly value: number; readonly error: number } | null {
    return this.stored.at(JSON.stringify([selection, sample]), async (signal) => {
      const { values, maxError } = await this.source.points(selection, sample, signal);
      return { value: values[0] ?? NaN, error: maxError };
    });
  }

  open(name: string): void {
    this.error = null;
    for (const each of [this.feed, this.otherFeed, this.other, this.ahead]) each.close();
    this.dataset.open(name, true);
  }

  close(): void {
    for (const each of [this.feed, this.otherFeed, this.dataset, this.other, this.ahead]) each.close();
  }

  /** Chooses the fields and steps; pictures of the ones before stay until there is something to show. */
  select(state: ViewState, opened: Opened): void {
    this.dataset.follow(state.step === "live");
    const step = resolveStep(opened, state.field, state.step);
    if (step !== null) this.feed.select(opened, { dataset: state.dataset, field: state.field, step });
    // Box and cursor are on the grid of the field that is chosen, not on that of the one before.
    else this.feed.close();
    this.selectOther(this.showable(state));
  }

  private selectOther(state: ViewState): void {
    const { compare } = state;
    this.compares = compare !== null;
    if (!compare || compare.dataset !== this.other.name) this.otherError = null;
    if (!compare) {
      this.otherFeed.close();
      this.other.close();
      return;
    }
    if (compare.dataset !== state.dataset) this.other.open(compare.dataset);
    const opened = this.otherOpened(state);
    if (!opened) return;
    this.other.follow(compare.step === "live");
    const field = comparedField(opened.info, compare);
    const step = resolveStep(opened, field, compare.step);
    if (step !== null) this.otherFeed.select(opened, { dataset: compare.dataset, field, step });
  }

  /** Asks for the needs of the pictures on the stage. */
  ask(stage: Stage, input: StageInput): void {
    if (this.feed.latest) this.feed.want(stage.wants(this.feed.latest, "a", input));
    if (this.compares && this.otherFeed.latest) this.otherFeed.want(stage.wants(this.otherFeed.latest, "b", input));
  }

  /** While steps are played: the one after the one on screen, then the one before it. */
  askAhead(stage: Stage, input: StageInput, next: number | null, before: number | null): void {
    const { shown } = this.feed;
    const { opened } = this.dataset;
    if (next === null || !shown || !opened) this.ahead.close();
    else {
      const of = (step: number): Selection => ({ ...shown.selection, step });
      this.ahead.ask(this.source, opened, of(next), before === null ? null : of(before), stage.wants(shown, "a", input));
    }
  }

  /** Statistics of the box on screen, at the level on screen. */
  askStatistics(state: ViewState): void {
    const { shown } = this.feed;
    if (!shown) return;
    const { grid } = shown;
    const level = Math.min(shown.status.level ?? grid.levels - 1, grid.levels - 1);
    this.statistics.ask(this.source, shown.selection, clipOf(state, grid), level, grid);
  }
}
