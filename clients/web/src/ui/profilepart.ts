import { errorText } from "../errors";
import { clampPoint, kAxes, mapVec } from "../geometry";
import type { GridInfo, Vec3 } from "../model";
import { gridAxis } from "../render/axes";
import { longAxes } from "../render/layout";
import { drawPlot, plainAxis, roomFor } from "../render/plot";
import { button, h, setAttribute, setText, sizedContext } from "./dom";
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
  private readonly canvas = h("canvas", { class: "profile", role: "img", "aria-label": "Values along the line" });
  private readonly draw = button("Draw a line", () => {
    this.page.toggleDrawing();
  }, { "aria-pressed": "false", title: "Then drag in a slice; or hold shift while dragging" });
  private readonly along = h("span", { class: "segments" });
  private readonly caption = h("p", { class: "hint" });
  private curve: Curve | null = null;
  /** The grid whose axes have buttons. */
  private made: GridInfo | null = null;
  private key = "";
  private abort = new AbortController();

  constructor(private readonly page: ProfileNeeds) {
    const probe = button("Probe the cursor", () => {
      void this.ask();
    });
    this.body = h(
      "div",
      { class: "part-body" },
      h("div", { class: "row" }, this.draw, this.along, probe),
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
    if (this.made === grid) return;
    this.made = grid;
    this.along.replaceChildren(...longAxes(grid).map((axis) => {
      const name = grid.axisNames[axis];
      return button(name, () => {
        const { cursor } = this.page.state!;
        const end = (at: number): Vec3 => mapVec((a) => (a === axis ? at : cursor[a]));
        this.page.setProfile([end(0), end(grid.dims[axis] - 1)], true);
      }, { title: `Along ${name}, through the cursor` });
    }));
  }

  private positions(index: Vec3): Vec3 {
    const { grid } = this.page.feeds.a!;
    const inside = clampPoint(grid, index);
    return mapVec((a) => gridAxis(grid, a).position(inside[a]));
  }

  private indices(position: Vec3): Vec3 {
    const { grid } = this.page.feeds.a!;
    return clampPoint(grid, mapVec((a) => gridAxis(grid, a).index(position[a])));
  }

  private async fetch(profile: readonly [Vec3, Vec3]): Promise<void> {
    this.abort.abort();
    const { signal } = (this.abort = new AbortController());
    const source = this.page.feeds.a!;
    const [from, to] = [this.positions(profile[0]), this.positions(profile[1])];
    const points = Array.from({ length: kPoints }, (_, i) =>
      this.indices(mapVec((a) => from[a] + ((to[a] - from[a]) * i) / (kPoints - 1)))).flat();
    const moving = kAxes.filter((a) => from[a] !== to[a]);
    const units = new Set(moving.map((a) => source.grid.axisUnits[a]));
    try {
      const answer = await this.page.points(source.selection, points, signal);
      if (signal.aborted) return;
      const length = units.size === 1 ? Math.hypot(...mapVec((a) => to[a] - from[a])) : 1;
      this.curve = { values: answer.values, length, unit: units.size === 1 ? [...units][0]! : "share of the line" };
      setText(
        this.caption,
        `${kPoints} points, error ≤ ${withUnit(short(answer.maxError, 2), source.field.unit)}; `
          + `${from.map((f) => short(f)).join(", ")} to ${to.map((t) => short(t)).join(", ")}`,
      );
      this.paint();
    } catch (error) {
      if (!signal.aborted) setText(this.caption, `${errorText(error)}; draw the line again to repeat it`);
    }
  }

  private async ask(): Promise<void> {
    const source = this.page.feeds.a!;
    const { cursor } = this.page.state!;
    const at = this.positions(cursor);
    const places = kAxes.map((a) => withNames(short(at[a], 6), gridAxis(source.grid, a), cursor[a]));
    try {
      const answer = await this.page.points(source.selection, this.indices(at));
      const value = answer.values[0] ?? NaN;
      const bound = `error ≤ ${short(answer.maxError, 2)}`;
      const found = Number.isNaN(value)
        ? "missing"
        : `${withUnit(withError(value, answer.maxError), source.field.unit)}, ${bound}`;
      setText(this.caption, `${source.field.name} at ${places.join(", ")}: ${found}`);
    } catch (error) {
      setText(this.caption, `${errorText(error)}; press Probe to repeat it`);
    }
  }

  private paint(): void {
    this.canvas.hidden = !this.curve;
    if (!this.curve) return;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const context = sizedContext(this.canvas);
    const source = this.page.feeds.a!;
    const theme = this.page.colours;
    const curve = { values: this.curve.values, positions: null, colour: theme.accent };
    const axis = plainAxis("distance", this.curve.unit);
    const plot = { x: 54, y: 6, width: width - 70, height: height - 44 };
    const { name, unit } = source.field;
    const ends = { uEnds: { from: 0, to: this.curve.length }, vEnds: roomFor([curve]) };
    drawPlot(context, theme, { plot, u: axis, v: plainAxis(name, unit), ...ends }, [curve], null);
  }
}
