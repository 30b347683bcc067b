/** Decoding workers: the queue, by priority, and the running jobs. */

import { ViewerError } from "../model";
import { type DecodedPatch, type DecodeJob, kTile, type PatchDecoder } from "../reading";
import { canDecode, samplesOf } from "./decoder";
import type { DecodeReply, DecodeRequest, Reply, Request } from "./messages";

/** The subset of Worker that the pool uses. */
export interface WorkerLike {
  onmessage: ((event: MessageEvent<Reply>) => void) | null;
  onmessageerror: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  postMessage(message: Request, transfer: Transferable[]): void;
  terminate(): void;
}

export interface PoolOptions {
  readonly workers: number;
  /** Requests beyond two that a worker may have, in samples of all of them. */
  readonly ahead?: number;
  load(): Promise<WebAssembly.Module>;
  spawn(): WorkerLike;
}

/**
 * Requests at a worker: one that it decodes, and one that waits so that it need not. More of them while all are small,
 * about 5 ms of work, for the page may take longer than a small patch until it gives the next.
 */
const DEPTH = 2;
const AHEAD = 2 ** 19;
/** Workers that die one after the other without a result in between: more are not started. */
const MOST_DEATHS = 3;
const MAX_LEVELS = 32;

interface Task {
  readonly request: DecodeRequest;
  readonly key: string;
  priority: number;
  readonly resolve: (decoded: DecodedPatch) => void;
  /** Takes it from the queue, where it still waits, and rejects. */
  readonly fail: (reason: Error) => void;
}

interface Member {
  readonly worker: WorkerLike;
  readonly running: Map<number, Task>;
}

export class DecoderPool implements PatchDecoder {
  private readonly members: Member[] = [];
  /** By priority, then by age. */
  private waiting: Task[] = [];
  /** Where the readers of patches are whose finer levels will come. */
  private readonly homes = new Map<string, { readonly answer: number; readonly member: Member }>();
  private module: WebAssembly.Module | null = null;
  private loading = false;
  private closed = false;
  private deaths = 0;
  private nextId = 0;

  constructor(private readonly options: PoolOptions) {
    this.load();
    // The first worker starts before there is something to decode: its program is loaded meanwhile.
    this.start();
  }

  decode(job: DecodeJob, signal?: AbortSignal): Promise<DecodedPatch> {
    return new Promise((resolve, reject: (reason: Error) => void) => {
      signal?.throwIfAborted();
      if (this.closed) throw new ViewerError("unavailable", "the decoder is closed");
      check(job);
      const task = this.makeTask(job, signal, resolve, reject);
      this.enqueue(task);
      this.load();
      this.dispatch();
    });
  }

  endAnswer(answer: number): void {
    for (const [key, home] of this.homes) {
      if (home.answer === answer) this.homes.delete(key);
    }
    for (const task of this.waiting.filter(({ request }) => request.answer === answer))
      task.fail(new ViewerError("cancelled", `answer ${answer} has ended`));
    for (const { worker } of this.members) worker.postMessage({ kind: "end", answer }, []);
  }

  close(): void {
    this.closed = true;
    this.failAll(new ViewerError("unavailable", "the decoder is closed"));
    for (const member of this.members.splice(0)) member.worker.terminate();
    this.homes.clear();
  }

  private makeTask(job: DecodeJob, signal: AbortSignal | undefined, resolve: (decoded: DecodedPatch) => void,
                   reject: (reason: Error) => void): Task {
    const abort = (): void => { task.fail(signal!.reason as Error); };
    const settled = (): void => { signal?.removeEventListener("abort", abort); };
    const task: Task = {
      request: pack(this.nextId++, job), key: `${job.answer}/${job.patch}`, priority: job.priority,
      resolve: (decoded) => { settled(); resolve(decoded); },
      fail: (reason) => {
        settled();
        const at = this.waiting.indexOf(task);
        if (at >= 0) this.waiting.splice(at, 1);
        reject(reason);
      },
    };
    signal?.addEventListener("abort", abort, { once: true });
    return task;
  }

