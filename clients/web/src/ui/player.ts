import type { Stepping } from "./page";

/** Milliseconds that each step is shown at least. */
const kEach = 250;

/** Goes through the steps, each as soon as the one before is on screen; begins again after the last. */
export class Player {
  on = false;
  private since = 0;
  private timer = 0;
  private last: number | null = null;

  constructor(private readonly stepping: Pick<Stepping, "numbers" | "wanted" | "to">) {}

  /** There is something to play: a field that does not change with time waits, and the others go on where they were. */
  get playing(): boolean {
    return this.on && this.stepping.numbers.length > 1;
  }

  toggle(): void {
    this.on = !this.on;
    window.clearTimeout(this.timer);
    if (this.on) this.shown(this.last);
  }

  /** A step is on screen. */
  shown(step: number | null): void {
    if (step !== this.last) this.since = performance.now();
    this.last = step;
    window.clearTimeout(this.timer);
    if (!this.on || step === null || step !== this.stepping.wanted) return;
    this.timer = window.setTimeout(
      () => {
        this.advance();
      },
      Math.max(0, this.since + kEach - performance.now()),
    );
  }

  /** The step after the one that is wanted; null while nothing is played. */
  next(): number | null {
    const list = this.stepping.numbers;
    const at = list.indexOf(this.stepping.wanted ?? NaN);
    return this.playing ? list[(at + 1) % list.length]! : null;
  }

  /** The step that a step back would show; null where it is the next one as well. */
  before(): number | null {
    const list = this.stepping.numbers;
    const step = list[list.indexOf(this.stepping.wanted ?? NaN) - 1] ?? null;
    return step === this.next() ? null : step;
  }

  private advance(): void {
    const next = this.next();
    if (next !== null) this.stepping.to(this.stepping.numbers.indexOf(next));
  }
}
