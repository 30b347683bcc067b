import type { Paper } from "./views";

/** Colours and fonts of the overlay, from the styles of the page. */
export interface Theme {
  readonly paper: Paper;
  readonly background: string;
  readonly text: string;
  readonly muted: string;
  readonly line: string;
  readonly accent: string;
  /** Colours of the axes x, y, z. */
  readonly axes: readonly [string, string, string];
  readonly font: string;
}

function parse(colour: string): readonly [number, number, number] {
  const hex = colour.trim().replace("#", "");
  const part = (at: number): number => parseInt(hex.slice(at, at + 2), 16) / 255;
  return hex.length === 6 ? [part(0), part(2), part(4)] : [0, 0, 0];
}

export function readTheme(element: Element): Theme {
  const style = getComputedStyle(element);
  const get = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    paper: { background: parse(get("paper")), missing: parse(get("missing")) },
    background: get("paper"),
    text: get("text"),
    muted: get("muted"),
    line: get("line"),
    accent: get("accent"),
    axes: [get("axis-x"), get("axis-y"), get("axis-z")],
    font: style.fontFamily,
  };
}
