import { errorText } from "../errors";
import type { Box, BoxStatistics, GridInfo, Selection, Source } from "../model";

/** Statistics read at most so many samples on the server: they must be there while one looks. */
const kSamples = 2 ** 21;
const kWait = 250;

/** Asks for the statistics of the box on screen, once it rests, and one question at a time. */
export class StatisticsFeed {
  result: BoxStatistics | null = null;
  error: string | null = null;
  private key = "";
  private timer = 0;
  private abort = new AbortController();

  constructor(private readonly onChange: () => void) {}

  ask(source: Source, selection: Selection, box: Box, level: number, grid: GridInfo): void {
    const samples = (at: number): number =>
      box.end.reduce((product, end, a) => product * Math.ceil((end - box.begin[a]!) / 2 ** at), 1);
    let coarse = level;
    while (coarse < grid.levels - 1 && samples(coarse) > kSamples) ++coarse;
    const key = JSON.stringify([selection, box, coarse]);
    if (key === this.key) return;
    this.key = key;
    window.clearTimeout(this.timer);
    this.abort.abort();
    this.timer = window.setTimeout(() => {
      void this.fetch(source, selection, box, coarse);
    }, kWait);
  }

  private async fetch(source: Source, selection: Selection, box: Box, level: number): Promise<void> {
    const { signal } = (this.abort = new AbortController());
    try {
      const result = await source.statistics(selection, box, level, { percentiles: [1, 5, 50, 95, 99], bins: 64 }, signal);
      if (signal.aborted) return;
      [this.result, this.error] = [result, null];
    } catch (error) {
      if (signal.aborted) return;
      const message = `${errorText(error)}; the next change of the box asks again`;
      [this.result, this.error] = [null, message];
    }
    this.onChange();
  }
}
