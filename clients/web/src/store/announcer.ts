/** Announces changes of a source to its listeners: new bricks, and other states. */
import type { Brick, LoadStatus } from "../model";
import { kIdle, type LoadEvent, type Phase, transition } from "./load_state";

export type Listener = (bricks: readonly Brick[] | null) => void;

export class Announcer {
  private current: Phase = kIdle;
  private readonly listeners = new Set<Listener>();
  private arrived: Brick[] = [];
  private telling = false;
  private told = "";

  constructor(private readonly status: () => LoadStatus) {}

  get phase(): Phase {
    return this.current;
  }

  subscribe(listener: Listener): void {
    this.listeners.add(listener);
  }

  close(): void {
    this.listeners.clear();
  }

  /** Listeners hear of it after the current work: they may want something else at once. */
  apply(event: LoadEvent, bricks: readonly Brick[]): void {
    this.current = transition(this.current, event);
    this.arrived.push(...bricks);
    if (this.telling) return;
    this.telling = true;
    queueMicrotask(() => {
      this.telling = false;
      this.tell();
    });
  }

  private tell(): void {
    const bricks = this.arrived;
    this.arrived = [];
    const summary = this.summary();
    if (bricks.length === 0 && summary === this.told) return;
    this.told = summary;
    for (const listener of [...this.listeners]) listener(bricks.length === 0 ? null : bricks);
  }

  /** State that listeners must hear of when no brick has come. */
  private summary(): string {
    const { state, message, level, target, damagedPatches, expected } = this.status();
    return JSON.stringify([state, message, level, target, damagedPatches, expected]);
  }
}
