/** The bricks of one field at one step, as a view sees them. */
import { isTransient } from "../errors";
import { levelBox, patchBox, patchCounts, sizeOf, thin, volume } from "../geometry";
import type { Brick, BrickSource, DatasetInfo, FieldInfo, FieldStepInfo, GridInfo, LoadStatus, Selection, Slice, Vec3,
              Want } from "../model";
import { ViewerError } from "../model";
import type { HeaderLevel, ReadEncoding, ReadHeader } from "../reading";
import { Announcer, type Listener } from "./announcer";
import { Cells } from "./cells";
import { type LoadEvent, messageOf } from "./load_state";
import type { Host, MemoryUser, Opened } from "./host";
import { cellOf, type Entry, type Holder, type Holdings, type Rank } from "./memory";
import { brickBytes, type Need, type Needs, needsOf, sameWants, type Subject, type Tier } from "./needs";
import { halves, plan, type Question } from "./plan";
import { Progress } from "./progress";
import type { Receiver, Running } from "./running";
import { canThin } from "./samples";
import { Traffic } from "./traffic";

const kNone: Needs = { patches: new Map(), windows: [], bytes: 0, wished: 0, limited: false };
/** Times that the decoder may give a patch up. */
const kMostRefusals = 3;

export class PageBricks implements BrickSource, Holder, MemoryUser, Receiver {
  readonly selection: Selection;
  readonly info: DatasetInfo;
  readonly field: FieldInfo;
  readonly grid: GridInfo;
  readonly step: FieldStepInfo;
  readonly patches: Vec3;
  readonly running = new Set<Running>();
  encoding: ReadEncoding;
  private readonly isNewest: boolean;
  private readonly holdings: Holdings;
  private readonly cells: Cells;
  private subject: Subject;
  private readonly announcer = new Announcer(() => this.status);
  private wants: readonly Want[] = [];
  private visible = kNone;
  private prefetch = kNone;
  private progress: Progress;
  private traffic: Traffic;
  private known: LoadStatus | null = null;
  /** Halves of questions that failed for some of their patches. */
  private extra: { readonly question: Question; readonly tier: Tier }[] = [];
  readonly damaged = new Set<number>();
  /** The decoder's first message about a lost patch. */
  private damage: string | null = null;
  private readonly lostPatches = new Set<number>();
  private readonly refusals = new Map<number, number>();
  /** Bricks that memory has no room for: not asked for again until the wants change. */
  private readonly noRoom = new Set<string>();
  private attempt = 0;
  private pause: "none" | "waiting" | "final" = "none";
  private endPause: () => void = () => undefined;
  private isClosed = false;
  private lastShare = 0;
  /** All is counted anew in a moment. */
  private refitting = false;
  private newer: string | null = null;
  private disconnected: string | null = null;

  constructor(opened: Opened, private readonly host: Host) {
    ({ info: this.info, field: this.field, grid: this.grid, step: this.step, selection: this.selection } = opened);
    ({ holdings: this.holdings, encoding: this.encoding, isNewest: this.isNewest } = opened);
    const { dims, patch, levels } = this.grid;
    this.cells = this.holdings.cells ??= new Cells(this.grid);
    const has = (one: number, level: number): boolean =>
      this.holdings.get(one, level) !== null || (canThin(this.field) && this.holdings.finer(one, level) !== null);
    const slices = { cells: this.cells, has };
    this.subject = { dims, patch, levels, field: this.field, hasMissing: this.step.hasMissing, slices: opened.codes ? slices : null };
    this.patches = patchCounts(this.grid);
    this.progress = new Progress(levels, this.visible.patches, this.shown);
    this.traffic = this.newTraffic();
    for (const entry of this.holdings.all()) if (entry.brick.damaged) this.damaged.add(entry.brick.patch);
    this.holdings.holders.add(this);
  }

  // ---- For views

  best(patch: number, finest: number, slice?: Slice): Brick | null {
    const from = Math.max(0, Math.floor(finest));
    const whole = this.holdings.best(patch, from);
    const entry = slice === undefined ? whole : (this.partOf(patch, slice, from, whole?.brick.level ?? this.grid.levels) ?? whole);
    if (entry === null) return null;
    this.host.memory.touch(entry);
    return entry.brick;
  }

