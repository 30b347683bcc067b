/** Milliseconds that a question rests before it is asked: the pointer moves on. */
const kWait = 200;

/** The answer to the latest question of a place, which is asked once it rests. */
export class Resting<T> {
  private key = "";
  private answer: T | null = null;
  private timer = 0;
  private abort = new AbortController();

  constructor(private readonly onChange: () => void) {}

  /** Null until there is an answer. @param key  of the question; empty: none */
  at(key: string, ask: (signal: AbortSignal) => Promise<T>): T | null {
    if (key === this.key) return this.answer;
    this.key = key;
    this.answer = null;
    window.clearTimeout(this.timer);
    this.abort.abort();
    if (key !== "") this.timer = window.setTimeout(() => { void this.fetch(ask); }, kWait);
    return null;
  }

  private async fetch(ask: (signal: AbortSignal) => Promise<T>): Promise<void> {
    const { signal } = (this.abort = new AbortController());
    const answer = await ask(signal).catch(() => null);
    if (signal.aborted) return;
    this.answer = answer;
    this.onChange();
  }
}
