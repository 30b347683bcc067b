/** Questions about a dataset on a web server: asked, what they need fetched side by side, and asked again. */
import { asViewerError, type Sleep } from "../errors";
import { ViewerError } from "../model";
import type { Reply } from "./messages";
import { BucketModule, type Need, type Question } from "./module";
import type { Place } from "./place";
import { type Came, type RangeOptions, RangeReader } from "./ranges";

export interface AskingOptions extends Omit<RangeOptions, "sleep"> {
  readonly sleep: Sleep;
  readonly module: () => Promise<WebAssembly.Module>;
  readonly post: (reply: Reply) => void;
}

/** A fetch that one or more questions wait for. */
interface Fetching {
  readonly came: Promise<Came>;
  readonly abort: AbortController;
  users: number;
}

/** Asked in vain so often, a question would go on for ever. */
const kMostInVain = 3;

function keyOf({ kind, path, offset, size }: Need): string {
  return `${kind} ${offset} ${size} ${path}`;
}

export class Asking {
  private module: Promise<BucketModule> | null = null;
  private readonly ranges: RangeReader;
  private readonly fetching = new Map<string, Fetching>();
  private readonly aborts = new Map<number, AbortController>();

  constructor(private readonly place: Place, private readonly options: AskingOptions) {
    this.ranges = new RangeReader(options);
  }

  cancel(id: number): void {
    this.aborts.get(id)?.abort();
  }

  async ask(id: number, call: string, request: Uint8Array): Promise<void> {
    const abort = new AbortController();
    this.aborts.set(id, abort);
    let error: ViewerError | null;
    try {
      error = await this.answer(call, request, abort.signal, (bytes) => { this.options.post({ kind: "message", id, bytes }); });
    } catch (reason) {
      error = abort.signal.aborted ? new ViewerError("cancelled", "cancelled") : asViewerError(reason);
    }
    this.aborts.delete(id);
    this.options.post({ kind: "end", id, error: error === null ? null : { code: error.code, message: error.message } });
  }

  private async answer(call: string, request: Uint8Array, signal: AbortSignal, send: (bytes: Uint8Array) => void): Promise<ViewerError | null> {
    const module = await this.loaded();
    const question = module.begin(call, request);
    const mine = new Map<string, Promise<void>>();
    const ended = new AbortController();
    const onAbort = (): void => { ended.abort(); };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      for (let inVain = 0; !signal.aborted;) {
        const done = module.ask(question);
        for (const bytes of module.messages(question)) {
          send(bytes);
          inVain = 0;
        }
        if (done) return module.error(question);
        const needs = module.needs(question);
        const awaited = needs.filter((need) => need.awaited);
        const due = awaited.length === 0 ? needs : awaited;
        const known = mine.size;
        for (const need of needs) if (!mine.has(keyOf(need))) mine.set(keyOf(need), this.bring(module, question, need, ended.signal));
        if (mine.size === known && ++inVain >= kMostInVain) throw new ViewerError("internal", "the question asks for the same bytes again and again");
        await Promise.all(due.map((need) => mine.get(keyOf(need))!));
        // Bytes that came may be needed once more later, and be dropped by then.
        for (const need of due) mine.delete(keyOf(need));
      }
      throw new ViewerError("cancelled", "cancelled");
    } finally {
      signal.removeEventListener("abort", onAbort);
      ended.abort();
      await Promise.all(mine.values());
      if (!module.broken) module.end(question);
    }
  }

  /** Never throws: an error becomes one of the question. */
  private async bring(module: BucketModule, question: Question, need: Need, signal: AbortSignal): Promise<void> {
    try {
      const came = await this.fetch(need, signal);
      if (!signal.aborted && !module.broken) module.supply(question, need, came);
    } catch (reason) {
      if (!signal.aborted && !module.broken) module.fail(question, need.path, asViewerError(reason));
    }
  }

  /** One request for all who want the same now. */
  private async fetch(need: Need, signal: AbortSignal): Promise<Came> {
    const key = keyOf(need);
    let fetching = this.fetching.get(key);
    if (fetching === undefined) {
      const abort = new AbortController();
      const { kind, offset, size } = need;
      const came = this.ranges.get({ kind, offset, size, address: this.place.address(need.path) }, abort.signal);
      const made: Fetching = fetching = { came, abort, users: 0 };
      this.fetching.set(key, made);
      const forget = (): void => { if (this.fetching.get(key) === made) this.fetching.delete(key); };
      came.then(forget, forget);
    }
    const used = fetching;
    ++used.users;
    const leave = (): void => {
      if (--used.users > 0) return;
      if (this.fetching.get(key) === used) this.fetching.delete(key);
      used.abort.abort();
    };
    if (signal.aborted) {
      leave();
      throw new ViewerError("cancelled", "cancelled");
    }
    return new Promise<Came>((resolve, reject) => {
      const onAbort = (): void => {
        leave();
        reject(new ViewerError("cancelled", "cancelled"));
      };
      signal.addEventListener("abort", onAbort, { once: true });
      used.came.then(resolve, reject).finally(() => { signal.removeEventListener("abort", onAbort); }).catch(() => undefined);
    });
  }

  /** A module that broke is replaced. */
  private async loaded(): Promise<BucketModule> {
    const before = this.module === null ? null : await this.module.catch(() => null);
    if (before !== null && !before.broken) return before;
    const loading = this.options.module().then((compiled) => new BucketModule(compiled, this.place.root));
    this.module = loading;
    return loading;
  }
}
