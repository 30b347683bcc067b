import { afterEach, describe, expect, it, vi } from "vitest";
import type { BoxStatistics, GridInfo, Selection, Source } from "../../src/model";
import { StatisticsFeed } from "../../src/ui/statistics";

const selection: Selection = { dataset: "run", field: "temp", step: 0 };
const grid = { levels: 3 } as GridInfo;
const box = (end: number): { begin: [number, number, number]; end: [number, number, number] } => ({ begin: [0, 0, 0], end: [end, 1, 1] });

describe("statistics of the box on screen", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it("are those of the last question, and none when it fails", async () => {
    // Asks at once.
    vi.stubGlobal("window", { clearTimeout: () => undefined, setTimeout: (run: () => void): number => (run(), 1) });
    const answers = [(): BoxStatistics => ({ valid: 4 }) as BoxStatistics, (): BoxStatistics => { throw new Error("the server is away"); }];
    const source = { statistics: () => new Promise((done) => { done(answers.shift()!()); }) } as unknown as Source;
    let told: () => void = () => undefined;
    const feed = new StatisticsFeed(() => { told(); });
    const ask = async (end: number): Promise<void> => {
      const heard = new Promise<void>((done) => { told = done; });
      feed.ask(source, selection, box(end), 0, grid);
      await heard;
    };

    await ask(4);
    expect([feed.result?.valid, feed.error]).toEqual([4, null]);
    await ask(5);
    expect(feed.result).toBeNull();
    expect(feed.error).toBe("the server is away; the next change of the box asks again");
  });
});
