/**
 * Small interfaces of all that parts of the page may read and do. App implements them. A part names the members that it
 * needs, and does not know App.
 */
import type { BoxStatistics, BrickSource, ColourState, GridInfo, Opened, Source, Vec3, ViewerError, ViewState } from "../model";
import type { Bricks } from "../render/compose";
import type { Theme } from "../render/theme";
import type { Feeds } from "./scenes";

/** The page asks these of its surroundings. */
export interface Services {
  /** With which the page begins. */
  readonly source: Source;
  /** Asks servers with another token. */
  withToken(token: string): Source;
  /** Keeps a token for this tab. False: the text is none. */
  keepToken(token: string): boolean;
  /** Null: not known. */
  askGrpcPort(): Promise<number | null>;
}

// ---- The view

export interface Viewed {
  readonly opened: Opened | null;
  /** Null until a dataset is open. */
  readonly state: ViewState | null;
  /** The grid of the chosen field: cursor, box and profile are on it. */
  readonly grid: GridInfo | null;
}

export interface Setting {
  /** @param moving  more changes will follow at once: coarse samples are enough until they rest */
  set(change: Partial<ViewState>, moving?: boolean): void;
  /** A movement has ended, for good with `final`: the picture may become sharp soon. */
  stopMoving(final?: boolean): void;
  setColour(change: Partial<ColourState>): void;
  chooseField(name: string): void;
  resetCamera(): void;
}

/** The line along which values are shown. */
export interface Profiled {
  readonly profile: readonly [Vec3, Vec3] | null;
  setProfile(profile: readonly [Vec3, Vec3] | null, done: boolean): void;
  /** The next drag in a slice draws one. */
  readonly drawing: boolean;
  /** One is being drawn. */
  readonly drawingNow: boolean;
  toggleDrawing(): void;
}

/** The steps that have the field that is chosen. */
export interface Stepping {
  readonly numbers: readonly number[];
  /** Null: there is none. */
  readonly wanted: number | null;
  /** The field is the same at all steps. */
  readonly still: boolean;
  /** @param at  position in `numbers` */
  to(at: number): void;
  by(count: number): void;
  toggleLive(): void;
  /** For a first comparison: the step before, or the next one. */
  other(): number;
}

export interface Playing {
  readonly playing: boolean;
  togglePlay(): void;
}

// ---- The screen

export interface Shown {
  readonly feeds: Feeds;
  /** First minus second, while that is on screen. */
  readonly difference: Bricks | null;
}

export interface Loading {
  readonly opening: boolean;
  readonly openError: ViewerError | null;
  /** The field at a step that was chosen last, on screen or not. */
  readonly latest: BrickSource | null;
  /** Asks everything again. */
  retry(): void;
}

export interface Comparison {
  /** The reason why there is no comparison; null if there is one, or none is wanted. */
  readonly compareProblem: string | null;
  readonly otherOpened: Opened | null;
  /** Datasets that the list had. */
  readonly names: readonly string[];
}

/** Statistics of the box on screen. */
export interface Measured {
  readonly statistics: BoxStatistics | null;
  readonly statisticsError: string | null;
}

export interface Pointed {
  /** The sample under the pointer. */
  readonly hovered: { readonly index: Vec3; readonly side: "a" | "b" } | null;
  hover(index: Vec3 | null, side?: "a" | "b"): void;
  /** The values of coordinate fields at a sample of one side, in a line. */
  coordinatesAt(side: "a" | "b", index: Vec3): string;
  /** The sample of one side as stored at full resolution, and its largest error; null until the server has been asked. */
  storedAt(side: "a" | "b", sample: Vec3): { readonly value: number; readonly error: number } | null;
}

/** Values between samples, from the server. */
export interface Points {
  points: Source["points"];
}

export interface Styled {
  readonly colours: Theme;
  /** One pane at a time is shown. */
  readonly narrow: boolean;
}

// ---- Buttons and keys

export type CopyKind = "link" | "get" | "python";

export interface Commands {
  /** The list of datasets. */
  choose(): void;
  help(): void;
  toggleCopyMenu(): void;
  copy(kind: CopyKind): void;
  savePng(): void;
  togglePanel(): void;
  toggleTheme(): void;
  nextMap(): void;
}

/** The sheets over the page ask and do this. */
export interface SheetActions {
  list(): ReturnType<Source["list"]>;
  openDataset(name: string): void;
  /** Asks everything again with another token. False: the text is none. */
  useToken(token: string): boolean;
  /** Null while nothing is on screen. */
  copyText(kind: CopyKind): string | null;
}
