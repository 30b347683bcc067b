import type { BrickSource } from "../model";
import type { AttributeGroup } from "./attributes";
import { attributeGroups, kMostRows, valueText } from "./attributes";
import { h } from "./dom";
import type { Shown } from "./page";
import type { Part } from "./part";

export type AttributesNeeds = Pick<Shown, "feeds">;

function table({ title, attributes }: AttributeGroup): HTMLElement {
  const rows = attributes
    .slice(0, kMostRows)
    .map(({ name, value }) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, valueText(value))));
  const more = attributes.length - rows.length;
  return h(
    "table",
    { class: "attributes" },
    h("caption", {}, title),
    h("tbody", {}, ...rows, more > 0 ? h("tr", {}, h("td", { colspan: 2 }, `… and ${more} others`)) : null),
  );
}

/** Attributes from the source: shown, and not interpreted. */
export class AttributesPart implements Part {
  readonly title = "Attributes";
  readonly body = h("div", { class: "part-body" });
  /** The source whose attributes are shown. */
  private made: BrickSource | null = null;

  constructor(private readonly page: AttributesNeeds) {}

  get useful(): boolean {
    const { a } = this.page.feeds;
    return a !== null && attributeGroups(a).length > 0;
  }

  update(): void {
    const { a } = this.page.feeds;
    if (!a || (this.made?.info === a.info && this.made.field === a.field)) return;
    this.made = a;
    this.body.replaceChildren(...attributeGroups(a).map(table));
  }
}
