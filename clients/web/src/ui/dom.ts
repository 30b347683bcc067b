/** Elements in one call: no framework. */

type Child = Node | string | null;
type Attributes = Readonly<Record<string, string | number | boolean | null | ((event: Event) => void)>>;

/** Functions are listeners, named by their event: `click`. false and null leave an attribute out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null) element.append(child);
  return element;
}

export function replace(parent: Element, ...children: readonly Child[]): void {
  parent.replaceChildren(...children.filter((child) => child !== null));
}

/** Text that changes often: writes only differences, so that screen readers and layout rest. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element: Element, name: string, value: string | null): void {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

export interface Option {
  readonly value: string;
  readonly text: string;
  /** The heading under which it is, with those of the same one that follow; null or left out: none. */
  readonly group?: string | null;
}

function optionElements(options: readonly Option[]): readonly HTMLElement[] {
  const made: HTMLElement[] = [];
  for (const { value, text, group } of options) {
    const option = h("option", { value }, text);
    const last = made.at(-1);
    if (group === undefined || group === null) made.push(option);
    else if (last instanceof HTMLOptGroupElement && last.label === group) last.append(option);
    else made.push(h("optgroup", { label: group }, option));
  }
  return made;
}

export function fillSelect(select: HTMLSelectElement, options: readonly Option[], value: string): void {
  const key = JSON.stringify(options);
  if (select.dataset.options !== key) {
    select.dataset.options = key;
    select.replaceChildren(...optionElements(options));
  }
  if (select.value !== value) select.value = value;
}

/** Drawn with lines, in the colour of the text. */
export function icon(path: string): SVGSVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of Object.entries({
    viewBox: "0 0 16 16",
    width: "16",
    height: "16",
    "aria-hidden": "true",
    class: "icon",
  }))
    svg.setAttribute(name, value);
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
  shape.setAttribute("d", path);
  svg.append(shape);
  return svg;
}

export const kIcons = {
  play: "M5 3.5v9l7.5-4.5z",
  pause: "M5 3.5v9M11 3.5v9",
  back: "M10.5 3.5 6 8l4.5 4.5",
  forward: "M5.5 3.5 10 8l-4.5 4.5",
  panel: "M2.5 3h11v10h-11zM10 3v10",
  help: "M6 6.2a2 2 0 1 1 2.7 1.9c-.5.2-.7.6-.7 1.1v.4M8 11.8v.4",
  theme: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
  link: "M6.5 9.5l3-3M7 4.8l1.6-1.6a2.9 2.9 0 0 1 4.1 4.1L11 9M9 11.2l-1.6 1.6a2.9 2.9 0 0 1-4.1-4.1L5 7",
  save: "M8 2.5v7M5 6.8l3 3 3-3M3 13h10",
  grow: "M9.5 3H13v3.5M6.5 13H3V9.5M13 3 9 7M3 13l4-4",
  data: "M3 4.5C3 2.5 13 2.5 13 4.5v7c0 2-10 2-10 0zM3 4.5c0 2 10 2 10 0M3 8c0 2 10 2 10 0",
  close: "M4 4l8 8M12 4l-8 8",
  grid: "M2.5 2.5h5v5h-5zM8.5 2.5h5v5h-5zM2.5 8.5h5v5h-5zM8.5 8.5h5v5h-5z",
} as const;

export function iconButton(
  name: keyof typeof kIcons,
  label: string,
  click: () => void,
  extra: Attributes = {},
): HTMLButtonElement {
  return h(
    "button",
    { type: "button", class: "icon-button", "aria-label": label, title: label, click, ...extra },
    icon(kIcons[name]),
  );
}
