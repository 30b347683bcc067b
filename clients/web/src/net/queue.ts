/** At most so many streams at a time: browsers give an origin six connections, and other calls need some of them. */
import { CallError } from "../errors";

interface Waiting {
  readonly priority: number;
  readonly number: number;
  readonly start: () => void;
}

export class StreamQueue {
  private running = 0;
  private next = 0;
  private waiting: Waiting[] = [];

  constructor(private readonly most: number) {}

  get active(): number {
    return this.running;
  }

  /**
   * Passes on the messages of a stream, once there is room for it; small priorities first, then in the order of asking.
   */
  async *stream<T>(priority: number, signal: AbortSignal, make: () => AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
    await this.turn(priority, signal);
    try {
      yield* make();
    } finally {
      --this.running;
      this.startNext();
    }
  }

  private turn(priority: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(new CallError("cancelled", "cancelled"));
        return;
      }
      const onAbort = (): void => {
        this.waiting = this.waiting.filter((one) => one !== entry);
        reject(new CallError("cancelled", "cancelled"));
      };
      const start = (): void => {
        signal.removeEventListener("abort", onAbort);
        ++this.running;
        resolve();
      };
      const entry: Waiting = { priority, number: this.next++, start };
      signal.addEventListener("abort", onAbort, { once: true });
      this.waiting.push(entry);
      this.startNext();
    });
  }

  private startNext(): void {
    if (this.running >= this.most || this.waiting.length === 0) return;
    const first = this.waiting.reduce((a, b) => (b.priority - a.priority || b.number - a.number) < 0 ? b : a);
    this.waiting = this.waiting.filter((one) => one !== first);
    first.start();
  }
}
