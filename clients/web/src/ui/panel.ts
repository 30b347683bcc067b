import { AttributesPart } from "./attributespart";
import type { AttributesNeeds } from "./attributespart";
import { BoxPart } from "./boxpart";
import type { BoxNeeds } from "./boxpart";
import { ColourPart } from "./colourpart";
import type { ColourNeeds } from "./colourpart";
import { ComparePart } from "./comparepart";
import type { CompareNeeds } from "./comparepart";
import { h, iconButton } from "./dom";
import type { Commands, Stepping } from "./page";
import type { Part } from "./part";
import { ProfilePart } from "./profilepart";
import type { ProfileNeeds } from "./profilepart";
import { StatisticsPart } from "./statisticspart";
import type { StatisticsNeeds } from "./statisticspart";
import { VolumePart } from "./volumepart";
import type { VolumeNeeds } from "./volumepart";

/** The needs of all its parts; and it can be closed. */
export type PanelNeeds = ColourNeeds & VolumeNeeds & StatisticsNeeds & BoxNeeds & ProfileNeeds & CompareNeeds
  & AttributesNeeds & Pick<Commands, "togglePanel">;

export class Panel {
  readonly root: HTMLElement;
  private readonly parts: readonly { readonly part: Part; readonly frame: HTMLDetailsElement }[];

  constructor(page: PanelNeeds, stepping: Stepping) {
    const parts: readonly Part[] = [
      new ColourPart(page),
      new VolumePart(page),
      new StatisticsPart(page),
      new BoxPart(page),
      new ProfilePart(page),
      new ComparePart(page, stepping),
      new AttributesPart(page),
    ];
    this.parts = parts.map((part, i) => {
      const toggle = (): void => {
        if (frame.open) part.update();
      };
      const frame = h("details", { class: "part", toggle }, h("summary", {}, part.title), part.body);
      frame.open = i < 3;
      return { part, frame };
    });
    this.root = h(
      "aside",
      { class: "panel", id: "panel", "aria-label": "Panel" },
      h(
        "div",
        { class: "panel-head" },
        h("span", {}, "Settings"),
        iconButton("close", "Close the panel", () => {
          page.togglePanel();
        }),
      ),
      ...this.parts.map(({ frame }) => frame),
    );
  }

  update(): void {
    if (this.root.hidden) return;
    for (const { part, frame } of this.parts) {
      frame.hidden = !part.useful;
      if (frame.open && part.useful) part.update();
    }
  }
}
