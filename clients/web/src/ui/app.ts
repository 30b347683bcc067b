/** The page: the user's view, the open data, and the parts that show them. */
import type { BoxStatistics, Brick, BrickSource, ColourState, GridInfo, Opened, Source, Vec3, ViewerError, ViewState } from "../model";
import { gridOf } from "../model";
import { kColourMaps } from "../render/colourmaps";
import type { Bricks } from "../render/compose";
import type { Theme } from "../render/theme";
import { Address, completeLink } from "../state/index";
import type { AddressPage, LinkValues } from "../state/index";
import { Bar } from "./bar";
import { clampClip, clampCursor } from "./panes";
import { Banner } from "./banner";
import { commandOf } from "./captions";
import { Data } from "./data";
import { Dialogs } from "./dialogs";
import { h } from "./dom";
import { Footer } from "./footer";
import { PaneInput } from "./input";
import { bindKeys } from "./keys";
import { Motion } from "./motion";
import { roundedProfile, withField } from "./otherfield";
import type { Commands, Comparison, CopyKind, Loading, Measured, Playing, Pointed, Points, Profiled, Services, Setting,
              SheetActions, Shown, Styled, Viewed } from "./page";
import { Panel } from "./panel";
import { Player } from "./player";
import { savePng } from "./png";
import type { Feeds, StageInput } from "./scenes";
import { defaultCamera, initialState } from "./session";
import { Stage } from "./stage";
import { Steps } from "./steps";
import { Theming } from "./theming";

/** Milliseconds from one text about the progress to the next. */
const kStatusEvery = 60;

