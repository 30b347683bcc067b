/** The bar at the top: open dataset, field and step, and actions on the picture. */
import type { ViewState } from "../model";
import { fillAccuracy } from "./accuracy";
import { fieldTitle } from "./attributes";
import { button, choiceButtons, fillSelect, h, icon, iconButton, kIcons, pressChoice, select, setAttribute,
         setText, slider } from "./dom";
import { fieldOptions } from "./fields";
import type { Commands, Loading, Playing, Setting, Stepping, Styled, Viewed } from "./page";
import { paneKinds } from "./panes";
import { timeText } from "./text";

export type BarNeeds = Viewed & Pick<Loading, "latest"> & Pick<Setting, "set" | "chooseField"> & Playing & Pick<Styled, "narrow">
  & Pick<Commands, "choose" | "help" | "toggleCopyMenu" | "savePng" | "togglePanel" | "toggleTheme">;

export class Bar {
  readonly root: HTMLElement;
  private readonly tabs = h("div", { class: "tabs", role: "group", "aria-label": "Panes" });
  private readonly dataset = button(null, () => {
    this.page.choose();
  }, { class: "dataset-button", title: "Choose a dataset (d)" });
  private readonly field = select((field) => {
    this.page.chooseField(field);
  }, { "aria-label": "Field", title: "Field" });
  private readonly accuracy = select((field) => {
    this.page.chooseField(field);
  });
  private readonly slider = slider("Step", 0, 1, (at) => {
    this.stepping.to(at);
  });
  private readonly stepText = h("span", { class: "step-text" });
  private readonly play = iconButton("play", "Play (space)", () => {
    this.page.togglePlay();
  }, { "aria-pressed": "false" });
  private readonly live = button("Live", () => {
    this.stepping.toggleLive();
  }, { class: "live", "aria-pressed": "false", title: "Follow the newest step" });
  private readonly steps: HTMLElement;
  private readonly back = iconButton("back", "Step before (,)", () => {
    this.stepping.by(-1);
  });
  private readonly forward = iconButton("forward", "Next step (.)", () => {
    this.stepping.by(1);
  });
  private tabKey = "";

  constructor(
    private readonly page: BarNeeds,
    private readonly stepping: Stepping,
  ) {
    this.slider.className = "step-slider";
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
      iconButton("link", "Copy (l copies the link)", () => {
        page.toggleCopyMenu();
      }, { id: "copy-button", "aria-haspopup": "true", "aria-expanded": "false" }),
      iconButton("save", "Save as PNG (s)", () => {
        page.savePng();
      }),
      iconButton("theme", "Light or dark (t)", () => {
        page.toggleTheme();
      }),
      iconButton("help", "Keys and help (?)", () => {
        page.help();
      }),
      iconButton("panel", "Panel (p)", () => {
        page.togglePanel();
      }, { id: "panel-button", "aria-expanded": "true", "aria-controls": "panel" }),
    );
  }

  update(): void {
    const { state, opened } = this.page;
    this.dataset.replaceChildren(
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
    const [x, y, z] = page.grid!.axisNames;
    const names: Readonly<Record<ViewState["pane"], string>> = { all: "All", x, y, z, volume: "Volume" };
    const list: ViewState["pane"][] = kinds.length <= 1 ? [] : page.narrow ? [...kinds] : ["all", ...kinds];
    const key = list.map((pane) => names[pane]).join();
    if (key !== this.tabKey) {
      this.tabKey = key;
      const titles: Readonly<Record<string, string>> = { all: "All panes (1)", volume: "Volume (5)" };
      const titleOf = (pane: ViewState["pane"]): string => titles[pane] ?? `Slice across ${names[pane]}`;
      const choices = list.map((value) => ({ value, text: names[value], title: titleOf(value) }));
      this.tabs.replaceChildren(...choiceButtons(choices, (pane) => {
        page.set({ pane });
      }));
    }
    pressChoice(this.tabs.children, page.narrow && page.state!.pane === "all" ? list[0] : page.state!.pane);
  }
}
