/** The calls of the service as plain data. */
import { type Client, createClient, type Transport } from "@connectrpc/connect";
import type { BoundedValue, GetStatisticsResponse } from "../../build/proto/quarry/v1/service_pb";
import { QuarryService } from "../../build/proto/quarry/v1/service_pb";
import { CallError } from "../errors";
import type { Bounded, BoxStatistics, DatasetInfo, DatasetSummary, Opened, Selection, Source, StepInfo } from "../model";
import type { ReadEvent, ReadQuery } from "../reading";
import { count, datasetInfo, datasetSummary, stepInfo, text } from "./convert";
import { badAnswer, withRetries } from "./errors";
import { read, type ReadOptions } from "./read";
import { watch, type WatchEvents, WatchSlot } from "./watch";

/** Limits of one listing: more than a person reads, and little enough to hold. */
const kMostDatasets = 100_000;
const kMostSteps = 1_000_000;
const kMostPoints = 100_000;
const kMostPercentiles = 100;
const kMostBins = 4096;

interface Page<T> {
  readonly items: readonly T[];
  readonly next: string;
}

/** All pages. A server that turns in a circle, or never ends, is stopped. */
async function allPages<T>(fetchPage: (token: string) => Promise<Page<T>>, most: number, what: string): Promise<T[]> {
  const out: T[] = [];
  const tokens = new Set<string>();
  for (let token = ""; ;) {
    const page = await fetchPage(token);
    for (const item of page.items) out.push(item);
    if (page.next === "") return out;
    if (out.length > most) throw new CallError("resource_exhausted", `more than ${most} ${what} are too many for this page`);
    if (tokens.has(page.next) || tokens.size > most / 100) throw badAnswer(`the pages of ${what} do not end`);
    token = page.next;
    tokens.add(token);
  }
}

function bounded(value: BoundedValue | undefined): Bounded {
  return { value: value?.value ?? NaN, low: value?.low ?? NaN, high: value?.high ?? NaN, unresolved: value?.unresolved ?? false };
}

function boxStatistics(
  message: GetStatisticsResponse, field: string, level: number, percentiles: number, bins: number,
): BoxStatistics {
  const { statistics } = message;
  if (statistics === undefined) throw badAnswer("it has no statistics");
  const { histogram } = statistics;
  if (statistics.percentiles.length !== percentiles || (histogram?.counts.length ?? 0) > bins) {
    throw badAnswer(`it has ${statistics.percentiles.length} percentiles and ${histogram?.counts.length ?? 0} bins`);
  }
  return {
    field, level, valid: count(statistics.valid, "valid"), missing: count(statistics.missing, "missing"),
    min: bounded(statistics.min), max: bounded(statistics.max),
    mean: bounded(statistics.mean), stddev: bounded(statistics.stddev),
    percentiles: statistics.percentiles.map((one) => ({ percent: one.percent, at: bounded(one.at) })),
    histogram: histogram === undefined ? null
      : { begin: histogram.begin, end: histogram.end, counts: histogram.counts.map((one) => count(one, "a bin")) },
  };
}

export class QuarryClient {
  private readonly client: Client<typeof QuarryService>;
  private readonly slot = new WatchSlot();
  private readonly known = new Map<string, DatasetInfo>();

  constructor(transport: Transport, private readonly options: ReadOptions) {
    this.client = createClient(QuarryService, transport);
  }

  async list(signal?: AbortSignal): Promise<readonly DatasetSummary[]> {
    return allPages(async (pageToken) => {
      const answer = await this.call((options) => this.client.listDatasets({ pageSize: 1000, pageToken }, options), signal);
      return { items: answer.datasets.map(datasetSummary), next: text(answer.nextPageToken, "a page token") };
    }, kMostDatasets, "datasets");
  }

  async open(dataset: string, signal?: AbortSignal): Promise<Opened> {
    const found: { info?: DatasetInfo } = {};
    const steps = await allPages(async (pageToken) => {
      const request = { dataset, pageToken, pageSize: 1000, withoutSubfiles: true };
      const answer = await this.call((options) => this.client.getDataset(request, options), signal);
      const known = found.info ??= datasetInfo(dataset, answer.manifest);
      return { items: answer.steps.map((step, i) => stepInfo(step, answer.dates[i] ?? "", known)), next: text(answer.nextPageToken, "a page token") };
    }, kMostSteps, "steps");
    const ascend = steps.every((step, i) => i === 0 || step.step > steps[i - 1]!.step);
    if (!ascend) throw badAnswer(`the steps of "${dataset}" do not ascend`);
    const { info } = found;
    if (info === undefined) throw badAnswer(`"${dataset}" comes without its grids`);
    this.known.set(dataset, info);
    return { info, steps };
  }

  /** One stream a page: another watch ends this one. */
  watch(dataset: string, after: number | null, signal: AbortSignal, events?: WatchEvents): AsyncIterable<StepInfo> {
    return watch(this.client, this.slot, (s) => this.info(dataset, s), { dataset, after, signal, events, sleep: this.options.sleep });
  }

  async statistics(...[selection, box, level, options, signal]: Parameters<Source["statistics"]>): Promise<BoxStatistics> {
    if (options.percentiles.length > kMostPercentiles || options.bins > kMostBins) {
      throw new CallError("invalid_argument", `${kMostPercentiles} percentiles and ${kMostBins} bins are the most`);
    }
    const query = {
      dataset: selection.dataset, ...this.subject(selection), step: BigInt(selection.step),
      box: { begin: [...box.begin], end: [...box.end] }, target: { case: "level" as const, value: level },
    };
    const request = { query, percentiles: [...options.percentiles], bins: options.bins };
    const answer = await this.call((o) => this.client.getStatistics(request, o), signal);
    return boxStatistics(answer, selection.field, level, options.percentiles.length, options.bins);
  }

  async points(selection: Selection, indices: readonly number[], signal?: AbortSignal): ReturnType<Source["points"]> {
    const values: number[] = [];
    let maxError = 0;
    for (let i = 0; i < indices.length; i += 3 * kMostPoints) {
      const part = indices.slice(i, i + 3 * kMostPoints);
      const request = { dataset: selection.dataset, ...this.subject(selection), step: BigInt(selection.step), coordinates: part };
      const answer = await this.call((options) => this.client.readPoints(request, options), signal);
      const points = part.length / 3;
      if (answer.values.length !== points) throw badAnswer(`${answer.values.length} values for ${points} points`);
      for (const value of answer.values) values.push(value);
      maxError = Math.max(maxError, answer.maxError);
    }
    return { values, maxError };
  }

  read(query: ReadQuery, signal: AbortSignal): AsyncIterable<ReadEvent> {
    return read(this.client, query, signal, this.options);
  }

  /** The field of the dataset, and the layer of accuracy where it has several. */
  private subject({ dataset, field }: Selection): { field: string; layer?: number } {
    const found = this.known.get(dataset)?.fields.find((one) => one.name === field);
    return found === undefined || found.layers === 1 ? { field } : { field: found.stored, layer: found.layer };
  }

  private async info(dataset: string, signal: AbortSignal): Promise<DatasetInfo> {
    const found = this.known.get(dataset);
    if (found !== undefined) return found;
    const answer = await this.call((options) => this.client.getDataset({ dataset, manifestOnly: true }, options), signal);
    return datasetInfo(dataset, answer.manifest);
  }

  private call<T>(make: (options: { signal?: AbortSignal }) => Promise<T>, signal?: AbortSignal): Promise<T> {
    return withRetries(() => make(signal === undefined ? {} : { signal }), this.options.retries, this.options.sleep, signal);
  }
}
