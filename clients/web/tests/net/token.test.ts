import { describe, expect, it } from "vitest";
import { keepToken, takeToken, withoutToken } from "../../src/net/token";

function page(hash: string, kept: Record<string, string> = {}, broken = false) {
  const written: string[] = [];
  const storage = new Map(Object.entries(kept));
  const guard = <T>(value: T): T => {
    if (broken) throw new Error("storage is switched off");
    return value;
  };
  return {
    written, storage, location: { hash, pathname: "/view", search: "?q=1" },
    history: {
      state: 7,
      replaceState: (_state: unknown, _title: string, url?: string | URL | null) => { written.push(String(url)); },
    },
    sessionStorage: {
      getItem: (key: string) => guard(storage.get(key) ?? null),
      setItem: (key: string, value: string) => { guard(storage.set(key, value)); },
      removeItem: (key: string) => { guard(storage.delete(key)); },
    },
  };
}

describe("the token", () => {
  it("is taken out of the address, and kept for the tab", () => {
    const first = page("#v=1&token=s%2Bcret&d=run42");
    expect(takeToken(first)).toBe("s+cret");
    expect(first.written).toEqual(["/view?q=1#v=1&d=run42"]);

    const again = page("#v=1", Object.fromEntries(first.storage));
    expect([takeToken(again), again.written]).toEqual(["s+cret", []]);
  });

  it("leaves no empty hash behind", () => {
    const alone = page("#token=secret");
    takeToken(alone);

    expect(alone.written).toEqual(["/view?q=1"]);
    expect(withoutToken("#token=a&d=x&token=b")).toBe("#d=x");
  });

  it("that no header can hold is none", () => {
    for (const bad of ["#token=", "#token=%0d%0aevil:1", "#token=%", `#token=${"x".repeat(5000)}`]) {
      const one = page(bad, { "quarry-token": "old" });
      expect([takeToken(one), one.storage.size]).toEqual([null, 0]);
      expect(one.written.join()).not.toContain("token");
    }
    expect(takeToken(page("", { "quarry-token": "a\nb" }))).toBeNull();
    expect(keepToken(page(""), "a b")).toBe(false);
  });

  it("lasts as long as the page where storage is switched off", () => {
    expect(takeToken(page("#token=secret", {}, true))).toBe("secret");
    expect(takeToken(page("", {}, true))).toBeNull();
  });

  it("that the user types is kept", () => {
    const one = page("");
    expect(keepToken(one, "typed")).toBe(true);

    expect(takeToken(one)).toBe("typed");
  });
});
