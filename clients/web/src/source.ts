/**
 * The source of the page, made of its parts: net asks servers, bucket answers for datasets on web servers, decode turns
 * payload into samples, store keeps them.
 */
import { openBucket } from "./bucket/index";
import { canDecode, createPatchDecoder } from "./decode/index";
import { type Sleep, sleep } from "./errors";
import { isAddress, type Source } from "./model";
import { QuarryClient } from "./net/client";
import { routed } from "./net/places";
import { StreamQueue } from "./net/queue";
import { createTransport, type Transport } from "./net/transport";
import type { Answerer, PatchDecoder } from "./reading";
import { defaultBudget } from "./store/memory";
import { BrickStore } from "./store/store";

export interface SourceOptions {
  /** Asked at each call. */
  readonly token?: () => string | null;
  /** Most memory of all bricks. [bytes] */
  readonly budget?: number;
  /** Null: servers decode. Left out: the workers of this page, which all sources share. */
  readonly decoder?: PatchDecoder | null;
  /** Answers for a dataset whose name is its address; left out: a worker of this page for each. */
  readonly bucket?: (address: string) => Answerer;
  // For tests.
  readonly transport?: Transport;
  readonly fetch?: typeof globalThis.fetch;
  readonly sleep?: Sleep;
}

/** Streams of reads that a page has at a time: browsers give an origin six connections, one of them follows steps. */
const kStreams = 4;
/** Tries of a call that the server is too busy for, and of a stream from which nothing new comes. */
const kRetries = 4;

function deviceMemory(): number | undefined {
  return typeof navigator === "undefined" ? undefined : (navigator as { deviceMemory?: number }).deviceMemory;
}

let shared: PatchDecoder | null = null;

function pageDecoder(): PatchDecoder | null {
  if (typeof Worker === "undefined" || typeof WebAssembly === "undefined") return null;
  return shared ??= createPatchDecoder();
}

const buckets = new Map<string, Answerer>();

/** Datasets stay open: a page shows few. */
function bucketOf(address: string): Answerer {
  const known = buckets.get(address);
  if (known !== undefined) return known;
  const opened = openBucket(address);
  buckets.set(address, opened);
  return opened;
}

/** The answer, for whoever asks first; null afterwards. */
function once<T>(asked: Promise<T>): () => Promise<T> | null {
  let answer: Promise<T> | null = asked;
  asked.catch(() => undefined);  // the error is that of the call which takes the answer
  return () => {
    const taken = answer;
    answer = null;
    return taken;
  };
}

/**
 * A source that asks for a dataset at once, or for the list of datasets if the name is empty: the first such call has that
 * answer. Its signal ends nothing.
 */
export function askingAhead(source: Source, dataset: string): Source {
  if (dataset === "") {
    const list = once(source.list());
    return { ...source, list: (signal) => list() ?? source.list(signal) };
  }
  const open = once(source.open(dataset));
  return { ...source, open: (name, signal) => (name === dataset ? open() : null) ?? source.open(name, signal) };
}

export function createSource(baseUrl: string, options: SourceOptions = {}): Source {
  const server = options.transport ?? createTransport(baseUrl, options.token ?? (() => null), options.fetch);
  const transport = routed(server, (dataset) => (isAddress(dataset) ? (options.bucket ?? bucketOf)(dataset) : null));
  const wait = options.sleep ?? sleep;
  const client = new QuarryClient(transport, { retries: kRetries, sleep: wait });
  const queue = new StreamQueue(kStreams);
  const store = new BrickStore({
    reader: (query, signal) => queue.stream(query.priority, signal, () => client.read(query, signal)),
    decoder: options.decoder === undefined ? pageDecoder() : options.decoder,
    canDecode,
    budget: options.budget ?? defaultBudget(deviceMemory()),
    streams: kStreams,
    sleep: wait,
  });
  const events = {
    step: (dataset: string, step: number): void => { store.published(dataset, step); },
    lost: (dataset: string): void => { store.connection(dataset, "the connection to the server is lost; it is tried again"); },
    back: (dataset: string): void => { store.connection(dataset, null); },
  };
  return {
    list: (signal) => client.list(signal),
    open: (dataset, signal) => client.open(dataset, signal),
    watch: (dataset, after, signal) => client.watch(dataset, after, signal, events),
    statistics: (selection, box, level, what, signal) => client.statistics(selection, box, level, what, signal),
    points: (selection, indices, signal) => client.points(selection, indices, signal),
    bricks: (opened, selection) => store.bricks(opened, selection),
  };
}
