import type { ViewState } from "../model";
import { h, setAttribute, setText } from "./dom";
import type { Setting, Viewed } from "./page";
import { paneKinds } from "./panes";
import type { Part } from "./part";

export type VolumeNeeds = Pick<Viewed, "state" | "grid"> & Pick<Setting, "set" | "stopMoving">;

const kModes: readonly { readonly mode: ViewState["volume"]["mode"]; readonly text: string; readonly help: string }[] = [
  { mode: "ray", text: "Rays", help: "Colours and opacity along each ray" },
  { mode: "maximum", text: "Maximum", help: "The largest value along each ray" },
  { mode: "surface", text: "Surface", help: "The surface where the threshold is reached" },
];

/** The transfer function of the volume: from which share of the range on it is seen, and how opaque it is. */
export class VolumePart implements Part {
  readonly title = "Volume";
  readonly body: HTMLElement;
  private readonly modes: HTMLElement;
  private readonly threshold: HTMLInputElement;
  private readonly opacity: HTMLInputElement;
  private readonly texts: readonly [HTMLElement, HTMLElement];
  private readonly opacityRow: HTMLElement;

  constructor(private readonly page: VolumeNeeds) {
    this.modes = h(
      "div",
      { class: "segments wide", role: "group", "aria-label": "Way of drawing" },
      ...kModes.map(({ mode, text, help }) =>
        h(
          "button",
          {
            type: "button",
            "data-mode": mode,
            title: help,
            click: () => {
              this.set({ mode });
            },
          },
          text,
        ),
      ),
    );
    const slider = (label: string, change: (value: number) => void): HTMLInputElement => {
      const input = h("input", {
        type: "range",
        min: 0,
        max: 1,
        step: 0.01,
        "aria-label": label,
        input: () => {
          change(Number(input.value));
        },
      });
      return input;
    };
    this.threshold = slider("Threshold", (threshold) => {
      this.set({ threshold });
    });
    this.opacity = slider("Opacity", (opacity) => {
      this.set({ opacity });
    });
    this.texts = [h("output", {}), h("output", {})];
    this.opacityRow = h("div", { class: "slider-row" }, h("span", {}, "Opacity"), this.opacity, this.texts[1]);
    this.body = h(
      "div",
      { class: "part-body" },
      this.modes,
      h("div", { class: "slider-row" }, h("span", {}, "Threshold"), this.threshold, this.texts[0]),
      this.opacityRow,
    );
  }

  get useful(): boolean {
    const { grid } = this.page;
    return grid !== null && paneKinds(grid).includes("volume");
  }

  private set(change: Partial<ViewState["volume"]>): void {
    this.page.set({ volume: { ...this.page.state!.volume, ...change } }, true);
    this.page.stopMoving();
  }

  update(): void {
    const volume = this.page.state?.volume;
    if (!volume) return;
    for (const button of this.modes.children)
      setAttribute(button, "aria-pressed", String((button as HTMLElement).dataset.mode === volume.mode));
    this.threshold.value = String(volume.threshold);
    this.opacity.value = String(volume.opacity);
    setText(this.texts[0], `${Math.round(volume.threshold * 100)} %`);
    setText(this.texts[1], `${Math.round(volume.opacity * 100)} %`);
    this.opacityRow.hidden = volume.mode !== "ray";
  }
}
