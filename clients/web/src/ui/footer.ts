/** The lines at the bottom: the cursor, and what exactly is on screen. */
import type { Vec3 } from "../model";
import { gridAxis } from "../render/axes";
import { longAxes } from "../render/layout";
import { readingAt } from "../render/probe";
import { differenceError, differenceText } from "./captions";
import { h, setAttribute, setText } from "./dom";
import type { Loading, Pointed, Shown, Viewed } from "./page";
import { finestOf } from "./panes";
import { kStateNames, placeText, short, statusText, withError, withUnit } from "./text";

export type FooterNeeds = Pick<Viewed, "state"> & Shown & Pick<Loading, "opening" | "openError" | "latest">
  & Pick<Pointed, "hovered" | "coordinatesAt" | "storedAt">;

export class Footer {
  readonly root: HTMLElement;
  private readonly places = h("span", { class: "places" });
  private readonly value = h("strong", { class: "value" });
  private readonly quality = h("span", { class: "quality" });
  private readonly state = h("span", { class: "load-state" });
  private readonly text = h("span", { class: "load-text" });
  private readonly progress = h("span", { class: "progress", "aria-hidden": "true" });

  constructor(private readonly page: FooterNeeds) {
    this.root = h(
      "footer",
      { class: "footer" },
      h("div", { class: "reading", role: "group", "aria-label": "Cursor" }, this.places, this.value, this.quality),
      h("div", { class: "load", role: "status", "aria-live": "off" }, this.progress, this.state, this.text),
    );
  }

  update(): void {
    this.updateReading();
    this.updateLoad();
  }

  private updateLoad(): void {
    const { feeds, latest, openError } = this.page;
    const source = latest ?? feeds.a;
    if (!source) {
      setText(this.state, openError ? "Failed" : this.page.opening ? "Opening" : "");
      setText(this.text, "");
      return;
    }
    const { status } = source;
    setText(this.state, kStateNames[status.state]);
    setAttribute(this.state, "data-state", status.state);
    const shown =
      feeds.a && source !== feeds.a ? `showing step ${feeds.a.selection.step} of ${feeds.a.field.name} until then · ` : "";
    const message = status.message === null || status.state === "failed" ? "" : `${status.message} · `;
    setText(this.text, shown + message + statusText(status, source.grid.levels, source.field.unit));
    const share = status.state === "settled" || status.expected === 0 ? 0 : Math.min(1, status.received / status.expected);
    this.progress.style.transform = `scaleX(${share})`;
  }

  updateReading(): void {
    const { feeds, state } = this.page;
    const side = this.page.hovered?.side === "b" && feeds.b ? "b" : "a";
    const source = feeds[side];
    if (!source || !state) {
      for (const element of [this.places, this.value, this.quality]) setText(element, "");
      return;
    }
    const index: Vec3 = this.page.hovered?.index ?? state.cursor;
    const { grid, field, step } = source;
    // With two levels side by side, the level of the picture under the pointer: the same bricks may be there finer.
    const finest = this.page.difference ? 0 : finestOf(state, side, grid);
    let reading = readingAt(source, index, finest, !this.page.difference);
    const stored = reading?.codedWithin == null || reading.missing || finest > 0 ? null : this.page.storedAt(side, reading.sample);
    if (reading && stored) reading = { ...reading, value: stored.value, level: 0, codedWithin: null };
    const axes = longAxes(grid).length > 0 ? longAxes(grid) : ([0] as const);
    const at = reading?.sample ?? index;
    const places = axes.map((a) => {
      const axis = gridAxis(grid, a);
      return `${axis.name} ${placeText(axis, at[a])}`;
    });
    const coordinates = this.page.coordinatesAt(side, at);
    setText(this.places, (coordinates === "" ? places : [...places, coordinates]).join("   "));
    const difference = differenceText(this.page, index);
    const error = !reading
      ? null
      : difference === null
        ? (stored?.error ?? reading.codedWithin ?? step.levels[reading.level]?.maxError ?? null)
        : differenceError(this.page, reading.level);
    setText(
      this.value,
      !reading
        ? "outside, or not there yet"
        : reading.missing
          ? `${field.name} missing`
          : (difference ?? `${field.name} ${withUnit(withError(reading.value, error), field.unit)}`),
    );
    setText(
      this.quality,
      !reading || reading.missing
        ? ""
        : [`± ${error === null ? "unknown" : short(error, 2)}`, `level ${reading.level}`, ...(reading.codedWithin === null ? [] : ["coded"]),
            ...(reading.damaged ? ["damaged"] : [])].join("   "),
    );
  }
}
