import type { Setting, Stepping, Viewed } from "./page";
import { isStill, resolveStep } from "./session";

export type StepsNeeds = Pick<Viewed, "opened" | "state"> & Pick<Setting, "set">;

export class Steps implements Stepping {
  constructor(private readonly page: StepsNeeds) {}

  get numbers(): readonly number[] {
    const { opened, state } = this.page;
    return (opened?.steps ?? []).filter((step) => step.fields.has(state?.field ?? "")).map((step) => step.step);
  }

  get wanted(): number | null {
    const { opened, state } = this.page;
    return opened && state ? resolveStep(opened, state.field, state.step) : null;
  }

  get still(): boolean {
    const { opened, state } = this.page;
    return opened !== null && state !== null && isStill(opened, state.field);
  }

  to(at: number): void {
    const step = this.numbers[at];
    if (step !== undefined) this.page.set({ step }, true);
  }

  by(count: number): void {
    const at = this.numbers.indexOf(this.wanted ?? NaN) + count;
    if (at >= 0) this.to(at);
  }

  toggleLive(): void {
    const { state } = this.page;
    if (state) this.page.set({ step: state.step === "live" ? (this.wanted ?? 0) : "live" });
  }

  other(): number {
    const list = this.numbers;
    const at = list.indexOf(this.wanted ?? NaN);
    return list[at - 1] ?? list[at + 1] ?? list[at] ?? 0;
  }
}
