import type { Bounded } from "../model";
import { h, setText } from "./dom";
import type { Measured, Shown } from "./page";
import type { Part } from "./part";
import { short } from "./text";

export type StatisticsNeeds = Pick<Shown, "feeds"> & Measured;

function within(bounded: Bounded): string {
  return `${short(bounded.low, 6)} to ${short(bounded.high, 6)} in the original samples`;
}

/** Statistics of the box on screen, from the server, at the level on screen. */
export class StatisticsPart implements Part {
  readonly title = "Statistics";
  readonly body: HTMLElement;
  private readonly table = h("table", { class: "numbers" });
  private readonly caption = h("p", { class: "hint" });

  constructor(private readonly page: StatisticsNeeds) {
    this.body = h("div", { class: "part-body" }, this.table, this.caption);
  }

  get useful(): boolean {
    return this.page.feeds.a !== null;
  }

  update(): void {
    const { statistics, statisticsError } = this.page;
    if (statisticsError !== null) setText(this.caption, statisticsError);
    else if (!statistics) setText(this.caption, "Statistics are on their way.");
    if (!statistics) {
      this.table.replaceChildren();
      return;
    }
    const row = (name: string, bounded: Bounded): HTMLElement =>
      h("tr", { title: within(bounded) }, h("th", { scope: "row" }, name), h("td", {}, bounded.unresolved ? "not resolved" : short(bounded.value, 5)));
    const cells: [string, Bounded][] = [
      ["Minimum", statistics.min],
      ["Mean", statistics.mean],
      ["Maximum", statistics.max],
      ["Deviation", statistics.stddev],
      ...statistics.percentiles.map(({ percent, at }): [string, Bounded] => [percent === 50 ? "Median" : `${percent} %`, at]),
    ];
    this.table.replaceChildren(h("tbody", {}, ...cells.map(([name, bounded]) => row(name, bounded))));
    const missing = statistics.missing === 0 ? "none missing" : `${statistics.missing.toLocaleString("en")} missing`;
    const samples = `${statistics.valid.toLocaleString("en")} samples, ${missing}`;
    setText(this.caption, `${statistics.field} in the box on screen at level ${statistics.level}: ${samples}`);
  }
}
