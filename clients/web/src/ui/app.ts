/** The page: what the user wants to see, what is open, and the parts that show it. */
import type { BoxStatistics, Brick, BrickSource, ColourState, Source, Vec3, ViewState } from "../model";
import { ViewerError } from "../model";
import { kColourMaps } from "../render/colourmaps";
import { wholeGrid } from "../render/layout";
import type { Bricks } from "../render/compose";
import { Address, completeLink } from "../state/index";
import type { AddressPage, LinkValues } from "../state/index";
import { Bar } from "./bar";
import { clampClip, clampCursor } from "./panes";
import { Banner } from "./banner";
import { Dialogs } from "./dialogs";
import { h } from "./dom";
import { Footer } from "./footer";
import { PaneInput } from "./input";
import { bindKeys } from "./keys";
import { Motion } from "./motion";
import { Panel } from "./panel";
import { Player } from "./player";
import { savePng } from "./png";
import { Scenes } from "./scenes";
import type { Feeds } from "./scenes";
import { defaultCamera, Feed, initialState, OpenDataset, resolveStep } from "./session";
import type { Opened } from "./session";
import { Stage } from "./stage";
import type { StageInput } from "./stage";
import { StatisticsFeed } from "./statistics";
import { Theming } from "./theming";

/** Asks servers with a token, or without one. */
export type MakeSource = (token: string | null) => Source;

export class App {
  readonly root: HTMLElement;
  readonly stage: Stage;
  readonly dialogs: Dialogs;
  readonly theming: Theming;
  readonly player: Player;
  private readonly motion = new Motion(() => { this.schedule(); });
  source: Source;
  state: ViewState | null = null;
  names: readonly string[] = [];
  profile: readonly [Vec3, Vec3] | null = null;
  drawing = false;
  drawingNow = false;
  hovered: { readonly index: Vec3; readonly side: "a" | "b" } | null = null;
  openError: ViewerError | null = null;
  compareProblem: string | null = null;
  private readonly bar: Bar;
  private readonly panel: Panel;
  private readonly footer: Footer;
  private readonly banner: Banner;
  private readonly scenes = new Scenes();
  private statisticsFeed: StatisticsFeed;
  private dataset: OpenDataset;
  private other: OpenDataset;
  private feed: Feed;
  private otherFeed: Feed;
  private readonly address: Address;
  private link: LinkValues;
  private scheduled = 0;

  constructor(parent: HTMLElement, private readonly makeSource: MakeSource, token: string | null = null) {
    this.theming = new Theming(() => { this.recolour(); });
    this.stage = new Stage(() => { this.refresh(); });
    this.dialogs = new Dialogs(this);
    this.player = new Player(this);
    this.bar = new Bar(this);
    this.panel = new Panel(this);
    this.footer = new Footer(this);
    this.banner = new Banner(this);
    this.root = h("div", { class: "app" }, this.bar.root,
      h("main", { class: "middle" }, h("div", { class: "stage-frame" }, this.banner.root, this.stage.root), this.panel.root), this.footer.root, ...this.dialogs.elements);
    parent.append(this.root);
    this.panel.root.hidden = this.theming.panelFolded || window.innerWidth < 900;
    new PaneInput(this);
    bindKeys(this);
    this.source = makeSource(token);
    this.statisticsFeed = new StatisticsFeed(() => { this.refresh(); });
    [this.dataset, this.other] = [this.makeDataset(true), this.makeDataset(false)];
    [this.feed, this.otherFeed] = [this.makeFeed(), this.makeFeed()];
    this.stage.renderer.onContext = (lost) => { this.banner.context(lost); };
    this.address = new Address(window as unknown as AddressPage, (problem) => { this.dialogs.say(problem); });
    this.link = this.address.read().values;
    this.address.onChange((link) => { this.followLink(link.values); });
    this.begin();
  }

  private makeDataset(main: boolean): OpenDataset {
    return new OpenDataset(this.source, () => { this.openedChanged(main); }, (error) => { this.failed(error, main); });
  }

  private makeFeed(): Feed {
    return new Feed(this.source, (from, bricks) => { this.arrived(from, bricks); }, () => { this.statusChanged(); }, () => { this.refresh(); });
  }

  private begin(): void {
    const name = this.link.dataset ?? "";
    if (name === "") this.choose();
    else this.dataset.open(name);
    this.refresh();
  }

  /** The user has gone back, or changed the link. */
  private followLink(link: LinkValues): void {
    this.link = link;
    const name = this.link.dataset ?? "";
    if (name !== "" && name === this.state?.dataset && this.opened) {
      this.state = this.completed(this.opened);
      this.refresh();
    } else if (name !== "") this.openDataset(name, this.link);
    else this.choose();
  }

