/** A section of the panel, which folds. */
export interface Part {
  readonly title: string;
  readonly body: HTMLElement;
  /** Hides the section where it does not apply. */
  readonly useful: boolean;
  update(): void;
}
