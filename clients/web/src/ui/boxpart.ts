import { mapVec, shapeOf } from "../geometry";
import type { Axis, GridInfo } from "../model";
import { gridAxis } from "../render/axes";
import { longAxes } from "../render/layout";
import { button, fillSelect, h, select, setAttribute, setText } from "./dom";
import type { Setting, Viewed } from "./page";
import { clampClip, clampCursor, clipOf } from "./panes";
import type { Part } from "./part";
import { namesText, short } from "./text";

export type BoxNeeds = Pick<Viewed, "state" | "grid"> & Pick<Setting, "set">;

/** Box of the grid that is shown, positions of the slices, and level. */
export class BoxPart implements Part {
  readonly title = "Box and level";
  readonly body: HTMLElement;
  private readonly rows = h("table", { class: "box-table" });
  private readonly level = select((level) => {
    this.page.set({ level: level === "" ? null : Number(level) });
  }, { "aria-label": "Finest level" });
  private readonly reset = button("Whole grid", () => {
    this.page.set({ clip: null });
  });
  private readonly caption = h("p", { class: "hint" });
  /** The grid whose axes have rows. */
  private made: GridInfo | null = null;

  constructor(private readonly page: BoxNeeds) {
    this.body = h(
      "div",
      { class: "part-body" },
      this.rows,
      h("div", { class: "row" }, h("label", { class: "inline" }, "Finest level", this.level), this.reset),
      this.caption,
    );
  }

  get useful(): boolean {
    return this.page.grid !== null;
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

  /** Numbers of an axis, and below them the names of the slice where the axis has any. */
  private axisRows(grid: GridInfo, axis: Axis): readonly HTMLElement[] {
    const name = grid.axisNames[axis];
    const numbers = (["cursor", "begin", "end"] as const).map((what) =>
      h("td", {}, this.input(axis, what, `${name}, ${what === "cursor" ? "slice" : what}`)),
    );
    const row = h("tr", {}, h("th", { scope: "row" }, name), ...numbers);
    if (grid.axisTexts[axis].length === 0) return [row];
    return [row, h("tr", {}, h("td", {}), h("td", { colspan: 3, class: "slice-names", "data-axis": axis }))];
  }

  private change(axis: Axis, what: "begin" | "end" | "cursor", value: number): void {
    const { state, grid } = this.page;
    if (!state || !grid || !Number.isFinite(value)) return;
    if (what === "cursor") {
      const cursor = mapVec((a) => (a === axis ? value : state.cursor[a]));
      this.page.set({ cursor: clampCursor(grid, cursor) });
      return;
    }
    const box = clipOf(state, grid);
    const changed = { ...box, [what]: mapVec((a) => (a === axis ? value : box[what][a])) };
    this.page.set({ clip: clampClip(grid, changed) });
  }

  update(): void {
    const { state, grid } = this.page;
    if (!state || !grid) return;
    if (this.made !== grid) {
      this.made = grid;
      const head = h("tr", {}, ...["", "Slice", "From", "Up to"].map((text) => h("th", { scope: "col" }, text)));
      this.rows.replaceChildren(
        h("thead", {}, head),
        h("tbody", {}, ...longAxes(grid).flatMap((axis) => this.axisRows(grid, axis))),
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
    for (const cell of this.rows.querySelectorAll<HTMLElement>(".slice-names")) {
      const axis = Number(cell.dataset.axis) as Axis;
      setText(cell, namesText(gridAxis(grid, axis), state.cursor[axis]));
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
    setText(this.caption, `${shapeOf(box).join(" × ")} of ${grid.dims.join(" × ")} samples`);
  }
}