  private completed(opened: Opened): ViewState {
    const { state, problems } = completeLink(this.link, opened, initialState(opened), kColourMaps);
    if (problems.length > 0) this.dialogs.say(problems.join("; "));
    return { ...state, cursor: clampCursor(opened.info, state.cursor), clip: state.clip && clampClip(opened.info, state.clip) };
  }

  openDataset(name: string, link: LinkValues = { dataset: name }): void {
    this.link = link;
    this.state = null;
    this.openError = null;
    this.profile = null;
    this.feed.close();
    this.otherFeed.close();
    this.other.close();
    this.dataset.open(name, true);
    this.refresh();
  }

  private openedChanged(main: boolean): void {
    this.openError = null;
    if (main && this.opened && !this.state) this.state = this.completed(this.opened);
    this.refresh();
  }

  private failed(error: ViewerError, main: boolean): void {
    if (error.code === "unauthenticated") this.dialogs.askToken(error.message);
    if (main) this.openError = error;
    else this.compareProblem = error.message;
    this.refresh();
  }

  /** Everything is asked again, with another token. */
  retry(token?: string): void {
    if (token !== undefined) this.source = this.makeSource(token);
    const name = this.dataset.name;
    for (const each of [this.feed, this.otherFeed, this.dataset, this.other]) each.close();
    [this.dataset, this.other] = [this.makeDataset(true), this.makeDataset(false)];
    [this.feed, this.otherFeed] = [this.makeFeed(), this.makeFeed()];
    this.openError = null;
    if (name === "") this.choose();
    else this.dataset.open(name);
    this.refresh();
  }

  get opened(): Opened | null {
    return this.dataset.opened;
  }

  get opening(): boolean {
    return this.dataset.name !== "" && !this.opened && !this.openError;
  }

  get otherOpened(): Opened | null {
    return this.state?.compare?.dataset === this.state?.dataset ? this.opened : this.other.opened;
  }

  get feeds(): Feeds {
    return { a: this.feed.shown, b: this.state?.compare ? this.otherFeed.shown : null };
  }

  get latest(): BrickSource | null {
    return this.feed.latest;
  }

  get statistics(): BoxStatistics | null {
    return this.statisticsFeed.result;
  }

  get statisticsError(): string | null {
    return this.statisticsFeed.error;
  }

  // ---- What the user does

  set(change: Partial<ViewState>, moving = false): void {
    if (!this.state) return;
    this.state = { ...this.state, ...change };
    if (moving) this.motion.go();
    this.schedule();
  }

  setColour(change: Partial<ColourState>): void {
    if (this.state) this.set({ colour: { ...this.state.colour, ...change } });
  }

  setProfile(profile: readonly [Vec3, Vec3] | null, done: boolean): void {
    this.profile = profile;
    this.drawingNow = !done;
    if (done) this.drawing = false;
    this.schedule();
  }

  /** The hand has let go: what is on screen may become sharp soon. */
  stopMoving(): void {
    this.motion.stop();
  }

  hover(index: Vec3 | null, side: "a" | "b" = "a"): void {
    this.hovered = index ? { index, side } : null;
    this.footer.updateReading();
  }

  get stepNumbers(): readonly number[] {
    return (this.opened?.steps ?? []).filter((step) => step.fields.has(this.state?.field ?? "")).map((step) => step.step);
  }

  get wantedStep(): number | null {
    return this.opened && this.state ? resolveStep(this.opened, this.state.field, this.state.step) : null;
  }

  resetCamera(): void {
    if (this.opened) this.set({ camera: defaultCamera(this.opened.info) });
  }

  stepTo(at: number): void {
    const step = this.stepNumbers[at];
    if (step !== undefined) this.set({ step }, true);
  }

  stepBy(by: number): void {
    const at = this.stepNumbers.indexOf(this.wantedStep ?? NaN) + by;
    if (at >= 0) this.stepTo(at);
  }

  get playing(): boolean {
    return this.player.on;
  }

  togglePlay(): void {
    this.player.toggle();
    this.refresh();
  }

  toggleLive(): void {
    if (this.state) this.set({ step: this.state.step === "live" ? (this.wantedStep ?? 0) : "live" });
  }

  /** For a first comparison: the step before, or the next one. */
  otherStep(): number {
    const list = this.stepNumbers;
    const at = list.indexOf(this.wantedStep ?? NaN);
    return list[at - 1] ?? list[at + 1] ?? list[at] ?? 0;
  }

  choose(): void {
    this.dialogs.choose();
  }

  help(): void {
    this.dialogs.help();
  }

