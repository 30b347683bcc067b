import type { ViewState } from "../model";
import type { Commands, Playing, Setting, Stepping } from "./page";

/** As the help shows them. */
export const kKeys: readonly (readonly [string, string])[] = [
  ["Tab", "to the next control or pane"],
  ["Arrow keys", "in a slice: move the cursor, with shift by ten; in the volume: turn"],
  ["Page up, page down", "in a slice: move the slice"],
  ["+ and −", "zoom in and out around the cursor; in the volume: nearer and farther"],
  ["0", "whole grid, or the camera as it was"],
  ["Space", "play, pause"],
  [", and .", "step before, next step"],
  ["1 to 5", "all panes, slices across z, y and x, volume"],
  ["d", "choose a dataset"],
  ["c", "next colour map"],
  ["l", "copy the link"],
  ["s", "save a PNG"],
  ["p", "panel on or off"],
  ["t", "light or dark"],
  ["?", "this sheet"],
];

export const kGestures: readonly (readonly [string, string])[] = [
  ["Drag in a slice", "moves the cursor; the other slices follow"],
  ["Shift and drag", "draws a line for the profile"],
  ["Wheel, or two fingers", "zooms around the pointer"],
  ["Right button and drag", "moves the box on screen"],
  ["Double click", "shows the whole grid again"],
  ["Drag in the volume", "turns it"],
];

const kPanes: Readonly<Record<string, ViewState["pane"]>> = { 1: "all", 2: "z", 3: "y", 4: "x", 5: "volume" };
const kSteps: Readonly<Record<string, number>> = { ",": -1, ".": 1 };
const kCommands: Readonly<Record<string, Exclude<keyof Commands, "copy" | "toggleCopyMenu">>> = {
  "?": "help", d: "choose", s: "savePng", p: "togglePanel", t: "toggleTheme", c: "nextMap",
};

function typing(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement
    && (target.matches("select, input:not([type=range])") || target.closest("dialog") !== null)
  );
}

export type KeyNeeds = Pick<Setting, "set"> & Pick<Playing, "togglePlay"> & Omit<Commands, "toggleCopyMenu">;

export function bindKeys(page: KeyNeeds, stepping: Pick<Stepping, "by">): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    // Space presses a focused button; elsewhere it plays.
    const onButton = event.target instanceof HTMLElement && event.target.matches("button, summary, input");
    const command = kCommands[event.key];
    const pane = kPanes[event.key];
    const steps = kSteps[event.key];
    if (command) page[command]();
    else if (pane) page.set({ pane });
    else if (steps !== undefined) stepping.by(steps);
    else if (event.key === "l") page.copy("link");
    else if (event.key === " " && !onButton) page.togglePlay();
    else return;
    event.preventDefault();
  });
}