  /** The finest part of a patch around a slice, of levels before `end`. */
  private partOf(patch: number, slice: Slice, finest: number, end: number): Entry | null {
    for (let level = finest; level < end; ++level) {
      for (const first of this.cells.around(slice, level)) {
        const entry = this.holdings.get(first + patch, level);
        if (entry !== null) return entry;
      }
    }
    return null;
  }

  patchOf(cell: number): number {
    return this.cells.patchOf(cell);
  }

  want(wants: readonly Want[]): void {
    // Views repeat their wants whenever they are drawn.
    if (this.isClosed || sameWants(this.wants, wants)) return;
    this.wants = wants;
    this.noRoom.clear();
    this.refusals.clear();
    if (this.pause === "final") this.resume();
    this.refit();
    this.host.schedule();
  }

  get status(): LoadStatus {
    // The memory is that of all sources.
    if (this.known?.memory !== this.host.memory.used) this.known = null;
    return this.known ??= this.makeStatus();
  }

  subscribe(listener: Listener): void {
    this.announcer.subscribe(listener);
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.endPause();
    this.wants = [];
    this.visible = this.prefetch = kNone;
    this.extra = [];
    for (const running of this.running) running.abort.abort();
    this.holdings.holders.delete(this);
    this.apply({ kind: "closed" });
    this.announcer.close();
    this.host.closed(this);
    this.host.schedule();
  }

  // ---- For the page's store

  get visibleBytes(): number {
    return this.visible.bytes;
  }

  get wishedBytes(): number {
    return this.visible.wished;
  }

  get prefetchBytes(): number {
    return this.prefetch.bytes;
  }

  /** Another share of the memory, because of others. */
  reshare(): void {
    const share = this.host.share(this);
    if (this.visible.bytes > share || (this.visible.limited && share !== this.lastShare)) this.refit();
  }

  /** Wants to what is needed. */
  private refit(): void {
    // The wishes do not depend on the share, and the share depends on them.
    this.visible = needsOf(this.subject, this.wants, "visible", this.host.memory.budget);
    const share = this.host.share(this);
    this.lastShare = share;
    if (this.visible.bytes > share) this.visible = needsOf(this.subject, this.wants, "visible", share);
    const room = Math.max(0, Math.min(share, this.host.room(this)) - this.visible.bytes);
    const prefetch = needsOf(this.subject, this.wants, "prefetch", room);
    // Patches that become visible anyway, and finer, are not fetched twice.
    const covered = (need: Need): boolean => (this.visible.patches.get(need.patch)?.target ?? Infinity) <= need.target;
    this.prefetch = { ...prefetch, patches: new Map([...prefetch.patches].filter(([, need]) => !covered(need))) };
    this.extra = this.extra.filter(({ question }) => question.patches.some((patch) => this.visible.patches.has(patch)));
    const thinned = this.thinBricks();
    this.progress = new Progress(this.grid.levels, this.visible.patches, this.shown);
    this.traffic.restart(this.visible.patches, this.holdings, this.shown);
    this.apply({ kind: this.progress.kind }, thinned);
  }

  /** Questions to send now, coarse first. */
  questions(tier: Tier): readonly Question[] {
    if (this.pause !== "none") return [];
    const needs = tier === "visible" ? this.visible : this.prefetch;
    const has = (patch: number, level: number): boolean => this.has(patch, level, needs.patches.get(patch)!.target);
    const extra = this.extra.filter((one) => one.tier === tier).map((one) => one.question);
    return [...extra, ...plan(this.grid, needs.patches.values(), has, this.cells)];
  }

  start(running: Running): void {
    this.extra = this.extra.filter((one) => one.question !== running.question);
    this.running.add(running);
  }

  /** The tier that a running question serves; null: none any more. */
  tierOf(running: Running): Tier | null {
    let [due, visible, prefetch] = [0, 0, 0];
    for (const [patch, next] of running.due()) {
      ++due;
      if (this.needs(this.visible, patch, next, running.question.level)) ++visible;
      else if (this.needs(this.prefetch, patch, next, running.question.level)) ++prefetch;
    }
    // All has come but for the end of the answer.
    if (due === 0) return running.tier;
    // Little use, much else: what is needed is asked for again, without the rest.
    if ((visible + prefetch) * 4 < due) return null;
    return visible > 0 ? "visible" : "prefetch";
  }

  ended(running: Running, error: ViewerError | null): void {
    this.running.delete(running);
    if (this.isClosed) return;
    if (error !== null && !running.aborted) this.failed(running, error);
  }