  toggleCopyMenu(): void {
    this.dialogs.toggleCopy();
  }

  toggleTheme(): void {
    this.theming.toggle();
  }

  togglePanel(): void {
    this.panel.root.hidden = !this.panel.root.hidden;
    this.theming.panelFolded = this.panel.root.hidden;
    document.getElementById("panel-button")?.setAttribute("aria-expanded", String(!this.panel.root.hidden));
    this.refresh();
  }

  savePng(): void {
    void savePng(this);
  }

  nextMap(): void {
    const at = kColourMaps.indexOf(this.state?.colour.map ?? "");
    this.setColour({ map: kColourMaps[(at + 1) % kColourMaps.length]! });
  }

  writeLinkNow(): void {
    if (this.state) this.address.write(this.state);
    this.address.flush();
  }

  // ---- What follows from it

  private recolour(): void {
    this.stage.readColours();
    this.refresh();
  }

  private arrived(from: BrickSource, bricks: readonly Brick[]): void {
    this.stage.renderer.add(from, bricks);
    if (!this.state?.compare?.difference) return;
    const both = this.scenes.bricks(this.feeds, "difference");
    if (both) this.stage.renderer.add(both, bricks.flatMap((brick) => both.best(brick.patch, 0) ?? []));
    // The range of the difference may have grown.
    this.schedule();
  }

  private statusScheduled = 0;

  /** Something has arrived: the pictures know it already, the texts follow with the next frame. */
  private statusChanged(): void {
    if (this.statusScheduled === 0) this.statusScheduled = requestAnimationFrame(() => {
      this.statusScheduled = 0;
      if (this.state) this.askStatistics(this.state);
      this.stage.redraw();
      for (const part of [this.panel, this.footer, this.banner]) part.update();
    });
  }

  schedule(): void {
    if (this.scheduled === 0) this.scheduled = requestAnimationFrame(() => { this.refresh(); });
  }

  private get input(): StageInput {
    return { state: this.state!, feeds: this.feeds, scenes: this.scenes, profile: this.profile, moving: this.motion.on };
  }

  private refreshing = false;

  refresh(): void {
    if (this.refreshing) {
      this.schedule();
      return;
    }
    this.refreshing = true;
    cancelAnimationFrame(this.scheduled);
    this.scheduled = 0;
    try {
      if (this.state && this.opened) this.refreshData(this.state, this.opened);
      if (this.state) this.address.write(this.state);
    } finally {
      this.refreshing = false;
    }
    this.root.classList.toggle("empty", !this.feed.shown);
    for (const part of [this.bar, this.panel, this.footer, this.banner]) part.update();
  }

  private refreshData(state: ViewState, opened: Opened): void {
    this.dataset.follow(state.step === "live");
    const step = resolveStep(opened, state.field, state.step);
    if (step !== null) this.feed.select(opened, { dataset: state.dataset, field: state.field, step });
    this.refreshOther(state);
    // What is on screen first: it says what is needed.
    this.stage.update(this.input);
    if (this.feed.latest) this.feed.want(this.stage.wants(this.feed.latest, "a", this.input));
    if (state.compare && this.otherFeed.latest) this.otherFeed.want(this.stage.wants(this.otherFeed.latest, "b", this.input));
    this.askStatistics(state);
    this.player.shown(this.feed.shown?.selection.step ?? null);
  }

  private refreshOther(state: ViewState): void {
    const { compare } = state;
    this.compareProblem = null;
    if (!compare) {
      this.otherFeed.close();
      this.other.close();
      return;
    }
    if (compare.dataset !== state.dataset) this.other.open(compare.dataset);
    const opened = this.otherOpened;
    if (!opened) return;
    this.other.follow(compare.step === "live");
    const field = opened.info.fields.some((each) => each.name === compare.field) ? compare.field : (opened.info.fields[0]?.name ?? "");
    const step = resolveStep(opened, field, compare.step);
    if (step !== null) this.otherFeed.select(opened, { dataset: compare.dataset, field, step });
    if (compare.difference) this.compareProblem = this.scenes.problem(this.feeds);
  }

  private askStatistics(state: ViewState): void {
    const shown = this.feed.shown;
    if (!shown || this.panel.root.hidden || this.motion.on || this.playing) return;
    const { level } = shown.status;
    this.statisticsFeed.ask(this.source, shown.selection, state.clip ?? wholeGrid(shown.info), Math.min(level ?? shown.info.levels - 1, shown.info.levels - 1), shown.info);
  }

  /** First minus second, while that is on screen. */
  get difference(): Bricks | null {
    return this.state?.compare?.difference ? this.scenes.bricks(this.feeds, "difference") : null;
  }
}