export class App implements Viewed, Setting, Profiled, Playing, Shown, Loading, Comparison, Measured, Pointed, Points,
                            Styled, Commands, SheetActions {
  readonly root: HTMLElement;
  readonly stage: Stage;
  readonly steps = new Steps(this);
  private readonly dialogs: Dialogs;
  private readonly theming: Theming;
  private readonly player: Player;
  private readonly motion = new Motion(() => {
    this.schedule();
  });
  state: ViewState | null = null;
  names: readonly string[] = [];
  /** The server's port of gRPC; null: not known. */
  private grpcPort: number | null = null;
  private portAsked = false;
  drawing = false;
  drawingNow = false;
  hovered: { readonly index: Vec3; readonly side: "a" | "b" } | null = null;
  private readonly bar: Bar;
  private readonly panel: Panel;
  private readonly footer: Footer;
  private readonly banner: Banner;
  private data: Data;
  private readonly address: Address;
  private link: LinkValues;
  private scheduled = 0;

  constructor(parent: HTMLElement, private readonly services: Services) {
    this.dialogs = new Dialogs(this);
    this.address = new Address(window as unknown as AddressPage, (problem) => {
      this.dialogs.say(problem);
    });
    this.link = this.address.read().values;
    this.data = this.makeData(services.source);
    if (this.linkedDataset !== "") this.data.open(this.linkedDataset);
    this.theming = new Theming(() => {
      this.recolour();
    });
    this.stage = new Stage(() => {
      this.refresh();
    });
    this.player = new Player(this.steps);
    this.bar = new Bar(this, this.steps);
    this.panel = new Panel(this, this.steps);
    this.footer = new Footer(this);
    this.banner = new Banner(this);
    this.root = h(
      "div",
      { class: "app" },
      this.bar.root,
      h("main", { class: "middle" }, h("div", { class: "stage-frame" }, this.banner.root, this.stage.root), this.panel.root),
      this.footer.root,
      ...this.dialogs.elements,
    );
    parent.append(this.root);
    this.panel.root.hidden = this.theming.panelFolded || window.innerWidth < 900;
    new PaneInput(this, this.stage);
    bindKeys(this, this.steps);
    this.stage.renderer.onContext = (lost) => {
      this.banner.context(lost);
    };
    this.address.onChange((link) => {
      this.followLink(link.values);
    });
    if (this.linkedDataset === "") this.choose();
    this.refresh();
  }

  private makeData(source: Source): Data {
    return new Data(source, {
      opened: () => {
        this.openedChanged();
      },
      failed: (error) => {
        this.failed(error);
      },
      arrived: (from, bricks) => {
        this.arrived(from, bricks);
      },
      status: () => {
        this.statusChanged();
      },
      swapped: () => {
        this.refresh();
      },
    });
  }

  /** Dataset of the link; empty for none. */
  private get linkedDataset(): string {
    return this.link.dataset ?? "";
  }

  /** The user has gone back, or changed the link. */
  private followLink(link: LinkValues): void {
    this.link = link;
    const name = this.linkedDataset;
    if (name !== "" && name === this.state?.dataset && this.opened) {
      this.state = this.completed(this.opened);
      this.refresh();
    } else if (name !== "") this.openDataset(name, this.link);
    else this.choose();
  }

  private completed(opened: Opened): ViewState {
    const initial = withField(opened.info, initialState(opened), this.link.field ?? "");
    const { state, problems } = completeLink(this.link, opened, initial, kColourMaps);
    if (problems.length > 0) this.dialogs.say(problems.join("; "));
    const grid = gridOf(opened.info, state.field);
    return { ...state, cursor: clampCursor(grid, state.cursor), clip: state.clip && clampClip(grid, state.clip) };
  }

  openDataset(name: string, link: LinkValues = { dataset: name }): void {
    this.link = link;
    this.state = null;
    this.data.open(name);
    this.refresh();
  }

  private openedChanged(): void {
    if (this.opened && !this.state) this.state = this.completed(this.opened);
    this.refresh();
  }

  private failed(error: ViewerError): void {
    if (error.code === "unauthenticated") this.dialogs.askToken(error.message);
    this.refresh();
  }

  retry(): void {
    this.askAgain(this.data.source);
  }

  useToken(token: string): boolean {
    if (!this.services.keepToken(token)) return false;
    this.askAgain(this.services.withToken(token));
    return true;
  }

  private askAgain(source: Source): void {
    const name = this.data.dataset.name;
    this.data.close();
    this.data = this.makeData(source);
    if (name === "") this.choose();
    else this.data.open(name);
    this.refresh();
  }

  async list(): ReturnType<Source["list"]> {
    const listed = await this.data.source.list();
    this.names = listed.map((each) => each.name);
    return listed;
  }

  points(...question: Parameters<Source["points"]>): ReturnType<Source["points"]> {
    return this.data.source.points(...question);
  }

  get opened(): Opened | null {
    return this.data.dataset.opened;
  }

  get grid(): GridInfo | null {
    return this.opened && this.state ? gridOf(this.opened.info, this.state.field) : null;
  }

  get opening(): boolean {
    return this.data.dataset.name !== "" && !this.opened && !this.openError;
  }

  get openError(): ViewerError | null {
    return this.data.error;
  }

  get compareProblem(): string | null {
    return this.data.compareProblem(this.state);
  }

  get otherOpened(): Opened | null {
    return this.data.otherOpened(this.state);
  }

  get feeds(): Feeds {
    return this.data.feeds;
  }

  get difference(): Bricks | null {
    return this.state?.compare?.difference ? this.data.scenes.bricks(this.feeds, "difference") : null;
  }

  get colours(): Theme {
    return this.stage.colours;
  }

  get narrow(): boolean {
    return this.stage.narrow;
  }

  get latest(): BrickSource | null {
    return this.data.latest;
  }

  get statistics(): BoxStatistics | null {
    return this.data.statistics.result;
  }

  get statisticsError(): string | null {
    return this.data.statistics.error;
  }

  coordinatesAt(side: "a" | "b", index: Vec3): string {
    const opened = side === "b" ? this.otherOpened : this.opened;
    const shown = this.feeds[side];
    return opened && shown ? this.data.coordinates.at(this.data.source, opened, shown, index) : "";
  }

  storedAt(side: "a" | "b", sample: Vec3): { readonly value: number; readonly error: number } | null {
    const shown = this.feeds[side];
    return shown ? this.data.storedAt(shown, sample) : null;
  }

  // ---- What the user does

  set(change: Partial<ViewState>, moving = false): void {
    if (!this.state) return;
    this.state = { ...this.state, ...change };
    if (moving) this.motion.go();
    this.schedule();
  }

  /** At once: until then, box and cursor of the new grid would be on the pictures of the old one. */
  chooseField(name: string): void {
    if (!this.state || !this.opened) return;
    this.hovered = null;
    this.set(withField(this.opened.info, this.state, name));
    this.refresh();
  }

  setColour(change: Partial<ColourState>): void {
    if (this.state) this.set({ colour: { ...this.state.colour, ...change } });
  }

  toggleDrawing(): void {
    this.drawing = !this.drawing;
    this.refresh();
  }

  get profile(): readonly [Vec3, Vec3] | null {
    return this.state?.profile ?? null;
  }

  setProfile(profile: readonly [Vec3, Vec3] | null, done: boolean): void {
    this.drawingNow = !done;
    if (done) this.drawing = false;
    this.set({ profile: profile && roundedProfile(profile) });
  }

  stopMoving(final = false): void {
    this.motion.stop(final);
  }

  hover(index: Vec3 | null, side: "a" | "b" = "a"): void {
    this.hovered = index ? { index, side } : null;
    this.footer.updateReading();
  }

  resetCamera(): void {
    if (this.grid) this.set({ camera: defaultCamera(this.grid) });
  }

  get playing(): boolean {
    return this.player.playing;
  }

  togglePlay(): void {
    this.player.toggle();
    this.refresh();
  }

  choose(): void {
    this.dialogs.choose();
  }

  help(): void {
    this.dialogs.help();
  }

  toggleCopyMenu(): void {
    // A server that was started anew may have another port.
    void this.learnPort();
    this.dialogs.toggleCopy();
  }

  /** A known port stays where the server does not answer. */
  private async learnPort(): Promise<void> {
    this.portAsked = true;
    this.grpcPort = (await this.services.askGrpcPort()) ?? this.grpcPort;
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
    void savePng(this, this.stage);
  }

  nextMap(): void {
    const at = kColourMaps.indexOf(this.state?.colour.map ?? "");
    this.setColour({ map: kColourMaps[(at + 1) % kColourMaps.length]! });
  }

  copy(kind: CopyKind): void {
    this.dialogs.copy(kind);
  }

  copyText(kind: CopyKind): string | null {
    if (this.state) this.address.write(this.state);
    this.address.flush();
    return kind === "link" ? location.href : commandOf(this, kind, this.grpcPort);
  }

  // ---- What follows from it

  private recolour(): void {
    this.stage.readColours();
    this.refresh();
  }

  private arrived(from: BrickSource, bricks: readonly Brick[]): void {
    this.stage.renderer.add(from, bricks);
    // Not before: the first picture does not wait for what only copied lines need.
    if (!this.portAsked) void this.learnPort();
    if (!this.state?.compare?.difference) return;
    const both = this.data.scenes.bricks(this.feeds, "difference");
    if (both)
      this.stage.renderer.add(
        both,
        bricks.flatMap((brick) => both.best(brick.patch, 0) ?? []),
      );
    // The range of the difference may have grown.
    this.schedule();
  }

  private statusScheduled = 0;
  private statusShown = -Infinity;

  /** Something has arrived: the pictures know it already, the texts follow. */
  private statusChanged(): void {
    if (this.statusScheduled === 0)
      this.statusScheduled = window.setTimeout(() => {
        this.statusScheduled = 0;
        this.statusShown = performance.now();
        for (const feed of [this.feeds.a, this.feeds.b])
          if (feed && (feed.status.state === "settled" || feed.status.state === "stale")) this.stage.renderer.rest(feed);
        this.askStatistics();
        this.stage.redraw();
        for (const part of [this.panel, this.footer, this.banner]) part.update();
      }, Math.max(0, this.statusShown + kStatusEvery - performance.now()));
  }

  private schedule(): void {
    if (this.scheduled === 0)
      this.scheduled = requestAnimationFrame(() => {
        this.refresh();
      });
  }

  private get input(): StageInput {
    return { state: this.data.showable(this.state!), feeds: this.feeds, scenes: this.data.scenes, moving: this.motion.on };
  }

  private refreshing = false;

  private refresh(): void {
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
    this.root.classList.toggle("empty", !this.feeds.a);
    for (const part of [this.bar, this.panel, this.footer, this.banner]) part.update();
  }

  private refreshData(state: ViewState, opened: Opened): void {
    this.data.select(state, opened);
    // The server answers while pictures are made of the bricks in memory.
    this.data.ask(this.stage, this.input);
    this.stage.update(this.input);
    this.data.askAhead(this.stage, this.input, this.player.next(), this.player.before());
    this.askStatistics();
    this.player.shown(this.feeds.a?.selection.step ?? null);
  }

  private askStatistics(): void {
    if (this.state && !this.panel.root.hidden && !this.motion.on && !this.playing) this.data.askStatistics(this.state);
  }

}
