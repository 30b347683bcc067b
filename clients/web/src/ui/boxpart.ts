import type { Axis } from "../model";
import { gridAxis } from "../render/axes";
import { longAxes, wholeGrid } from "../render/layout";
import type { App } from "./app";
import { fillSelect, h, replace, setAttribute, setText } from "./dom";
import { clampClip, clampCursor } from "./panes";
import type { Part } from "./panel";
import { short } from "./text";

/** What of the grid is shown, where the slices are, and how fine. */
export class BoxPart implements Part {
  readonly title = "Box and level";
  readonly body: HTMLElement;
  private readonly rows = h("table", { class: "box-table" });
  private readonly level: HTMLSelectElement;
  private readonly reset: HTMLButtonElement;
  private readonly caption = h("p", { class: "hint" });
  private made = "";

  constructor(private readonly app: App) {
    this.level = h("select", {
      "aria-label": "Finest level",
      change: () => {
        app.set({ level: this.level.value === "" ? null : Number(this.level.value) });
      },
    });
    this.reset = h(
      "button",
      {
        type: "button",
        class: "text-button",
        click: () => {
          app.set({ clip: null });
        },
      },
      "Whole grid",
    );
    this.body = h(
      "div",
      { class: "part-body" },
      this.rows,
      h("div", { class: "row" }, h("label", { class: "inline" }, "Finest level", this.level), this.reset),
      this.caption,
    );
  }

  get useful(): boolean {
    return this.app.opened !== null;
  }

  private input(axis: Axis, what: "begin" | "end" | "cursor", label: string): HTMLInputElement {
    const input = h("input", {
      type: "number",
      step: 1,
      class: "number",
      "aria-label": label,
      "data-axis": axis,
      "data-what": what,
      change: () => {
        this.change(axis, what, Number(input.value));
      },
    });
    return input;
  }

  private change(axis: Axis, what: "begin" | "end" | "cursor", value: number): void {
    const { state, opened } = this.app;
    if (!state || !opened || !Number.isFinite(value)) return;
    if (what === "cursor") {
      const cursor = state.cursor.map((c, a) => (a === axis ? value : c)) as unknown as typeof state.cursor;
      this.app.set({ cursor: clampCursor(opened.info, cursor) });
      return;
    }
    const box = state.clip ?? wholeGrid(opened.info);
    const changed = { ...box, [what]: box[what].map((v, a) => (a === axis ? value : v)) };
    this.app.set({ clip: clampClip(opened.info, changed) });
  }

  update(): void {
    const { state, opened } = this.app;
    if (!state || !opened) return;
    const { info } = opened;
    if (this.made !== info.name) {
      this.made = info.name;
      const head = h("tr", {}, ...["", "Slice", "From", "Up to"].map((text) => h("th", { scope: "col" }, text)));
      replace(
        this.rows,
        h("thead", {}, head),
        h(
          "tbody",
          {},
          ...longAxes(info).map((axis) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, info.axisNames[axis]),
              ...(["cursor", "begin", "end"] as const).map((what) =>
                h("td", {}, this.input(axis, what, `${info.axisNames[axis]}, ${what === "cursor" ? "slice" : what}`)),
              ),
            ),
          ),
        ),
      );
    }
    const box = state.clip ?? wholeGrid(info);
    for (const input of this.rows.querySelectorAll("input")) {
      const axis = Number(input.dataset.axis) as Axis;
      const what = input.dataset.what as "begin" | "end" | "cursor";
      const value = what === "cursor" ? state.cursor[axis] : box[what][axis];
      if (document.activeElement !== input) input.value = String(value);
      setAttribute(input, "title", `${short(gridAxis(info, axis).position(value), 6)} ${info.axisUnits[axis]}`.trim());
    }
    fillSelect(
      this.level,
      [
        { value: "", text: "as the screen needs" },
        ...Array.from({ length: info.levels }, (_, l) => ({ value: String(l), text: `level ${l}${l === 0 ? ", full" : ""}` })),
      ],
      state.level === null ? "" : String(state.level),
    );
    this.reset.disabled = state.clip === null;
    setText(this.caption, `${box.end.map((e, a) => e - box.begin[a]!).join(" × ")} of ${info.dims.join(" × ")} samples`);
  }
}
