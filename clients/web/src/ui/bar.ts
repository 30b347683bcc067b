/** The line at the top: what is open, which field and step, and what can be done with the picture. */
import type { ViewState } from "../model";
import type { App } from "./app";
import { fieldTitle } from "./attributes";
import { fillSelect, h, icon, iconButton, kIcons, replace, setAttribute, setText } from "./dom";
import { fieldOptions } from "./fields";
import { paneKinds } from "./panes";
import { timeText } from "./text";

const kPaneTexts: Readonly<Record<ViewState["pane"], string>> = { all: "All", x: "x", y: "y", z: "z", volume: "Volume" };

export class Bar {
  readonly root: HTMLElement;
  readonly tabs: HTMLElement;
  private readonly dataset: HTMLButtonElement;
  private readonly field: HTMLSelectElement;
  private readonly slider: HTMLInputElement;
  private readonly stepText: HTMLElement;
  private readonly play: HTMLButtonElement;
  private readonly live: HTMLButtonElement;
  private readonly steps: HTMLElement;
  private readonly back: HTMLButtonElement;
  private readonly forward: HTMLButtonElement;
  private tabKey = "";

  constructor(private readonly app: App) {
    this.dataset = h("button", {
      type: "button",
      class: "dataset-button",
      title: "Choose a dataset (d)",
      click: () => {
        app.choose();
      },
    });
    this.field = h("select", {
      "aria-label": "Field",
      title: "Field",
      change: () => {
        app.chooseField(this.field.value);
      },
    });
    this.slider = h("input", {
      type: "range",
      min: 0,
      max: 0,
      step: 1,
      "aria-label": "Step",
      class: "step-slider",
      input: () => {
        app.stepTo(Number(this.slider.value));
      },
    });
    this.stepText = h("span", { class: "step-text" });
    this.back = iconButton("back", "Step before (,)", () => {
      app.stepBy(-1);
    });
    this.forward = iconButton("forward", "Next step (.)", () => {
      app.stepBy(1);
    });
    this.play = iconButton(
      "play",
      "Play (space)",
      () => {
        app.togglePlay();
      },
      { "aria-pressed": "false" },
    );
    this.live = h(
      "button",
      {
        type: "button",
        class: "live",
        "aria-pressed": "false",
        title: "Follow the newest step",
        click: () => {
          app.toggleLive();
        },
      },
      "Live",
    );
    this.steps = h(
      "div",
      { class: "steps", role: "group", "aria-label": "Steps" },
      this.back,
      this.play,
      this.forward,
      this.slider,
      this.stepText,
      this.live,
    );
    this.tabs = h("div", { class: "tabs", role: "group", "aria-label": "Panes" });
    this.root = h(
      "header",
      { class: "bar" },
      h("h1", { class: "name" }, "Quarry"),
      this.dataset,
      this.field,
      this.steps,
      h("span", { class: "space" }),
      this.tabs,
      this.actions(),
    );
  }

  private actions(): HTMLElement {
    const { app } = this;
    return h(
      "div",
      { class: "actions", role: "group", "aria-label": "Actions" },
      iconButton(
        "link",
        "Copy (l copies the link)",
        () => {
          app.toggleCopyMenu();
        },
        { id: "copy-button", "aria-haspopup": "true", "aria-expanded": "false" },
      ),
      iconButton("save", "Save as PNG (s)", () => {
        app.savePng();
      }),
      iconButton("theme", "Light or dark (t)", () => {
        app.toggleTheme();
      }),
      iconButton("help", "Keys and help (?)", () => {
        app.help();
      }),
      iconButton(
        "panel",
        "Panel (p)",
        () => {
          app.togglePanel();
        },
        { id: "panel-button", "aria-expanded": "true", "aria-controls": "panel" },
      ),
    );
  }

  update(): void {
    const { state, opened } = this.app;
    replace(
      this.dataset,
      icon(kIcons.data),
      h("span", {}, state?.dataset === undefined || state.dataset === "" ? "Choose a dataset" : state.dataset),
    );
    this.field.hidden = !opened;
    this.steps.hidden = !opened || opened.steps.length === 0;
    this.tabs.hidden = !opened;
    if (!opened || !state) return;
    fillSelect(this.field, fieldOptions(opened.info), state.field);
    const field = opened.info.fields.find((each) => each.name === state.field);
    setAttribute(this.field, "title", (field && fieldTitle(field.attributes)) ?? "Field");
    this.updateSteps();
    this.updateTabs();
  }

  private updateSteps(): void {
    const { app } = this;
    const list = app.stepNumbers;
    const wanted = app.wantedStep;
    const at = wanted === null ? -1 : list.indexOf(wanted);
    this.steps.classList.toggle("one", list.length < 2 && app.state?.step !== "live");
    this.steps.classList.toggle("still", app.still);
    this.slider.max = String(Math.max(0, list.length - 1));
    this.slider.value = String(Math.max(0, at));
    const shown = app.opened?.steps.find((step) => step.step === wanted);
    const time = shown === undefined ? "" : timeText(shown, app.opened!.info.timeUnit);
    const text = wanted === null ? "no step" : app.still ? "the same at all steps" : `step ${wanted}${time === "" ? "" : ` · ${time}`}`;
    setText(this.stepText, text);
    setAttribute(this.slider, "aria-valuetext", text);
    this.back.disabled = at <= 0;
    this.forward.disabled = at < 0 || at >= list.length - 1;
    setAttribute(this.live, "aria-pressed", String(app.state?.step === "live"));
    const playing = app.playing;
    setAttribute(this.play, "aria-pressed", String(playing));
    setAttribute(this.play, "aria-label", playing ? "Pause (space)" : "Play (space)");
    this.play.querySelector("path")?.setAttribute("d", playing ? kIcons.pause : kIcons.play);
    this.play.disabled = list.length < 2;
  }

  private updateTabs(): void {
    const { app } = this;
    const kinds = paneKinds(app.grid!).filter((kind) => kind !== "line");
    const names = app.grid!.axisNames;
    const list: ViewState["pane"][] = kinds.length <= 1 ? [] : app.stage.narrow ? [...kinds] : ["all", ...kinds];
    const texts = list.map((pane) =>
      pane === "x" ? names[0] : pane === "y" ? names[1] : pane === "z" ? names[2] : kPaneTexts[pane],
    );
    const key = texts.join();
    if (key !== this.tabKey) {
      this.tabKey = key;
      replace(
        this.tabs,
        ...list.map((pane, i) =>
          h(
            "button",
            {
              type: "button",
              "data-pane": pane,
              "aria-pressed": "false",
              title: pane === "all" ? "All panes (1)" : pane === "volume" ? "Volume (5)" : `Slice across ${texts[i]!}`,
              click: () => {
                app.set({ pane });
              },
            },
            texts[i]!,
          ),
        ),
      );
    }
    const current = app.stage.narrow && app.state!.pane === "all" ? list[0] : app.state!.pane;
    for (const button of this.tabs.children)
      setAttribute(button, "aria-pressed", String((button as HTMLElement).dataset.pane === current));
  }
}
