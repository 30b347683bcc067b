import { describe, expect, it } from "vitest";
import type { ViewState } from "../../src/model";
import { Address, formatLink, parseLink } from "../../src/state/index";

const kState: ViewState = {
  dataset: "run42", field: "speed", step: 1, cursor: [1, 2, 3], clip: null, pane: "all",
  camera: { azimuth: 1, elevation: 2, distance: 3 }, colour: { map: "viridis", mode: "auto", low: null, high: null },
  volume: { threshold: 0, opacity: 1, mode: "ray" }, level: null, profile: null, compare: null,
};

function open(hash: string) {
  const timers = new Map<number, { readonly call: () => void; readonly ms: number }>();
  const listeners: (() => void)[] = [];
  const written: string[] = [];
  const location = { hash, pathname: "/", search: "" };
  let number = 0;
  const problems: string[] = [];
  const address = new Address({
    location,
    history: { state: null, replaceState: (_state, _title, url) => {
      written.push(String(url));
      location.hash = String(url).slice(String(url).indexOf("#"));
    } },
    addEventListener: (_type, listener) => { listeners.push(listener); },
    setTimeout: (call, ms) => {
      timers.set(++number, { call, ms });
      return number;
    },
    clearTimeout: (timer) => { timers.delete(timer); },
  }, (text) => { problems.push(text); });
  const pass = (): void => {
    for (const [timer, { call }] of [...timers]) {
      timers.delete(timer);
      call();
    }
  };
  const go = (next: string): void => {
    location.hash = next;
    for (const listener of listeners) listener();
  };
  return { address, timers, written, problems, pass, go };
}

describe("the address bar", () => {
  it("has the last of many changes, after 200 ms", () => {
    const t = open("");
    for (let step = 0; step < 5; ++step) t.address.write({ ...kState, step });
    expect([t.written, [...t.timers.values()].map((timer) => timer.ms)]).toEqual([[], [200]]);
    t.pass();
    expect(t.written).toEqual([`/${formatLink({ ...kState, step: 4 })}`]);
    t.address.write({ ...kState, step: 4 });

    expect(t.timers.size).toBe(0);
  });

  it("is written at once before it is copied", () => {
    const t = open("");
    t.address.write(kState);
    t.address.flush();
    t.pass();

    expect(t.written.length).toBe(1);
  });

  it("keeps unknown keys, and tells of bad values", () => {
    const t = open("#d=run42&t=soon&future=1");
    t.address.write(kState);
    t.pass();

    expect(t.problems.length).toBe(1);
    expect(t.written[0]!.endsWith("&future=1")).toBe(true);
  });

  it("of another link is read, and what was to be written is not written over it", () => {
    const t = open("#d=run42");
    const seen: unknown[] = [];
    t.address.onChange((link) => { seen.push(link.values); });
    t.address.write(kState);
    t.go("#d=other");
    t.pass();

    expect([seen, t.written]).toEqual([[{ dataset: "other" }], []]);
    expect(t.address.read()).toEqual(parseLink("#d=other"));
  });

  it("of our own is no news", () => {
    const t = open("");
    let changes = 0;
    t.address.onChange(() => { ++changes; });
    t.address.write(kState);
    t.pass();
    t.go(formatLink(kState));

    expect(changes).toBe(0);
  });
});
