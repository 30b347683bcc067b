/** The link in the address bar. */
import type { ViewState } from "../model";
import { formatLink, type Link, parseLink } from "./link";

export interface AddressPage {
  readonly location: Pick<Location, "hash" | "pathname" | "search">;
  readonly history: Pick<History, "replaceState" | "state">;
  addEventListener(type: "hashchange", listener: () => void): void;
  setTimeout(call: () => void, ms: number): number;
  clearTimeout(timer: number): void;
}

/** Browsers refuse more than about a hundred changes in half a minute. [ms] */
const kWait = 200;

export class Address {
  private link: Link;
  private written: string;
  private pending: string | null = null;
  private timer = 0;

  constructor(private readonly page: AddressPage, private readonly onProblem: (text: string) => void = () => undefined) {
    this.link = this.parse();
    this.written = page.location.hash;
  }

  /** The link in the address bar. */
  read(): Link {
    return this.link;
  }

  /** After a while without another change. */
  write(state: ViewState): void {
    const hash = formatLink(state, this.link.unknown);
    if (hash === (this.pending ?? this.written)) return;
    this.pending = hash;
    this.page.clearTimeout(this.timer);
    this.timer = this.page.setTimeout(() => { this.flush(); }, kWait);
  }

  /** At once, as before the address is copied. */
  flush(): void {
    this.page.clearTimeout(this.timer);
    if (this.pending === null) return;
    const { pathname, search } = this.page.location;
    this.written = this.pending;
    this.pending = null;
    this.page.history.replaceState(this.page.history.state, "", pathname + search + this.written);
  }

  /** Calls back when the user goes back, or changes the address. */
  onChange(changed: (link: Link) => void): void {
    this.page.addEventListener("hashchange", () => {
      if (this.page.location.hash === this.written) return;
      // A pending link belongs to the view before.
      this.page.clearTimeout(this.timer);
      this.pending = null;
      this.written = this.page.location.hash;
      this.link = this.parse();
      changed(this.link);
    });
  }

  private parse(): Link {
    const link = parseLink(this.page.location.hash);
    for (const problem of link.problems) this.onProblem(problem);
    return link;
  }
}
