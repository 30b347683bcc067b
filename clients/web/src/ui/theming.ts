/** Light or dark, and whether the panel is folded: settings of the browser, not of the link. */
type Choice = "light" | "dark" | null;

function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function write(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}

export class Theming {
  private readonly system = window.matchMedia("(prefers-color-scheme: dark)");
  private choice: Choice;
  private folded = read("quarry-panel") === "folded";

  constructor(private readonly onChange: () => void) {
    const kept = read("quarry-theme");
    this.choice = kept === "light" || kept === "dark" ? kept : null;
    this.apply();
    this.system.addEventListener("change", () => {
      this.apply();
      this.onChange();
    });
  }

  get dark(): boolean {
    return this.choice === null ? this.system.matches : this.choice === "dark";
  }

  toggle(): void {
    this.choice = this.dark ? "light" : "dark";
    write("quarry-theme", this.choice);
    this.apply();
    this.onChange();
  }

  private apply(): void {
    document.documentElement.dataset.theme = this.dark ? "dark" : "light";
  }

  get panelFolded(): boolean {
    return this.folded;
  }

  set panelFolded(folded: boolean) {
    this.folded = folded;
    write("quarry-panel", folded ? "folded" : "open");
  }
}
