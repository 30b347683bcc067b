/** Milliseconds without a movement, and after the end of one that may be repeated at once. */
const kRest = 250;
const kLetGo = 60;

/** Whether something on screen is being moved: it gets coarse levels, and fine ones once it rests. */
export class Motion {
  on = false;
  private timer = 0;

  constructor(private readonly onRest: () => void) {}

  go(): void {
    this.on = true;
    this.end(kRest);
  }

  /** @param final  the gesture has ended: nothing is repeated */
  stop(final: boolean): void {
    if (this.on) this.end(final ? 0 : kLetGo);
  }

  private end(after: number): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      this.on = false;
      this.onRest();
    }, after);
  }
}
