import { errorText } from "../errors";
import { button, h, iconButton, setAttribute, setText } from "./dom";
import { kGestures, kKeys } from "./keys";
import type { CopyKind, SheetActions } from "./page";
import { counted, shapeText } from "./text";

type Listed = Awaited<ReturnType<SheetActions["list"]>>;

/** Sheets over the page: the list of datasets, help, the token, and texts to copy. */
export class Dialogs {
  readonly elements: readonly HTMLElement[];
  private readonly chooser: HTMLDialogElement;
  private readonly list = h("div", { class: "dataset-list", role: "list" });
  private readonly search = h("input", {
    type: "search",
    placeholder: "Find by name",
    "aria-label": "Find a dataset by name",
    input: () => {
      this.fillList();
    },
  });
  private readonly address = h("input", { type: "url", placeholder: "https://HOST/NAME.quarry", "aria-label": "Address of a dataset on a web server" });
  private readonly helpSheet: HTMLDialogElement;
  private readonly tokenSheet: HTMLDialogElement;
  private readonly tokenText = h("p");
  private readonly tokenInput = h("input", { type: "password", autocomplete: "current-password", "aria-label": "Token" });
  private readonly menu: HTMLElement;
  private readonly toast = h("div", { class: "toast", role: "status", "aria-live": "polite", hidden: true });
  private toastTimer = 0;
  private listed: Listed = [];

  constructor(private readonly actions: SheetActions) {
    const opens = (event: Event): void => {
      this.addressGiven(event);
    };
    this.chooser = this.sheet(
      "Datasets",
      this.search,
      this.list,
      h("form", { class: "row", submit: opens }, this.address, h("button", { type: "submit" }, "Open address")),
    );
    this.helpSheet = this.sheet(
      "Keys and help",
      h("div", { class: "help" }, this.helpTable("Keys", kKeys), this.helpTable("Pointer", kGestures)),
    );
    const submit = (event: Event): void => {
      this.tokenGiven(event);
    };
    this.tokenSheet = this.sheet(
      "Token required",
      this.tokenText,
      h("form", { class: "row", submit }, this.tokenInput, h("button", { type: "submit", class: "main" }, "Open")),
    );
    this.menu = this.copyMenu();
    this.elements = [this.chooser, this.helpSheet, this.tokenSheet, this.menu, this.toast];
  }

  private sheet(title: string, ...children: readonly HTMLElement[]): HTMLDialogElement {
    const dialog = h(
      "dialog",
      {
        class: "sheet",
        "aria-label": title,
        click: (event) => {
          if (event.target === dialog) dialog.close();
        },
      },
      h(
        "div",
        { class: "sheet-head" },
        h("h2", {}, title),
        iconButton("close", "Close", () => {
          dialog.close();
        }),
      ),
      h("div", { class: "sheet-body", tabindex: 0 }, ...children),
    );
    return dialog;
  }

  private helpTable(title: string, rows: readonly (readonly [string, string])[]): HTMLElement {
    return h(
      "table",
      {},
      h("caption", {}, title),
      h("tbody", {}, ...rows.map(([key, text]) => h("tr", {}, h("th", { scope: "row" }, key), h("td", {}, text)))),
    );
  }

  help(): void {
    if (!this.helpSheet.open) this.helpSheet.showModal();
  }

  choose(): void {
    if (!this.chooser.open) this.chooser.showModal();
    this.search.focus();
    void this.fetchList();
  }

  private async fetchList(): Promise<void> {
    if (this.listed.length === 0) this.list.replaceChildren(h("p", { class: "hint" }, "The list is on its way."));
    try {
      this.listed = await this.actions.list();
      this.fillList();
    } catch (error) {
      const message = errorText(error);
      if ((error as { code?: string }).code === "unauthenticated") {
        this.chooser.close();
        this.askToken(message);
      } else {
        const again = button("Try again", () => {
          void this.fetchList();
        });
        this.list.replaceChildren(h("p", { class: "hint" }, message), again);
      }
    }
  }

