/** The bar at the top: open dataset, field and step, and actions on the picture. */
import type { ViewState } from "../model";
import { fillAccuracy } from "./accuracy";
import { fieldTitle } from "./attributes";
import { fillSelect, h, icon, iconButton, kIcons, replace, setAttribute, setText } from "./dom";
import { fieldOptions } from "./fields";
import type { Commands, Loading, Playing, Setting, Stepping, Styled, Viewed } from "./page";
import { paneKinds } from "./panes";
import { timeText } from "./text";

export type BarNeeds = Viewed & Pick<Loading, "latest"> & Pick<Setting, "set" | "chooseField"> & Playing & Pick<Styled, "narrow">
  & Pick<Commands, "choose" | "help" | "toggleCopyMenu" | "savePng" | "togglePanel" | "toggleTheme">;

const kPaneTexts: Readonly<Record<ViewState["pane"], string>> = { all: "All", x: "x", y: "y", z: "z", volume: "Volume" };

export class Bar {
  readonly root: HTMLElement;
  readonly tabs: HTMLElement;
  private readonly dataset: HTMLButtonElement;
  private readonly field: HTMLSelectElement;
  private readonly accuracy: HTMLSelectElement;
  private readonly slider: HTMLInputElement;
  private readonly stepText: HTMLElement;
  private readonly play: HTMLButtonElement;
  private readonly live: HTMLButtonElement;
  private readonly steps: HTMLElement;
  private readonly back: HTMLButtonElement;
  private readonly forward: HTMLButtonElement;
  private tabKey = "";

  constructor(
    private readonly page: BarNeeds,
    private readonly stepping: Stepping,
  ) {
    this.dataset = h("button", {
      type: "button",
      class: "dataset-button",
      title: "Choose a dataset (d)",
      click: () => {
        page.choose();
      },
    });
    this.field = h("select", {
      "aria-label": "Field",
      title: "Field",
      change: () => {
        page.chooseField(this.field.value);
      },
    });
    this.accuracy = h("select", {
      change: () => {
        page.chooseField(this.accuracy.value);
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
        stepping.to(Number(this.slider.value));
      },
    });
    this.stepText = h("span", { class: "step-text" });
    this.back = iconButton("back", "Step before (,)", () => {
      stepping.by(-1);
    });
    this.forward = iconButton("forward", "Next step (.)", () => {
      stepping.by(1);
    });
    this.play = iconButton(
      "play",
      "Play (space)",
      () => {
        page.togglePlay();
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
          stepping.toggleLive();
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
      this.accuracy,
      this.steps,
      h("span", { class: "space" }),
      this.tabs,
      this.actions(),
    );
  }

  private actions(): HTMLElement {
    const { page } = this;
    return h(
      "div",
      { class: "actions", role: "group", "aria-label": "Actions" },
      iconButton(
        "link",
        "Copy (l copies the link)",
        () => {
          page.toggleCopyMenu();
        },
        { id: "copy-button", "aria-haspopup": "true", "aria-expanded": "false" },
      ),
      iconButton("save", "Save as PNG (s)", () => {
        page.savePng();
      }),
      iconButton("theme", "Light or dark (t)", () => {
        page.toggleTheme();
      }),
      iconButton("help", "Keys and help (?)", () => {
        page.help();
      }),
      iconButton(
        "panel",
        "Panel (p)",
        () => {
          page.togglePanel();
        },
        { id: "panel-button", "aria-expanded": "true", "aria-controls": "panel" },
      ),
    );
  }

  update(): void {
    const { state, opened } = this.page;
    replace(
      this.dataset,
      icon(kIcons.data),
      h("span", {}, state?.dataset === undefined || state.dataset === "" ? "Choose a dataset" : state.dataset),
    );
    this.field.hidden = !opened;
    this.accuracy.hidden = !opened || !state || !fillAccuracy(this.accuracy, "Accuracy", opened, state.field, this.page.latest);
    this.steps.hidden = !opened || opened.steps.length === 0;
    this.tabs.hidden = !opened;
    if (!opened || !state) return;
    const field = opened.info.fields.find((each) => each.name === state.field);
    fillSelect(this.field, fieldOptions(opened.info), field?.stored ?? "");
    setAttribute(this.field, "title", (field && fieldTitle(field.attributes)) ?? "Field");
    this.updateSteps();
    this.updateTabs();
  }

  private updateSteps(): void {
    const { page, stepping } = this;
    const list = stepping.numbers;
    const wanted = stepping.wanted;
    const at = wanted === null ? -1 : list.indexOf(wanted);
    this.steps.classList.toggle("one", list.length < 2 && page.state?.step !== "live");
    this.steps.classList.toggle("still", stepping.still);
    this.slider.max = String(Math.max(0, list.length - 1));
    this.slider.value = String(Math.max(0, at));
    const shown = page.opened?.steps.find((step) => step.step === wanted);
    const time = shown === undefined ? "" : timeText(shown, page.opened!.info.timeUnit);
    const stepped = `step ${wanted ?? 0}${time === "" ? "" : ` · ${time}`}`;
    const text = wanted === null ? "no step" : stepping.still ? "the same at all steps" : stepped;
    setText(this.stepText, text);
    setAttribute(this.slider, "aria-valuetext", text);
    this.back.disabled = at <= 0;
    this.forward.disabled = at < 0 || at >= list.length - 1;
    setAttribute(this.live, "aria-pressed", String(page.state?.step === "live"));
    const playing = page.playing;
    setAttribute(this.play, "aria-pressed", String(playing));
    setAttribute(this.play, "aria-label", playing ? "Pause (space)" : "Play (space)");
    this.play.querySelector("path")?.setAttribute("d", playing ? kIcons.pause : kIcons.play);
    this.play.disabled = list.length < 2;
  }

  private updateTabs(): void {
    const { page } = this;
    const kinds = paneKinds(page.grid!).filter((kind) => kind !== "line");
    const names = page.grid!.axisNames;
    const list: ViewState["pane"][] = kinds.length <= 1 ? [] : page.narrow ? [...kinds] : ["all", ...kinds];
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
                page.set({ pane });
              },
            },
            texts[i]!,
          ),
        ),
      );
    }
    const current = page.narrow && page.state!.pane === "all" ? list[0] : page.state!.pane;
    for (const button of this.tabs.children)
      setAttribute(button, "aria-pressed", String((button as HTMLElement).dataset.pane === current));
  }
}
