import type { RangeMode } from "../model";
import { kColourMaps, mapColour } from "../render/colourmaps";
import type { Scale } from "../render/compose";
import { longAxes } from "../render/layout";
import { button, choiceButtons, fillSelect, h, pixelRatio, pressChoice, select, setAttribute, setText, sizedContext,
         slider } from "./dom";
import type { Choice } from "./dom";
import type { Measured, Setting, Shown, Styled, Viewed } from "./page";
import type { Part } from "./part";
import { fullRange, rangeOf } from "./scenes";
import { short } from "./text";

export type ColourNeeds = Pick<Viewed, "state"> & Pick<Setting, "setColour"> & Shown & Pick<Measured, "statistics">
  & Pick<Styled, "colours">;

const kModes: readonly Choice<RangeMode>[] = [
  { value: "auto", text: "Auto", title: "The range of the field, which follows the steps" },
  { value: "step", text: "Step", title: "The range of the step on screen" },
  { value: "locked", text: "Locked", title: "The range stays as it is" },
];
const kSteps = 1000;

function numberInput(label: string, change: (value: number) => void): HTMLInputElement {
  const input = h("input", {
    type: "text",
    inputmode: "decimal",
    "aria-label": label,
    class: "number",
    change: () => {
      const value = Number(input.value.replace("−", "-"));
      const valid = input.value.trim() !== "" && Number.isFinite(value);
      setAttribute(input, "aria-invalid", valid ? null : "true");
      if (valid) change(value);
    },
  });
  return input;
}

/** Colour map and range, with handles over the histogram of the box on screen. */
export class ColourPart implements Part {
  readonly title = "Colours";
  readonly body: HTMLElement;
  private readonly map = select((map) => {
    this.page.setColour({ map });
  }, { "aria-label": "Colour map" });
  private readonly modes = choiceButtons(kModes, (mode) => {
    this.setMode(mode);
  });
  private readonly low = numberInput("Low end of the colours", (value) => {
    this.lock(value, null);
  });
  private readonly high = numberInput("High end of the colours", (value) => {
    this.lock(null, value);
  });
  private readonly handles = [this.handle("Low end of the colours", 0), this.handle("High end of the colours", 1)] as const;
  private readonly canvas = h("canvas", { class: "histogram", role: "img", "aria-label": "Histogram of the box on screen" });
  private readonly fit = button("Fit", () => {
    this.fitRange();
  }, { title: "Lock the range to 1 % to 99 % of the samples on screen" });
  private readonly caption = h("p", { class: "hint" });
  private drawn = "";

  constructor(private readonly page: ColourNeeds) {
    const modes = h("div", { class: "segments", role: "group", "aria-label": "Colour range" }, ...this.modes);
    this.body = h(
      "div",
      { class: "part-body" },
      h("div", { class: "row" }, this.map, modes),
      h("div", { class: "ranged" }, this.canvas, h("div", { class: "handles" }, ...this.handles)),
      h("div", { class: "row" }, this.low, h("span", { class: "to" }, "to"), this.high, this.fit),
      this.caption,
    );
  }

  get useful(): boolean {
    const { a } = this.page.feeds;
    // Differences have a range and a map of their own.
    return a !== null && longAxes(a.grid).length > 1 && this.page.difference === null;
  }

  private handle(label: string, end: 0 | 1): HTMLInputElement {
    return slider(label, kSteps, 1, (place) => {
      this.dragged(end, place);
    });
  }

  /** Range of the histogram and its handles. */
  private span(): Scale {
    const { feeds, state } = this.page;
    const full = fullRange(state!.colour.map, feeds.a!.step.min, feeds.a!.step.max);
    const now = rangeOf(state!.colour, feeds.a!);
    return { low: Math.min(full.low, now.low), high: Math.max(full.high, now.high) };
  }

  private setMode(mode: RangeMode): void {
    const now = rangeOf(this.page.state!.colour, this.page.feeds.a!);
    this.page.setColour(mode === "locked" ? { mode, ...now } : { mode, low: null, high: null });
  }

