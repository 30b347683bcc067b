/** A section of the panel, which folds. */
export interface Part {
  readonly title: string;
  readonly body: HTMLElement;
  /** Hides the section where it makes no sense. */
  readonly useful: boolean;
  update(): void;
}