  /** A newer step was published: of interest where this was the newest. */
  published(step: number): void {
    if (!this.isNewest || step <= this.selection.step) return;
    this.newer = `step ${step} is newer`;
    this.tellOutdated();
  }

  connection(lost: string | null): void {
    this.disconnected = lost;
    this.tellOutdated();
  }

  // ---- For running questions

  header(running: Running, header: ReadHeader): void {
    this.traffic.measure(header.levels, running.question, this.grid);
    if (running.tier === "visible") this.apply({ kind: "answered" });
  }

  brick(brick: Brick, level: HeaderLevel, payload: number): void {
    this.attempt = 0;
    if (brick.damaged) this.damaged.add(brick.patch);
    const entry: Entry = {
      brick, payload, used: 0, maxError: level.maxError, coverage: level.coverage,
      bytes: brickBytes(this.subject, this.cells.boxOf(cellOf(brick)), brick.level),
    };
    if (!this.host.memory.add(this.holdings, entry)) this.noRoom.add(`${cellOf(brick)}/${brick.level}`);
  }

  level(): void {
    this.host.schedule();
  }

  coarser(patch: number, level: number): Brick | null {
    return this.holdings.best(patch, level + 1)?.brick ?? null;
  }

  refused(patch: number): void {
    const times = (this.refusals.get(patch) ?? 0) + 1;
    this.refusals.set(patch, times);
    if (times === kMostRefusals) {
      const text = "this page has too little memory to decode; zoom in, or choose a coarser level";
      this.fail(new ViewerError("resource_exhausted", text));
    }
  }

  undecodable(reason: string): void {
    this.damage ??= reason;
  }

  lost(cell: number): void {
    const target = this.visible.patches.get(cell)?.target ?? 0;
    const before = this.shown(cell, target);
    this.damaged.add(this.patchOf(cell));
    this.lostPatches.add(cell);
    this.progress.change(cell, before, this.shown(cell, target));
    this.traffic.restart(this.visible.patches, this.holdings, this.shown);
    this.apply({ kind: this.progress.kind });
  }

  // ---- For memory

  rank(patch: number, level: number): Rank {
    if (this.uses(this.visible.patches.get(patch), level)) return "visible";
    return this.uses(this.prefetch.patches.get(patch), level) ? "prefetch" : "recent";
  }

  changed(entry: Entry, added: boolean): void {
    if (this.refitting) return;
    const { level } = entry.brick;
    const cell = cellOf(entry.brick);
    // Parts show the whole patch until they are there.
    for (const one of [cell, ...(cell === entry.brick.patch ? this.visible.windows.map((first) => first + cell) : [])]) {
      const need = this.visible.patches.get(one);
      if (need === undefined || level < need.target) continue;
      const other = this.shownWithout(one, need.target, entry);
      const [before, after] = [added ? other : Math.min(level, other), this.shown(one, need.target)];
      this.progress.change(one, before, after);
      this.traffic.change(need, before, after);
      if (one !== cell) continue;
      if (added) this.traffic.take(entry);
      else this.traffic.lose(entry);
    }
    if (added) this.apply({ kind: this.progress.kind }, [entry.brick]);
    else this.known = null;
  }

  // ---- Inside

  private readonly shown = (cell: number, finest: number): number => this.shownWithout(cell, finest, null);

  /** The level that a cell shows, without an entry that has just come, or gone. */
  private shownWithout(cell: number, finest: number, entry: Entry | null): number {
    if (this.lostPatches.has(cell)) return finest;
    let best = this.holdings.best(cell, finest);
    if (best !== null && best === entry) best = this.holdings.best(cell, entry.brick.level + 1);
    const patch = this.patchOf(cell);
    return Math.min(best?.brick.level ?? Infinity, patch === cell ? Infinity : this.shownWithout(patch, finest, entry));
  }

  private uses(need: Need | undefined, level: number): boolean {
    if (need === undefined || level < need.target) return false;
    // Coarser than all requested levels: kept as long as no finer brick is there.
    return level <= need.start || this.shown(need.patch, need.target) >= level;
  }

  private has(patch: number, level: number, target: number): boolean {
    if (this.shown(patch, target) <= level) return true;
    if (this.noRoom.size > 0 && this.noRoom.has(`${patch}/${level}`)) return true;
    for (const running of this.running) if (!running.aborted && running.isDue(patch, level)) return true;
    return this.extra.some(({ question: one }) => level <= one.first && level >= one.level && one.patches.includes(patch));
  }