  private fillList(): void {
    const wanted = this.search.value.trim().toLowerCase();
    const found = this.listed.filter((each) => each.name.toLowerCase().includes(wanted)).slice(0, 200);
    const none =
      this.listed.length === 0
        ? "This server has no datasets yet. It lists them as soon as they are written."
        : `No name has "${this.search.value}" in it.`;
    this.list.replaceChildren(...(found.length === 0 ? [h("p", { class: "hint" }, none)] : found.map((each) => this.row(each))));
  }

  private addressGiven(event: Event): void {
    event.preventDefault();
    const address = this.address.value.trim();
    if (address === "") return;
    this.chooser.close();
    this.actions.openDataset(address);
  }

  private row({ name, dims, grids, fields, steps, late }: Listed[number]): HTMLElement {
    const row = button(h("span", { class: "dataset-name" }, name), () => {
      this.chooser.close();
      this.actions.openDataset(name);
    }, { class: "dataset-row" });
    const unread = late ? "not read in time" : "cannot be read";
    const facts = dims === null ? [unread] : [shapeText(dims, grids), counted(fields, "field"), counted(steps, "step")];
    row.append(h("span", { class: "dataset-facts" }, facts.join(" · ")));
    return h("div", { role: "listitem" }, row);
  }

  askToken(message: string): void {
    setText(this.tokenText, `${message} It is kept until this tab is closed, and sent to this server only.`);
    if (!this.tokenSheet.open) this.tokenSheet.showModal();
    this.tokenInput.focus();
  }

  private tokenGiven(event: Event): void {
    event.preventDefault();
    const token = this.tokenInput.value.trim();
    if (token === "") return;
    if (!this.actions.useToken(token)) {
      setText(this.tokenText, "A token has printable characters only, and no spaces. Check what was pasted.");
      return;
    }
    this.tokenInput.value = "";
    this.tokenSheet.close();
  }

  private copyMenu(): HTMLElement {
    const entry = (text: string, kind: CopyKind): HTMLElement =>
      button(text, () => {
        this.toggleCopy();
        this.copy(kind);
      }, { role: "menuitem" });
    return h(
      "div",
      {
        class: "menu",
        role: "menu",
        "aria-label": "Copy",
        hidden: true,
        keydown: (event) => {
          this.menuKey(event as KeyboardEvent);
        },
      },
      entry("Link to this view", "link"),
      entry("Command: quarry get", "get"),
      entry("Python line", "python"),
    );
  }

  private menuKey(event: KeyboardEvent): void {
    const entries = [...this.menu.children] as HTMLElement[];
    const at = entries.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape") this.toggleCopy();
    else if (event.key === "ArrowDown") entries[(at + 1) % entries.length]?.focus();
    else if (event.key === "ArrowUp") entries[(at + entries.length - 1) % entries.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  toggleCopy(): void {
    this.menu.hidden = !this.menu.hidden;
    const button = document.getElementById("copy-button")!;
    setAttribute(button, "aria-expanded", String(!this.menu.hidden));
    if (this.menu.hidden) {
      button.focus();
      return;
    }
    const box = button.getBoundingClientRect();
    this.menu.style.top = `${box.bottom + 4}px`;
    this.menu.style.right = `${Math.max(8, window.innerWidth - box.right)}px`;
    (this.menu.firstElementChild as HTMLElement).focus();
  }

  copy(kind: CopyKind): void {
    const text = this.actions.copyText(kind);
    if (text === null) return;
    navigator.clipboard.writeText(text).then(
      () => {
        this.say(kind === "link" ? "Link copied" : `Copied: ${text}`);
      },
      () => {
        this.say(text);
      },
    );
  }

  /** A short message, which goes by itself. */
  say(text: string): void {
    setText(this.toast, text);
    this.toast.hidden = false;
    window.clearTimeout(this.toastTimer);
    this.toastTimer = window.setTimeout(() => {
      this.toast.hidden = true;
    }, 6000);
  }
}
