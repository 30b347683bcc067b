/** Pointer, wheel and keys on the panes. */
import { mapVec } from "../geometry";
import type { Axis, GridInfo, Vec3 } from "../model";
import { turned, zoomed } from "../render/camera";
import { indexAt, isUpright, planeAxes, pointOn } from "../render/layout";
import { axisEnds, gridAxis, isTurned, positionAt } from "../render/axes";
import type { SliceView, View } from "../render/views";
import { lineAxis } from "./linepane";
import type { Pointed, Profiled, Setting, Viewed } from "./page";
import { axisOf, clampCursor, clipOf, moveBox, zoomBox } from "./panes";
import type { PaneKind } from "./panes";
import type { Stage } from "./stage";

export type InputNeeds = Pick<Viewed, "state" | "grid"> & Pick<Setting, "set" | "stopMoving" | "resetCamera">
  & Pick<Profiled, "profile" | "setProfile" | "drawing"> & Pick<Pointed, "hover">;

interface Point {
  x: number;
  y: number;
}

type Gesture =
  | { readonly kind: "cursor" | "pan" | "turn" | "pinch"; last: Point; spread: number }
  | { readonly kind: "profile"; readonly begin: Vec3; last: Point; spread: number };

const kWheel = 0.0016;

export class PaneInput {
  private readonly pointers = new Map<number, Point>();
  private gesture: Gesture | null = null;
  private moved = false;

  constructor(
    private readonly page: InputNeeds,
    private readonly stage: Stage,
  ) {
    const { panes } = stage;
    panes.addEventListener("pointerdown", (event) => {
      this.down(event);
    });
    panes.addEventListener("pointermove", (event) => {
      this.move(event);
    });
    for (const name of ["pointerup", "pointercancel"] as const)
      panes.addEventListener(name, (event) => {
        this.up(event);
      });
    panes.addEventListener("pointerleave", () => {
      page.hover(null);
    });
    panes.addEventListener(
      "wheel",
      (event) => {
        this.wheel(event);
      },
      { passive: false },
    );
    panes.addEventListener("dblclick", (event) => {
      this.reset(this.viewAt(event));
    });
    panes.addEventListener("contextmenu", (event) => {
      event.preventDefault();
    });
    panes.addEventListener("keydown", (event) => {
      this.key(event);
    });
    panes.addEventListener("focusin", (event) => {
      this.focus(event.target as HTMLElement);
    });
    panes.addEventListener("focusout", () => {
      this.focus(null);
    });
  }

  /** Grid of the field on screen: cursor and box are on it, also where the pointer is on the field beside it. */
  private get grid(): GridInfo {
    return this.page.grid!;
  }

  private focus(element: HTMLElement | null): void {
    const visible = element?.matches(":focus-visible") ?? false;
    this.stage.focused = visible && element ? `${element.dataset.kind ?? ""}-${element.dataset.side ?? ""}` : null;
    this.stage.redraw();
  }

  private place(event: MouseEvent): Point {
    const box = this.stage.root.getBoundingClientRect();
    return { x: event.clientX - box.x, y: event.clientY - box.y };
  }

  private viewAt(event: Event): View | null {
    const element = (event.target as Element).closest<HTMLElement>(".pane");
    if (!element) return null;
    const key = `${element.dataset.kind ?? ""}-${element.dataset.side ?? ""}`;
    return this.stage.shown.find((view) => view.key === key) ?? null;
  }

  /** Level-0 index under a point of a slice. */
  private indexOn(view: SliceView, at: Point): Vec3 {
    const [u, v] = indexAt(view.geometry, at.x, at.y);
    return pointOn(view.axis, view.index, u, v);
  }

  private down(event: PointerEvent): void {
    const view = this.viewAt(event);
    const at = this.place(event);
    this.pointers.set(event.pointerId, at);
    (event.target as Element).setPointerCapture(event.pointerId);
    this.moved = false;
    if (!view) {
      this.lineCursor(event);
      return;
    }
    if (this.pointers.size === 2) this.gesture = { kind: "pinch", last: this.middle(), spread: this.spread() };
    else if (view.kind === "volume") this.gesture = { kind: "turn", last: at, spread: 0 };
    else if (event.button !== 0) this.gesture = { kind: "pan", last: at, spread: 0 };
    else if (event.shiftKey || this.page.drawing)
      this.gesture = { kind: "profile", begin: this.indexOn(view, at), last: at, spread: 0 };
    else {
      this.gesture = { kind: "cursor", last: at, spread: 0 };
      this.page.set({ cursor: clampCursor(this.grid, this.indexOn(view, at)) }, true);
    }
  }

  private middle(): Point {
    const [a, b] = [...this.pointers.values()];
    return { x: (a!.x + (b ?? a!).x) / 2, y: (a!.y + (b ?? a!).y) / 2 };
  }

  private spread(): number {
    const [a, b] = [...this.pointers.values()];
    return Math.hypot(a!.x - b!.x, a!.y - b!.y);
  }

