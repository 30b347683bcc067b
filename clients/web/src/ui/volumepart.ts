import type { ViewState } from "../model";
import { choiceButtons, h, pressChoice, setText, slider } from "./dom";
import type { Choice } from "./dom";
import type { Setting, Viewed } from "./page";
import { paneKinds } from "./panes";
import type { Part } from "./part";

export type VolumeNeeds = Pick<Viewed, "state" | "grid"> & Pick<Setting, "set" | "stopMoving">;

const kModes: readonly Choice<ViewState["volume"]["mode"]>[] = [
  { value: "ray", text: "Rays", title: "Colours and opacity along each ray" },
  { value: "maximum", text: "Maximum", title: "The largest value along each ray" },
  { value: "surface", text: "Surface", title: "The surface where the threshold is reached" },
];

/** The transfer function of the volume: from which share of the range on it is seen, and how opaque it is. */
export class VolumePart implements Part {
  readonly title = "Volume";
  readonly body: HTMLElement;
  private readonly modes = choiceButtons(kModes, (mode) => {
    this.set({ mode });
  });
  private readonly threshold = slider("Threshold", 1, 0.01, (threshold) => {
    this.set({ threshold });
  });
  private readonly opacity = slider("Opacity", 1, 0.01, (opacity) => {
    this.set({ opacity });
  });
  private readonly texts = [h("output"), h("output")] as const;
  private readonly opacityRow: HTMLElement;

  constructor(private readonly page: VolumeNeeds) {
    const row = (name: string, control: HTMLElement, text: HTMLElement): HTMLElement =>
      h("div", { class: "slider-row" }, h("span", {}, name), control, text);
    this.opacityRow = row("Opacity", this.opacity, this.texts[1]);
    this.body = h(
      "div",
      { class: "part-body" },
      h("div", { class: "segments wide", role: "group", "aria-label": "Way of drawing" }, ...this.modes),
      row("Threshold", this.threshold, this.texts[0]),
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
    pressChoice(this.modes, volume.mode);
    this.threshold.value = String(volume.threshold);
    this.opacity.value = String(volume.opacity);
    setText(this.texts[0], `${Math.round(volume.threshold * 100)} %`);
    setText(this.texts[1], `${Math.round(volume.opacity * 100)} %`);
    this.opacityRow.hidden = volume.mode !== "ray";
  }
}
