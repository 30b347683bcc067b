import { describe, expect, it } from "vitest";
import { StreamQueue } from "../../src/net/queue";
import { settle } from "./fake_server";

interface Stream {
  readonly name: string;
  readonly stop: AbortController;
  readonly end: () => void;
}

function openQueue(most: number) {
  const queue = new StreamQueue(most);
  const begun: string[] = [];
  const failed: string[] = [];
  const open = (name: string, priority: number): Stream => {
    const stop = new AbortController();
    let end: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => { end = resolve; });
    const make = async function* () {
      begun.push(name);
      await gate;
      yield name;
    };
    void (async () => {
      try {
        for await (const one of queue.stream(priority, stop.signal, make)) expect(one).toBe(name);
      } catch {
        failed.push(name);
      }
    })();
    return { name, stop, end };
  };
  return { queue, begun, failed, open };
}

describe("the queue of streams", () => {
  it("has a few at a time, small priorities first", async () => {
    const { queue, begun, open } = openQueue(2);
    const [a, b] = [open("a", 9), open("b", 9)];
    const [c, , e] = [open("c", 5), open("d", 5), open("e", 1)];
    await settle(10);
    expect([begun, queue.active]).toEqual([["a", "b"], 2]);
    a.end();
    await settle(10);
    expect(begun).toEqual(["a", "b", "e"]);
    b.end();
    e.end();
    await settle(10);
    expect(begun).toEqual(["a", "b", "e", "c", "d"]);
    c.end();
    await settle(10);

    expect(queue.active).toBe(1);
  });

  it("forgets those that are aborted while they wait", async () => {
    const { begun, failed, open } = openQueue(1);
    const a = open("a", 1);
    const b = open("b", 1);
    open("c", 1);
    await settle(10);
    b.stop.abort();
    a.end();
    await settle(10);

    expect([begun, failed]).toEqual([["a", "c"], ["b"]]);
  });
});
