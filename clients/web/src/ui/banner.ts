import { button, h, setText } from "./dom";
import type { Comparison, Loading } from "./page";

export type BannerNeeds = Pick<Loading, "openError" | "latest" | "retry"> & Pick<Comparison, "compareProblem">;

/** The current error, and what happens next. */
export class Banner {
  readonly root: HTMLElement;
  private readonly text = h("span");
  private readonly button = button("Try again", () => {
    this.page.retry();
  });
  private lost = false;

  constructor(private readonly page: BannerNeeds) {
    this.root = h("div", { class: "banner", role: "alert", hidden: true }, this.text, this.button);
  }

  context(lost: boolean): void {
    this.lost = lost;
    this.update();
  }

  private message(): { readonly text: string; readonly retry: boolean } | null {
    const { page } = this;
    if (this.lost)
      return {
        text: "The graphics card has dropped the pictures. They come back by themselves once the browser has it again.",
        retry: false,
      };
    if (page.openError) return { text: page.openError.message, retry: true };
    const status = page.latest?.status;
    if (status?.state === "failed") return { text: status.message ?? "The field cannot be read.", retry: true };
    if (page.compareProblem !== null) return { text: page.compareProblem, retry: false };
    return null;
  }

  update(): void {
    const message = this.message();
    this.root.hidden = message === null;
    if (!message) return;
    setText(this.text, message.text);
    this.button.hidden = !message.retry;
  }
}
