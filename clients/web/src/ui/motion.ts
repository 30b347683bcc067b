const kRest = 250;
const kLetGo = 60;

/** Whether something on screen is being moved: then coarse levels are asked for, and fine ones once it rests. */
export class Motion {
  on = false;
  private timer = 0;

  constructor(private readonly onRest: () => void) {}

  go(): void {
    this.on = true;
    this.end(kRest);
  }

  stop(): void {
    if (this.on) this.end(kLetGo);
  }

  private end(after: number): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      this.on = false;
      this.onRest();
    }, after);
  }
}
