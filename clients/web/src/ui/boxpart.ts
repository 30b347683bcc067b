import type { Axis, GridInfo } from "../model";
import { gridAxis } from "../render/axes";
import { longAxes } from "../render/layout";
import type { App } from "./app";
import { fillSelect, h, replace, setAttribute, setText } from "./dom";
import { clampClip, clampCursor, clipOf } from "./panes";
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
  /** The grid whose axes have rows. */
  private made: GridInfo | null = null;

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
    return this.app.grid !== null;
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
    const { state, grid } = this.app;
    if (!state || !grid || !Number.isFinite(value)) return;
    if (what === "cursor") {
      const cursor = state.cursor.map((c, a) => (a === axis ? value : c)) as unknown as typeof state.cursor;
      this.app.set({ cursor: clampCursor(grid, cursor) });
      return;
    }
    const box = clipOf(state, grid);
    const changed = { ...box, [what]: box[what].map((v, a) => (a === axis ? value : v)) };
    this.app.set({ clip: clampClip(grid, changed) });
  }

  update(): void {
    const { state, grid } = this.app;
    if (!state || !grid) return;
    if (this.made !== grid) {
      this.made = grid;
      const head = h("tr", {}, ...["", "Slice", "From", "Up to"].map((text) => h("th", { scope: "col" }, text)));
      replace(
        this.rows,
        h("thead", {}, head),
        h(
          "tbody",
          {},
          ...longAxes(grid).map((axis) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, grid.axisNames[axis]),
              ...(["cursor", "begin", "end"] as const).map((what) =>
                h("td", {}, this.input(axis, what, `${grid.axisNames[axis]}, ${what === "cursor" ? "slice" : what}`)),
              ),
            ),
          ),
        ),
      );
    }
    const box = clipOf(state, grid);
    for (const input of this.rows.querySelectorAll("input")) {
      const axis = Number(input.dataset.axis) as Axis;
      const what = input.dataset.what as "begin" | "end" | "cursor";
      const value = what === "cursor" ? state.cursor[axis] : box[what][axis];
      if (document.activeElement !== input) input.value = String(value);
      setAttribute(input, "title", `${short(gridAxis(grid, axis).position(value), 6)} ${grid.axisUnits[axis]}`.trim());
    }
    fillSelect(
      this.level,
      [
        { value: "", text: "as the screen needs" },
        ...Array.from({ length: grid.levels }, (_, l) => ({ value: String(l), text: `level ${l}${l === 0 ? ", full" : ""}` })),
      ],
      state.level === null ? "" : String(state.level),
    );
    this.reset.disabled = state.clip === null;
    setText(this.caption, `${box.end.map((e, a) => e - box.begin[a]!).join(" × ")} of ${grid.dims.join(" × ")} samples`);
  }
}
