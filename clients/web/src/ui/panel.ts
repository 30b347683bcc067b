import type { App } from "./app";
import { AttributesPart } from "./attributespart";
import { BoxPart } from "./boxpart";
import { ColourPart } from "./colourpart";
import { ComparePart } from "./comparepart";
import { h, iconButton } from "./dom";
import { ProfilePart } from "./profilepart";
import { StatisticsPart } from "./statisticspart";
import { VolumePart } from "./volumepart";

/** A section of the panel, which folds. */
export interface Part {
  readonly title: string;
  readonly body: HTMLElement;
  /** Hides the section where it makes no sense. */
  readonly useful: boolean;
  update(): void;
}

export class Panel {
  readonly root: HTMLElement;
  private readonly parts: readonly { readonly part: Part; readonly frame: HTMLDetailsElement }[];

  constructor(app: App) {
    const parts: readonly Part[] = [
      new ColourPart(app),
      new VolumePart(app),
      new StatisticsPart(app),
      new BoxPart(app),
      new ProfilePart(app),
      new ComparePart(app),
      new AttributesPart(app),
    ];
    this.parts = parts.map((part, i) => {
      const frame = h(
        "details",
        {
          class: "part",
          toggle: () => {
            if (frame.open) part.update();
          },
        },
        h("summary", {}, part.title),
        part.body,
      );
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
          app.togglePanel();
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
