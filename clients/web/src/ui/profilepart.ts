import type { GridInfo, Vec3 } from "../model";
import { gridAxis } from "../render/axes";
import { longAxes } from "../render/layout";
import { drawPlot, plainAxis, plotGeometry, roomFor } from "../render/plot";
import { h, setAttribute, setText } from "./dom";
import type { Points, Profiled, Shown, Styled, Viewed } from "./page";
import type { Part } from "./part";
import { short, withError, withNames, withUnit } from "./text";

export type ProfileNeeds = Pick<Viewed, "state"> & Pick<Shown, "feeds"> & Profiled & Points & Pick<Styled, "colours">;

const kPoints = 256;

interface Curve {
  readonly values: readonly number[];
  readonly length: number;
  readonly unit: string;
}

/** Values along a line that is drawn in a slice, and at the cursor: of the finest level, from the server. */
export class ProfilePart implements Part {
  readonly title = "Profile and probe";
  readonly body: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly draw: HTMLButtonElement;
  private readonly along: HTMLElement;
  private readonly probe: HTMLElement;
  private readonly caption = h("p", { class: "hint" });
  private curve: Curve | null = null;
  /** The grid whose axes have buttons. */
  private made: GridInfo | null = null;
  private key = "";
  private abort = new AbortController();

  constructor(private readonly page: ProfileNeeds) {
    this.canvas = h("canvas", { class: "profile", role: "img", "aria-label": "Values along the line" });
    this.draw = h(
      "button",
      {
        type: "button",
        class: "text-button",
        "aria-pressed": "false",
        title: "Then drag in a slice; or hold shift while dragging",
        click: () => {
          page.toggleDrawing();
        },
      },
      "Draw a line",
    );
    this.along = h("span", { class: "segments" });
    this.probe = h(
      "button",
      {
        type: "button",
        class: "text-button",
        click: () => {
          void this.ask();
        },
      },
      "Probe the cursor",
    );
    this.body = h(
      "div",
      { class: "part-body" },
      h("div", { class: "row" }, this.draw, this.along, this.probe),
      this.canvas,
      this.caption,
    );
  }

  get useful(): boolean {
    return this.page.feeds.a !== null;
  }

  update(): void {
    const { profile, feeds } = this.page;
    setAttribute(this.draw, "aria-pressed", String(this.page.drawing));
    this.makeAlong();
    const key = JSON.stringify([profile, feeds.a?.selection]);
    if (key !== this.key && !this.page.drawingNow) {
      this.key = key;
      this.curve = null;
      if (profile) void this.fetch(profile);
      else setText(this.caption, "Drag a line with shift in a slice, or take one along an axis.");
    }
    this.paint();
  }

  private makeAlong(): void {
    const { grid } = this.page.feeds.a!;
    const axes = longAxes(grid);
    if (this.made === grid) return;
    this.made = grid;
    this.along.replaceChildren(
      ...axes.map((axis) =>
        h(
          "button",
          {
            type: "button",
            title: `Along ${grid.axisNames[axis]}, through the cursor`,
            click: () => {
              const { cursor } = this.page.state!;
              const end = (at: number): Vec3 => cursor.map((c, a) => (a === axis ? at : c)) as unknown as Vec3;
              this.page.setProfile([end(0), end(grid.dims[axis] - 1)], true);
            },
          },
          grid.axisNames[axis],
        ),
      ),
    );
  }

  private positions(index: Vec3): readonly number[] {
    const { grid } = this.page.feeds.a!;
    return index.map((i, a) => gridAxis(grid, a as 0 | 1 | 2).position(Math.min(grid.dims[a]! - 1, Math.max(0, i))));
  }

  private indices(position: readonly number[]): readonly number[] {
    const { grid } = this.page.feeds.a!;
    return position.map((p, a) => Math.min(grid.dims[a]! - 1, Math.max(0, gridAxis(grid, a as 0 | 1 | 2).index(p))));
  }

  private async fetch(profile: readonly [Vec3, Vec3]): Promise<void> {
    this.abort.abort();
    const { signal } = (this.abort = new AbortController());
    const source = this.page.feeds.a!;
    const [from, to] = profile.map((end) => this.positions(end)) as [readonly number[], readonly number[]];
    const points = Array.from({ length: kPoints }, (_, i) =>
      this.indices(from.map((f, a) => f + ((to[a]! - f) * i) / (kPoints - 1)))).flat();
    const moving = [0, 1, 2].filter((a) => from[a] !== to[a]);
    const units = new Set(moving.map((a) => source.grid.axisUnits[a as 0 | 1 | 2]));
    try {
      const answer = await this.page.points(source.selection, points, signal);
      if (signal.aborted) return;
      const length = units.size === 1 ? Math.hypot(...from.map((f, a) => to[a]! - f)) : 1;
      this.curve = { values: answer.values, length, unit: units.size === 1 ? [...units][0]! : "share of the line" };
      setText(
        this.caption,
        `${kPoints} points, error ≤ ${withUnit(short(answer.maxError, 2), source.field.unit)}; `
          + `${from.map((f) => short(f)).join(", ")} to ${to.map((t) => short(t)).join(", ")}`,
      );
      this.paint();
    } catch (error) {
      if (!signal.aborted)
        setText(this.caption, `${error instanceof Error ? error.message : String(error)}; draw the line again to repeat it`);
    }
  }

  private async ask(): Promise<void> {
    const source = this.page.feeds.a!;
    const { cursor } = this.page.state!;
    const at = this.positions(cursor);
    const place = (a: 0 | 1 | 2): string => withNames(short(at[a]!, 6), gridAxis(source.grid, a), cursor[a]);
    const places = ([0, 1, 2] as const).map(place);
    try {
      const answer = await this.page.points(source.selection, this.indices(at));
      const value = answer.values[0] ?? NaN;
      const bound = `error ≤ ${short(answer.maxError, 2)}`;
      const found = Number.isNaN(value)
        ? "missing"
        : `${withUnit(withError(value, answer.maxError), source.field.unit)}, ${bound}`;
      setText(this.caption, `${source.field.name} at ${places.join(", ")}: ${found}`);
    } catch (error) {
      setText(this.caption, `${error instanceof Error ? error.message : String(error)}; press Probe to repeat it`);
    }
  }

  private paint(): void {
    this.canvas.hidden = !this.curve;
    if (!this.curve) return;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    [this.canvas.width, this.canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    const context = this.canvas.getContext("2d")!;
    context.scale(ratio, ratio);
    const source = this.page.feeds.a!;
    const theme = this.page.colours;
    const curve = { values: this.curve.values, positions: null, colour: theme.accent };
    const axis = plainAxis("distance", this.curve.unit);
    const plot = { x: 54, y: 6, width: width - 70, height: height - 44 };
    drawPlot(
      context,
      theme,
      plotGeometry(plot, axis, { from: 0, to: this.curve.length }, source.field.name, source.field.unit, roomFor([curve])),
      [curve],
      null,
    );
  }
}