  private needs(needs: Needs, patch: number, next: number, last: number): boolean {
    const need = needs.patches.get(patch);
    if (need === undefined || need.target > next || need.start < last) return false;
    return this.shown(patch, need.target) > Math.max(last, need.target);
  }

  /** Bricks of coarser levels that finer ones in memory hold already. */
  private thinBricks(): Brick[] {
    const made: Brick[] = [];
    if (!canThin(this.field)) return made;
    this.refitting = true;
    for (const needs of [this.visible, this.prefetch]) {
      for (const { patch, target } of needs.patches.values()) {
        if (this.holdings.get(patch, target) !== null) continue;
        const finer = this.holdings.finer(patch, target);
        if (finer === null || finer.brick.damaged) continue;
        const brick = thin(this.field.type, finer.brick, target, levelBox(patchBox(this.grid, patch), target));
        const { maxError, coverage } = this.step.levels[target]!;
        const entry = { brick, payload: 0, used: 0, maxError, coverage, bytes: brickBytes(this.subject, patchBox(this.grid, patch), target) };
        if (this.host.memory.add(this.holdings, entry)) made.push(brick);
      }
    }
    this.refitting = false;
    return made;
  }

  private newTraffic(): Traffic {
    const patchBytes = this.encoding === "samples" ? volume(this.grid.patch) * sizeOf(this.field.type) : null;
    return new Traffic(this.step, volume(this.patches), patchBytes);
  }

  private failed(running: Running, error: ViewerError): void {
    const due = [...running.due()];
    const tier = running.tier;
    const splits = error.code === "data_loss" || (error.code === "resource_exhausted" && !isTransient(error));
    if (running.question.window !== null && (error.code === "unimplemented" || error.code === "invalid_argument")) {
      // An older server, or no decoder: whole patches do.
      this.subject = { ...this.subject, slices: null };
      this.refit();
    } else if (splits && due.length > 1) {
      const first = Math.max(...due.map(([, level]) => level));
      const { patches } = tier === "visible" ? this.visible : this.prefetch;
      const needs = due.map(([patch]) => patches.get(patch)).filter((one) => one !== undefined);
      if (needs.length === 0) return;
      for (const question of halves(this.grid, { ...running.question, first }, needs)) this.extra.push({ question, tier });
    } else if (error.code === "data_loss" && due.length === 1) {
      this.lost(due[0]![0]);
    } else if (error.code === "unimplemented" && this.encoding === "patches") {
      this.encoding = "samples";
      this.traffic = this.newTraffic();
      this.traffic.restart(this.visible.patches, this.holdings, this.shown);
    } else {
      this.fail(error);
    }
  }

  /** Transient errors are tried again, the others when something else is wanted. */
  private fail(error: ViewerError): void {
    const passes = isTransient(error) || ["internal", "failed_precondition", "unknown"].includes(error.code);
    const waits = passes && this.pause === "waiting";
    if (!waits) this.endPause();
    this.pause = passes ? "waiting" : "final";
    if (passes && !waits) this.endPause = this.host.later(this.attempt++, error, () => { this.resume(); });
    this.apply({ kind: "failed", message: passes ? `${error.message}; asked again soon` : error.message });
  }

  private resume(): void {
    this.endPause();
    this.pause = "none";
    this.apply({ kind: "retrying" });
    this.apply({ kind: this.progress.kind });
    this.host.schedule();
  }

  private tellOutdated(): void {
    const message = this.disconnected ?? this.newer;
    this.apply(message === null ? { kind: "current" } : { kind: "outdated", message });
  }

  private apply(event: LoadEvent, bricks: readonly Brick[] = []): void {
    this.known = null;
    this.announcer.apply(event, bricks);
  }

  private makeStatus(): LoadStatus {
    const { phase } = this.announcer;
    const { level, target } = this.progress;
    const { received, expected } = this.traffic;
    const quality = level === null ? null : this.traffic.quality(level) ?? this.step.levels[level] ?? null;
    const limit = this.visible.limited ? "coarser than asked for: more does not fit into the memory of this page" : null;
    const message = messageOf(phase) ?? this.damage ?? limit;
    return {
      state: phase.state, message, level, target,
      maxError: quality?.maxError ?? null, coverage: quality?.coverage ?? null, received, expected,
      memory: this.host.memory.used, budget: this.host.memory.budget, damagedPatches: this.damaged.size,
    };
  }
}

