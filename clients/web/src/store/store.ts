/** All sources of a page: one memory, a few streams, visible before prefetch. */
import { asViewerError, backoff, type Sleep } from "../errors";
import type { BrickSource, Opened, SampleType, Selection } from "../model";
import { ViewerError } from "../model";
import type { PatchDecoder, Reader } from "../reading";
import type { Host, MemoryUser } from "./host";
import { Memory } from "./memory";
import type { Tier } from "./needs";
import type { Question } from "./plan";
import { Running } from "./running";
import { PageBricks } from "./source";

export interface StoreOptions {
  readonly reader: Reader;
  /** Null: servers decode. */
  readonly decoder: PatchDecoder | null;
  readonly canDecode: (coder: string, type: SampleType) => boolean;
  /** [bytes] */
  readonly budget: number;
  /** The most at a time. */
  readonly streams: number;
  readonly sleep: Sleep;
}

interface Ready {
  readonly source: PageBricks;
  readonly question: Question;
  readonly tier: Tier;
}

/** Streams that prefetching may have: the others are there at once when something visible is missing. */
const kPrefetchStreams = 2;

export class BrickStore implements Host {
  readonly memory: Memory;
  private readonly sources = new Set<PageBricks>();
  private scheduled = false;
  private turn = 0;

  constructor(private readonly options: StoreOptions) {
    this.memory = new Memory(options.budget);
  }

  bricks(opened: Opened, selection: Selection): BrickSource {
    const { info } = opened;
    const field = info.fields.find((one) => one.name === selection.field);
    const step = opened.steps.find((one) => one.step === selection.step)?.fields.get(selection.field);
    if (field === undefined || step === undefined) {
      throw new ViewerError("not_found", `step ${selection.step} of "${info.name}" has no field "${selection.field}"`);
    }
    const grid = info.grids[field.grid]!;
    // Attributes make no other samples, and JSON has no integers of 64 bits.
    const stamp = JSON.stringify([grid.dims, grid.patch, grid.levels, { ...field, attributes: [] }, step]);
    // The decoder here knows the first layer of accuracy.
    const decodes = this.options.decoder !== null && this.options.canDecode(field.coder, field.type) && field.layer === 0 && !field.refers;
    const encoding = decodes ? "patches" : "samples";
    const holdings = this.memory.holdings(selection, stamp);
    // A still field is never out of date.
    const isNewest = !field.still && opened.steps.at(-1)?.step === selection.step;
    const source = new PageBricks({ info, field, grid, step, selection, holdings, encoding, codes: this.options.decoder !== null, isNewest }, this);
    this.sources.add(source);
    return source;
  }

  /** A step was published. */
  published(dataset: string, step: number): void {
    for (const source of this.sources) if (source.selection.dataset === dataset) source.published(step);
  }

  /** The connection that follows a dataset is lost, for a reason, or there again. */
  connection(dataset: string, lost: string | null): void {
    for (const source of this.sources) if (source.selection.dataset === dataset) source.connection(lost);
  }

  // ---- For sources

  /** Equal parts for all that show something; what some do not need is for the others. */
  share(source: MemoryUser): number {
    let left = this.memory.budget;
    const wishes = [...this.sources].map((one) => one.wishedBytes).filter((bytes) => bytes > 0).sort((a, b) => a - b);
    for (const [i, wish] of wishes.entries()) {
      const part = Math.floor(left / (wishes.length - i));
      if (wish > part) return part;
      if (wish >= source.wishedBytes) return Math.max(wish, part);
      left -= wish;
    }
    return left;
  }

  room(source: MemoryUser): number {
    const all: readonly MemoryUser[] = [...this.sources];
    const older = all.slice(0, all.indexOf(source));
    const visible = all.reduce((sum, one) => (one === source ? sum : sum + one.visibleBytes), 0);
    // The first source to prefetch keeps its bricks: a later one would ask for bricks that find no room.
    return this.memory.budget - visible - older.reduce((sum, one) => sum + one.prefetchBytes, 0);
  }

  closed(source: MemoryUser): void {
    for (const one of this.sources) if (one === source) this.sources.delete(one);
  }

  later(attempt: number, error: ViewerError, call: () => void): () => void {
    const abort = new AbortController();
    this.options.sleep(backoff(attempt, error), abort.signal).then(call, () => undefined);
    return () => { abort.abort(); };
  }

  /** Once for all changes of a turn. */
  schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    queueMicrotask(() => {
      this.scheduled = false;
      this.look();
    });
  }

  // ---- Inside

  private get active(): Running[] {
    return [...this.sources].flatMap((source) => [...source.running].filter((one) => !one.aborted));
  }

  private look(): void {
    for (const source of this.sources) source.reshare();
    this.abortUseless();
    const { streams } = this.options;
    const visible = this.ready("visible");
    const busy = visible.length > 0 || this.active.some((one) => one.tier === "visible");
    if (busy) {
      for (const one of this.active) if (one.tier === "prefetch") one.abort.abort();
    }
    for (const one of visible) if (this.active.length < streams) this.start(one);
    if (busy) return;
    for (const one of this.ready("prefetch")) if (this.active.length < Math.min(streams, kPrefetchStreams)) this.start(one);
  }

  private abortUseless(): void {
    for (const source of this.sources) {
      for (const running of source.running) {
        if (running.aborted) continue;
        const tier = source.tierOf(running);
        if (tier === null) running.abort.abort();
        else running.tier = tier;
      }
    }
  }

  /**
   * Questions that may start, for each source: finer levels wait for the first picture of the coarser ones. Sources
   * take turns.
   */
  private ready(tier: Tier): Ready[] {
    const lists = [...this.sources].map((source) => {
      const all = source.questions(tier);
      const pending = [...source.running].filter((one) => !one.aborted && !one.begun && one.tier === tier);
      const coarsest = Math.max(-1, ...all.map((one) => one.first), ...pending.map((one) => one.question.first));
      return all.filter((one) => one.first === coarsest).map((question): Ready => ({ source, question, tier }));
    });
    const out: Ready[] = [];
    const most = Math.max(0, ...lists.map((list) => list.length));
    for (let i = 0; i < most; ++i) for (const list of lists) if (i < list.length) out.push(list[i]!);
    return out;
  }

  private start({ source, question, tier }: Ready): void {
    const running = new Running(question, source, this.options.decoder);
    running.tier = tier;
    source.start(running);
    const { selection, field, grid } = source;
    const { window } = question;
    const events = this.options.reader({
      selection, field, grid, box: question.box, first: question.first, level: question.level,
      encoding: window === null ? source.encoding : "coded", recode: window?.error ?? 0, focus: window === null ? question.focus : null, priority: (tier === "prefetch" ? 1e6 : 0) + ++this.turn,
    }, running.abort.signal);
    running.run(events).then(() => null, asViewerError).then((error) => {
      source.ended(running, error);
      this.schedule();
    }, (reason: unknown) => { throw reason; });
  }
}
