/** The bricks in memory, under one budget for all fields and steps of the page. */
import type { Brick, Selection } from "../model";
import type { Cells } from "./cells";

export interface Entry {
  readonly brick: Brick;
  /** That it takes in memory. */
  readonly bytes: number;
  /** Payload that was received for it. */
  readonly payload: number;
  readonly maxError: number;
  readonly coverage: number;
  /** When it was last looked at: a count of looks. */
  used: number;
}

/** The whole patch, or its part: see Cells. */
export function cellOf(brick: Brick): number {
  return brick.part?.cell ?? brick.patch;
}

/** Rank of an entry for its current users. */
export type Rank = "recent" | "prefetch" | "visible";

/** Somebody who uses bricks. */
export interface Holder {
  rank(cell: number, level: number): Rank;
  /** A cell has another brick, or one less. */
  changed(entry: Entry, added: boolean): void;
}

const kRanks: readonly Rank[] = ["recent", "prefetch", "visible"];

/** The bricks of a field at a step. They outlive their holders. */
export class Holdings {
  readonly holders = new Set<Holder>();
  /** The cells of the grid of the field, once somebody holds it. */
  cells: Cells | null = null;
  private readonly cellEntries = new Map<number, (Entry | undefined)[]>();

  constructor(readonly selection: Selection, readonly stamp: string) {}

  get(cell: number, level: number): Entry | null {
    return this.cellEntries.get(cell)?.[level] ?? null;
  }

  /** The finest that is not finer than `finest`. */
  best(cell: number, finest: number): Entry | null {
    const entries = this.cellEntries.get(cell);
    for (let level = finest; level < (entries?.length ?? 0); ++level) {
      const entry = entries![level];
      if (entry !== undefined) return entry;
    }
    return null;
  }

  /** The coarsest that is finer than `level`. */
  finer(cell: number, level: number): Entry | null {
    const entries = this.cellEntries.get(cell);
    for (let l = Math.min(level, entries?.length ?? 0) - 1; l >= 0; --l) {
      const entry = entries![l];
      if (entry !== undefined) return entry;
    }
    return null;
  }

  get isEmpty(): boolean {
    return this.cellEntries.size === 0;
  }

  *all(): Generator<Entry> {
    for (const entries of this.cellEntries.values()) for (const entry of entries) if (entry !== undefined) yield entry;
  }

  rank(entry: Entry): number {
    let rank = 0;
    for (const holder of this.holders) rank = Math.max(rank, kRanks.indexOf(holder.rank(cellOf(entry.brick), entry.brick.level)));
    return rank;
  }

  set(entry: Entry): void {
    const cell = cellOf(entry.brick);
    const entries = this.cellEntries.get(cell) ?? [];
    entries[entry.brick.level] = entry;
    this.cellEntries.set(cell, entries);
  }

  remove(entry: Entry): void {
    const cell = cellOf(entry.brick);
    const entries = this.cellEntries.get(cell);
    if (entries?.[entry.brick.level] !== entry) return;
    entries[entry.brick.level] = undefined;
    if (entries.every((one) => one === undefined)) this.cellEntries.delete(cell);
  }
}

function key(selection: Selection): string {
  return JSON.stringify([selection.dataset, selection.field, selection.step]);
}

interface Victim {
  readonly holdings: Holdings;
  readonly entry: Entry;
  readonly rank: number;
}

export class Memory {
  private readonly pools = new Map<string, Holdings>();
  private bytes = 0;
  private looks = 0;

  constructor(readonly budget: number) {}

  /** Fields at steps that are remembered. */
  get size(): number {
    return this.pools.size;
  }

  get used(): number {
    return this.bytes;
  }

  /** @param stamp  of the data: bricks of other data under the same name are dropped */
  holdings(selection: Selection, stamp: string): Holdings {
    const name = key(selection);
    const old = this.pools.get(name);
    if (old?.stamp === stamp) return old;
    if (old !== undefined) this.drop(old);
    const next = new Holdings(selection, stamp);
    this.pools.set(name, next);
    return next;
  }

  touch(entry: Entry): void {
    entry.used = ++this.looks;
  }

  /** Keeps the brick, and evicts less valuable ones for it. False: all others are more valuable. */
  add(holdings: Holdings, entry: Entry): boolean {
    const old = holdings.get(cellOf(entry.brick), entry.brick.level);
    if (old !== null && (!old.brick.damaged || entry.brick.damaged)) return true;
    if (old !== null) this.remove(holdings, old);
    const rank = holdings.rank(entry);
    if (!this.makeRoom(entry.bytes, rank)) return false;
    this.touch(entry);
    holdings.set(entry);
    this.bytes += entry.bytes;
    for (const holder of holdings.holders) holder.changed(entry, true);
    return true;
  }

  private makeRoom(bytes: number, rank: number): boolean {
    if (this.bytes + bytes <= this.budget) return true;
    const victims = this.victims(rank);
    const room = victims.reduce((sum, one) => sum + one.entry.bytes, this.budget - this.bytes);
    if (room < bytes) return false;
    // A little more than needed, so that the next brick does not sort all of them again.
    const goal = Math.min(room, bytes + this.budget / 32);
    for (const { holdings, entry } of victims) {
      if (this.budget - this.bytes >= goal) break;
      this.remove(holdings, entry);
    }
    return true;
  }

  /** Entries of smaller rank. The least rank comes first, in it the finest levels, then the least recently used. */
  private victims(rank: number): Victim[] {
    const out: Victim[] = [];
    for (const holdings of this.pools.values()) {
      for (const entry of holdings.all()) {
        const own = holdings.rank(entry);
        if (own < rank || own === 0) out.push({ holdings, entry, rank: own });
      }
    }
    return out.sort((a, b) => a.rank - b.rank || a.entry.brick.level - b.entry.brick.level || a.entry.used - b.entry.used);
  }

  private remove(holdings: Holdings, entry: Entry): void {
    holdings.remove(entry);
    this.bytes -= entry.bytes;
    // A long run keeps only the records of steps that have bricks.
    const name = key(holdings.selection);
    if (holdings.isEmpty && holdings.holders.size === 0 && this.pools.get(name) === holdings) this.pools.delete(name);
    for (const holder of holdings.holders) holder.changed(entry, false);
  }

  private drop(holdings: Holdings): void {
    for (const entry of [...holdings.all()]) this.remove(holdings, entry);
  }
}

/** 512 MiB, or a quarter of the machine's memory if that is less. */
export function defaultBudget(deviceMemory: number | undefined): number {
  const gib = deviceMemory !== undefined && deviceMemory > 0 ? deviceMemory : 4;
  return Math.min(512 * 2 ** 20, (gib / 4) * 2 ** 30);
}