  private fitRange(): void {
    const at = (percent: number): number | undefined =>
      this.page.statistics?.percentiles.find((each) => each.percent === percent)?.at.value;
    const [low, high] = [at(1), at(99)];
    if (low === undefined || high === undefined || !(high > low)) return;
    this.page.setColour({ mode: "locked", ...fullRange(this.page.state!.colour.map, low, high) });
  }

  private lock(low: number | null, high: number | null): void {
    const now = rangeOf(this.page.state!.colour, this.page.feeds.a!);
    const next = { low: low ?? now.low, high: high ?? now.high };
    const valid = next.high > next.low;
    for (const input of [this.low, this.high]) setAttribute(input, "aria-invalid", valid ? null : "true");
    if (valid) this.page.setColour({ mode: "locked", ...next });
    else setText(this.caption, `The low end ${short(next.low)} must be below the high end ${short(next.high)}.`);
  }

  private dragged(end: 0 | 1, place: number): void {
    const span = this.span();
    const now = rangeOf(this.page.state!.colour, this.page.feeds.a!);
    const value = span.low + ((span.high - span.low) * place) / kSteps;
    const least = (span.high - span.low) / kSteps;
    const next =
      end === 0
        ? { low: Math.min(value, now.high - least), high: now.high }
        : { low: now.low, high: Math.max(value, now.low + least) };
    this.page.setColour({ mode: "locked", ...next });
  }

  update(): void {
    const { state, feeds } = this.page;
    if (!state || !feeds.a) return;
    fillSelect(
      this.map,
      kColourMaps.map((name) => ({ value: name, text: name })),
      state.colour.map,
    );
    pressChoice(this.modes, state.colour.mode);
    const range = rangeOf(state.colour, feeds.a);
    const span = this.span();
    const show = (input: HTMLInputElement, value: number): void => {
      if (document.activeElement !== input || input.getAttribute("aria-invalid") === null) input.value = short(value, 5);
    };
    show(this.low, range.low);
    show(this.high, range.high);
    this.handles.forEach((handle, i) => {
      const value = i === 0 ? range.low : range.high;
      handle.value = String(Math.round(((value - span.low) / (span.high - span.low)) * kSteps));
      setAttribute(handle, "aria-valuetext", `${short(value)} ${feeds.a!.field.unit}`);
    });
    setText(
      this.caption,
      `Step ${feeds.a.selection.step} has ${short(feeds.a.step.min)} to ${short(feeds.a.step.max)} ${feeds.a.field.unit}`.trim(),
    );
    this.fit.disabled = this.page.statistics === null;
    this.drawHistogram(range, span);
  }

  private drawHistogram(range: Scale, span: Scale): void {
    const histogram = this.page.statistics?.histogram ?? null;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const theme = this.page.colours;
    const key = JSON.stringify([histogram, range, span, width, pixelRatio(), this.page.state!.colour.map, theme.background]);
    if (key === this.drawn || width === 0) return;
    this.drawn = key;
    const context = sizedContext(this.canvas);
    const bar = 7;
    const most = Math.max(1, ...(histogram?.counts ?? []).map((count) => Math.sqrt(count)));
    for (let x = 0; x < width; ++x) {
      const value = span.low + ((x + 0.5) / width) * (span.high - span.low);
      const share = (value - range.low) / (range.high - range.low);
      const inside = share >= 0 && share <= 1;
      context.fillStyle = `rgb(${mapColour(this.page.state!.colour.map, share).join(",")})`;
      context.fillRect(x, height - bar, 1, bar);
      if (!histogram) continue;
      const bin = Math.floor(((value - histogram.begin) / (histogram.end - histogram.begin)) * histogram.counts.length);
      const tall = (Math.sqrt(histogram.counts[bin] ?? 0) / most) * (height - bar - 3);
      context.fillStyle = theme.muted;
      context.globalAlpha = inside ? 0.9 : 0.3;
      context.fillRect(x, height - bar - 1 - tall, 1, tall);
      context.globalAlpha = 1;
    }
  }
}
