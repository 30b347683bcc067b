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
  data: "M3 4.5C3 2.5 13 2.5 13 4.5v7c0 2-10 2-10 0zM3 4.5c0 2 10 2 10 0M3 8c0 2 10 2 10 0",
  close: "M4 4l8 8M12 4l-8 8",
} as const;

export function button(content: Child, click: () => void, attributes: Attributes = {}): HTMLButtonElement {
  return h("button", { type: "button", click, ...attributes }, content);
}

export function iconButton(
  name: keyof typeof kIcons,
  label: string,
  click: () => void,
  extra: Attributes = {},
): HTMLButtonElement {
  return button(icon(kIcons[name]), click, { class: "icon-button", "aria-label": label, title: label, ...extra });
}

/** A list to choose from, without options yet. */
export function select(change: (value: string) => void, attributes: Attributes = {}): HTMLSelectElement {
  const element = h("select", { ...attributes, change: () => { change(element.value); } });
  return element;
}

/** A control that slides from 0 to `max`. */
export function slider(label: string, max: number, step: number, slide: (value: number) => void): HTMLInputElement {
  const attributes = { type: "range", min: 0, max, step, "aria-label": label };
  const element = h("input", { ...attributes, input: () => { slide(Number(element.value)); } });
  return element;
}

/** One of several buttons that exclude each other. */
export interface Choice<Value extends string> {
  readonly value: Value;
  readonly text: string;
  readonly title: string;
}

export function choiceButtons<Value extends string>(
  choices: readonly Choice<Value>[],
  choose: (value: Value) => void,
): readonly HTMLButtonElement[] {
  const make = ({ value, text, title }: Choice<Value>): HTMLButtonElement =>
    button(text, () => { choose(value); }, { "data-value": value, "aria-pressed": "false", title });
  return choices.map(make);
}

/** Presses the button of the chosen value. */
export function pressChoice(buttons: Iterable<Element>, value: string | undefined): void {
  for (const each of buttons) setAttribute(each, "aria-pressed", String((each as HTMLElement).dataset.value === value));
}

/** Drawing in CSS pixels on a canvas that has its size on screen. */
export function sizedContext(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
  const ratio = pixelRatio();
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  const context = canvas.getContext("2d")!;
  context.scale(ratio, ratio);
  return context;
}

/** Device pixels of a CSS pixel, of which more than two are not seen. */
export function pixelRatio(): number {
  return Math.min(2, window.devicePixelRatio || 1);
}
