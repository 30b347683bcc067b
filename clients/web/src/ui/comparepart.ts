import type { ViewState } from "../model";
import { gridOf } from "../model";
import { fillAccuracy } from "./accuracy";
import { fillSelect, h, select, setText } from "./dom";
import { fieldOptions, storedName } from "./fields";
import type { Comparison, Setting, Shown, Stepping, Viewed } from "./page";
import type { Part } from "./part";

export type CompareNeeds = Pick<Viewed, "state"> & Pick<Setting, "set"> & Pick<Shown, "feeds"> & Comparison;

/** A second field, accuracy, step, dataset or level: beside the first with the same camera and cursor, or subtracted from it. */
export class ComparePart implements Part {
  readonly title = "Compare";
  readonly body: HTMLElement;
  readonly useful = true;
  private readonly mode = this.select("Comparison");
  private readonly dataset = this.select("Dataset to compare with");
  private readonly field = this.select("Field to compare with");
  private readonly accuracy = select((field) => {
    const compare = this.page.state?.compare;
    if (compare) this.page.set({ compare: { ...compare, field } });
  });
  private readonly accuracyRow: HTMLElement;
  private readonly step = this.select("Step to compare with");
  private readonly level = this.select("Level to compare with");
  private readonly levelRow: HTMLElement;
  private readonly rows: HTMLElement;
  private readonly caption = h("p", { class: "hint" });

  constructor(
    private readonly page: CompareNeeds,
    private readonly stepping: Pick<Stepping, "other">,
  ) {
    const labelled = (text: string, control: HTMLElement): HTMLElement =>
      h("label", { class: "labelled" }, h("span", {}, text), control);
    this.accuracyRow = labelled("Accuracy", this.accuracy);
    this.levelRow = labelled("Level", this.level);
    this.rows = h(
      "div",
      { class: "stack" },
      labelled("Dataset", this.dataset),
      labelled("Field", this.field),
      this.accuracyRow,
      labelled("Step", this.step),
      this.levelRow,
    );
    this.body = h("div", { class: "part-body" }, this.mode, this.rows, this.caption);
  }

  private select(label: string): HTMLSelectElement {
    return select(() => {
      this.change();
    }, { "aria-label": label });
  }

  private change(): void {
    const { page } = this;
    const { state } = page;
    if (!state) return;
    if (this.mode.value === "off") {
      page.set({ compare: null });
      return;
    }
    const { dataset, field } = state;
    const before = state.compare ?? { dataset, field, step: this.stepping.other(), difference: false, level: null };
    const other = page.otherOpened;
    // Another field comes in full accuracy, and so does that of another dataset. The list is empty until the dataset is open.
    const isSame =
      before.dataset === this.dataset.value && (!other || storedName(other.info, before.field) === this.field.value);
    const chosen =
      state.compare === null
        ? before
        : {
            ...before,
            dataset: this.dataset.value,
            field: isSame ? before.field : this.field.value,
            step: this.step.value === "live" ? ("live" as const) : Number(this.step.value),
            level: this.level.value === "" ? null : Number(this.level.value),
          };
    page.set({ compare: { ...chosen, difference: this.mode.value === "difference" } });
  }

  update(): void {
    const { page } = this;
    const compare: ViewState["compare"] = page.state?.compare ?? null;
    fillSelect(
      this.mode,
      [
        { value: "off", text: "Nothing beside it" },
        { value: "beside", text: "Side by side" },
        { value: "difference", text: "Difference" },
      ],
      compare === null ? "off" : compare.difference ? "difference" : "beside",
    );
    this.rows.hidden = compare === null;
    setText(this.caption, page.compareProblem ?? "");
    if (!compare) return;
    const names = page.names.length > 0 ? page.names : [...new Set([page.state!.dataset, compare.dataset])];
    fillSelect(
      this.dataset,
      names.map((name) => ({ value: name, text: name })),
      compare.dataset,
    );
    const other = page.otherOpened;
    fillSelect(this.field, other ? fieldOptions(other.info) : [], other ? storedName(other.info, compare.field) : "");
    this.accuracyRow.hidden =
      !other || !fillAccuracy(this.accuracy, "Accuracy to compare with", other, compare.field, page.feeds.b);
    fillSelect(
      this.step,
      [
        ...(other?.steps ?? []).map((step) => ({ value: String(step.step), text: `step ${step.step}` })),
        { value: "live", text: "newest" },
      ],
      String(compare.step),
    );
    this.updateLevel(compare, other ? gridOf(other.info, compare.field).levels : 0);
  }

  private updateLevel({ difference, level }: NonNullable<ViewState["compare"]>, levels: number): void {
    this.levelRow.hidden = difference;
    // The level of the link stays in the list until the dataset is there, which may have fewer levels.
    const shown = level !== null && levels > 0 ? Math.min(level, levels - 1) : level;
    const count = Math.max(levels, (shown ?? -1) + 1);
    fillSelect(
      this.level,
      [
        { value: "", text: "as beside it" },
        ...Array.from({ length: count }, (_, i) => ({ value: String(i), text: `level ${i}` })),
      ],
      shown === null ? "" : String(shown),
    );
  }
}