  /** Earlier levels of the patch come at least as soon as this one. */
  private enqueue(task: Task): void {
    const before = this.waiting.filter((other) => other.key === task.key && other.priority > task.priority);
    for (const other of before) other.priority = task.priority;
    if (before.length > 0) this.waiting.sort((a, b) => a.priority - b.priority || a.request.id - b.request.id);
    let [low, high] = [0, this.waiting.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.waiting[middle]!.priority <= task.priority) low = middle + 1;
      else high = middle;
    }
    this.waiting.splice(low, 0, task);
  }

  /** Fetches and compiles the module; again with the next job if that fails. */
  private load(): void {
    if (this.module !== null || this.loading) return;
    this.loading = true;
    this.options.load().then((module) => {
      this.module = module;
      this.loading = false;
      for (const { worker } of this.members) worker.postMessage({ kind: "load", module }, []);
      this.dispatch();
    }, (error: unknown) => {
      this.loading = false;
      this.failAll(new ViewerError("unavailable", `cannot load the decoder: ${text(error)}; reload the page`));
    });
  }

  private dispatch(): void {
    if (this.module === null || this.closed) return;
    for (let given = true; given;) {
      given = false;
      while (this.members.length < this.options.workers && this.members.every(({ running }) => running.size > 0) &&
             this.waiting.some((task) => !this.homes.has(task.key))) {
        if (!this.start()) break;
        this.give(this.members.at(-1)!);
      }
      // In turns, those with the least to do first.
      const open = this.members.filter((member) => member.running.size < DEPTH || samplesAt(member) < (this.options.ahead ?? AHEAD));
      for (const member of open.sort((a, b) => a.running.size - b.running.size)) given = this.give(member) || given;
    }
  }

  /** Gives a worker the first task that it may have: patches stay where they began, and their levels in order. */
  private give(member: Member): boolean {
    const task = this.waiting.find(({ key }) => (this.homes.get(key) ?? { member }).member === member);
    if (task === undefined) return false;
    this.waiting.splice(this.waiting.indexOf(task), 1);
    const { request, key } = task;
    if (request.keep) this.homes.set(key, { answer: request.answer, member });
    else this.homes.delete(key);
    member.running.set(request.id, task);
    member.worker.postMessage(request, [request.bytes]);
    return true;
  }

  private start(): boolean {
    if (this.deaths >= MOST_DEATHS) {
      if (this.members.length === 0)
        this.failAll(new ViewerError("unavailable", "the workers that decode do not run; reload the page"));
      return false;
    }
    const worker = this.spawn();
    if (worker === null) {
      this.deaths = MOST_DEATHS;
      return this.start();
    }
    const member: Member = { worker, running: new Map() };
    member.worker.onmessage = ({ data }) => { this.settle(member, data); };
    member.worker.onmessageerror = () => { this.replace(member, "its message cannot be read"); };
    member.worker.onerror = (event) => { this.replace(member, event.message); };
    this.members.push(member);
    if (this.module !== null) member.worker.postMessage({ kind: "load", module: this.module }, []);
    return true;
  }

  /** Null where the browser allows no worker. */
  private spawn(): WorkerLike | null {
    try {
      return this.options.spawn();
    } catch {
      return null;
    }
  }

  private settle(member: Member, reply: Reply): void {
    this.deaths = 0;
    const task = member.running.get(reply.id);
    member.running.delete(reply.id);
    if (reply.kind === "failed") task?.fail(new ViewerError(reply.code, reply.message));
    else task?.resolve(decoded(task.request, reply));
    this.dispatch();
  }

  /** Replaces a worker that died. Its jobs are lost; the queue goes on. */
  private replace(member: Member, why: string): void {
    const at = this.members.indexOf(member);
    if (at < 0) return;
    this.members.splice(at, 1);
    member.worker.terminate();
    ++this.deaths;
    for (const [key, home] of this.homes) {
      if (home.member === member) this.homes.delete(key);
    }
    const [first, ...others] = member.running.values();
    const died = (task: Task): string => `the worker of patch ${task.request.patch} has died: ${why || "no reason given"}`;
    first?.fail(new ViewerError("internal", died(first)));
    // Nothing is known against them.
    for (const task of others) task.fail(new ViewerError("failed_precondition", `${died(task)}; ask for the patch again`));
    this.dispatch();
  }

  private failAll(reason: Error): void {
    for (const task of [...this.waiting]) task.fail(reason);
    for (const { running } of this.members) {
      for (const task of running.values()) task.fail(reason);
    }
  }
}

function check(job: DecodeJob): void {
  const count = job.payloads.length;
  if (job.coder !== kTile && !canDecode(job.coder, job.type)) {
    throw new ViewerError("unimplemented",
      `this page does not decode ${job.type} of the coder "${job.coder}"; reload it for a newer one`);
  }
  const whole = [...job.shape, job.levels, job.target].every(Number.isSafeInteger);
  if (!whole || Math.min(...job.shape) < 1 || job.levels < 1 || job.levels > MAX_LEVELS || job.target < 0 || count < 1 ||
      job.target + count > job.levels) {
    const patch = `patch ${job.patch} of shape ${job.shape.join("x")} with ${job.levels} levels`;
    throw new ViewerError("invalid_argument", `${patch} cannot have ${count} payloads up to level ${job.target}`);
  }
}

/** Samples of the jobs that a worker has. */
function samplesAt({ running }: Member): number {
  const count = ({ request: { shape, target } }: Task): number => shape.reduce((product, n) => product * Math.ceil(n / 2 ** target), 1);
  return [...running.values()].reduce((sum, task) => sum + count(task), 0);
}

/** The payload moves to the worker in a buffer of its own: a view of a message would take all of that message along. */
function pack(id: number, job: DecodeJob): DecodeRequest {
  const total = job.payloads.reduce((sum, { mask, payload }) => sum + mask.length + payload.length, 0);
  const bytes = new Uint8Array(total);
  let at = 0;
  for (const part of job.payloads.flatMap(({ mask, payload }) => [mask, payload])) {
    bytes.set(part, at);
    at += part.length;
  }
  return {
    kind: "decode", id, answer: job.answer, patch: job.patch, coder: job.coder, type: job.type, shape: job.shape,
    levels: job.levels, target: job.target, keep: job.keep, bytes: bytes.buffer,
    sizes: job.payloads.map(({ mask, payload }) => ({ mask: mask.length, payload: payload.length })),
    checksums: job.payloads.map(({ maskChecksum, checksum }) => ({ mask: maskChecksum, payload: checksum })),
  };
}

function decoded(request: DecodeRequest, reply: DecodeReply): DecodedPatch {
  return {
    level: reply.level, samples: samplesOf(request.type, reply.samples),
    validity: reply.validity === null ? null : new Uint8Array(reply.validity), damage: reply.damage,
  };
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