  private move(event: PointerEvent): void {
    const at = this.place(event);
    const view = this.viewAt(event);
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, at);
    if (!view) {
      if (event.buttons !== 0) this.lineCursor(event);
      return;
    }
    if (view.kind === "slice") this.page.hover(this.indexOn(view, at), view.key.endsWith("-b") ? "b" : "a");
    if (this.gesture && this.pointers.has(event.pointerId)) this.drag(this.gesture, view, at);
  }

  private drag(gesture: Gesture, view: View, at: Point): void {
    const from = gesture.last;
    this.moved = true;
    if (gesture.kind === "pinch") {
      if (this.pointers.size < 2) return;
      const [middle, spread] = [this.middle(), this.spread()];
      this.zoom(view, middle, gesture.spread / Math.max(1, spread));
      gesture.spread = spread;
      gesture.last = middle;
      return;
    }
    gesture.last = at;
    if (gesture.kind === "turn") this.page.set({ camera: turned(this.page.state!.camera, at.x - from.x, at.y - from.y) }, true);
    if (view.kind !== "slice") return;
    if (gesture.kind === "cursor") this.page.set({ cursor: clampCursor(this.grid, this.indexOn(view, at)) }, true);
    if (gesture.kind === "profile") this.page.setProfile([gesture.begin, this.indexOn(view, at)], false);
    if (gesture.kind === "pan") this.pan(view, from, at, gesture);
  }

  /** Moves by whole samples; the rest of the way counts for the next move. */
  private pan(view: SliceView, from: Point, at: Point, gesture: Gesture): void {
    const clip = this.page.state!.clip;
    if (!clip) return;
    const [a, b] = [this.indexOn(view, from), this.indexOn(view, at)];
    const by = mapVec((i) => Math.round(a[i] - b[i]));
    if (by.every((value) => value === 0)) gesture.last = from;
    else this.page.set({ clip: moveBox(this.grid, clip, by) }, true);
  }

  private up(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
    if (this.gesture?.kind === "profile") this.page.setProfile(this.moved ? this.page.profile : null, true);
    if (this.pointers.size === 0) this.gesture = null;
    this.page.stopMoving(this.pointers.size === 0);
  }

  /** On line plots, the pointer moves the cursor along the axis. */
  private lineCursor(event: PointerEvent): void {
    const { page } = this;
    const pane = this.stage.layout.find((each) => each.kind === "line");
    const { grid } = page;
    if (!pane || !grid || !page.state) return;
    const axis = lineAxis(grid);
    const at = gridAxis(grid, axis);
    const box = clipOf(page.state, grid);
    const share = (this.place(event).x - pane.room.x) / pane.room.width;
    const ends = axisEnds(at, box.begin[axis], box.end[axis], false);
    const cursor: [number, number, number] = [...page.state.cursor];
    cursor[axis] = at.index(positionAt(ends, share));
    page.set({ cursor: clampCursor(grid, cursor) }, true);
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const view = this.viewAt(event);
    if (!view) return;
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.zoom(view, this.place(event), Math.exp(Math.max(-240, Math.min(240, event.deltaY * lines)) * kWheel));
  }

  private zoom(view: View, at: Point, factor: number): void {
    const { state } = this.page;
    if (!state) return;
    if (view.kind === "volume") this.page.set({ camera: zoomed(state.camera, factor) }, true);
    else
      this.page.set(
        { clip: zoomBox(this.grid, state.clip, planeAxes(view.axis), this.indexOn(view, at), factor) },
        true,
      );
    this.page.stopMoving();
  }

  private reset(view: View | null): void {
    if (view?.kind === "volume") this.page.resetCamera();
    else this.page.set({ clip: null });
  }

  private key(event: KeyboardEvent): void {
    const element = (event.target as Element).closest<HTMLElement>(".pane");
    if (!element || !this.page.state || event.ctrlKey || event.metaKey || event.altKey) return;
    const view = this.viewAt(event);
    const kind = element.dataset.kind as PaneKind;
    const done = view?.kind === "volume" ? this.volumeKey(event) : this.sliceKey(event, kind, view);
    if (done) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  private volumeKey(event: KeyboardEvent): boolean {
    const camera = this.page.state!.camera;
    const step = event.shiftKey ? 60 : 15;
    const turns: Readonly<Record<string, readonly [number, number]>> = {
      ArrowLeft: [step, 0],
      ArrowRight: [-step, 0],
      ArrowUp: [0, step],
      ArrowDown: [0, -step],
    };
    const turn = turns[event.key];
    if (turn) this.page.set({ camera: turned(camera, ...turn) }, true);
    else if (event.key === "+" || event.key === "=") this.page.set({ camera: zoomed(camera, 0.85) }, true);
    else if (event.key === "-") this.page.set({ camera: zoomed(camera, 1 / 0.85) }, true);
    else if (event.key === "0") this.page.resetCamera();
    else return false;
    this.page.stopMoving();
    return true;
  }

  private sliceKey(event: KeyboardEvent, kind: PaneKind, view: View | null): boolean {
    const { grid } = this.page;
    if (!grid) return false;
    const across = axisOf(kind);
    const [ua, va]: readonly [Axis, Axis] = across === null ? [lineAxis(grid), lineAxis(grid)] : planeAxes(across);
    const { cursor, clip } = this.page.state!;
    const step = event.shiftKey ? 10 : 1;
    const by = (axis: Axis, upright: boolean): number => (isTurned(gridAxis(grid, axis), upright) ? -step : step);
    // A line lies, also where it has depths.
    const [right, up] = [by(ua, false), by(va, across !== null)];
    const away = across === null ? 0 : by(across, isUpright(across));
    const moves: Readonly<Record<string, readonly [Axis, number]>> = {
      ArrowRight: [ua, right],
      ArrowLeft: [ua, -right],
      ArrowUp: [va, up],
      ArrowDown: [va, -up],
      ...(across === null ? {} : { PageUp: [across, away], PageDown: [across, -away] }),
    };
    const move = moves[event.key];
    if (move) {
      const next: [number, number, number] = [...cursor];
      next[move[0]] += move[1];
      this.page.set({ cursor: clampCursor(grid, next) }, true);
    } else if (event.key === "+" || event.key === "=" || event.key === "-") {
      this.page.set({ clip: zoomBox(grid, clip, view ? [ua, va] : [ua], cursor, event.key === "-" ? 1 / 0.8 : 0.8) }, true);
    } else if (event.key === "0") this.page.set({ clip: null });
    else return false;
    this.page.stopMoving();
    return true;
  }
}
