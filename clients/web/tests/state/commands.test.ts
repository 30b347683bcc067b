import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { getCommand, grpcAddress, pythonCommand, shellWord } from "../../src/state/index";

const kBox = { begin: [0, 10, 20], end: [100, 42, 21] } as const;

describe("a line for the shell", () => {
  it("gets the box on screen", () => {
    const what = { selection: { dataset: "runs/run42", field: "speed", step: 7 }, box: kBox, level: 1 };

    expect(getCommand("grpc://cluster:50051", what)).toBe("quarry get grpc://cluster:50051/runs/run42 --field speed --step 7 " +
                                                          "--box 0:100,10:42,20:21 --level 1 --output run42-speed-7-l1.npy");
  });

  it("names the layer of accuracy", () => {
    const what = { selection: { dataset: "run42", field: "speed", step: 7 }, layer: 1, box: kBox, level: 0 };

    expect(getCommand("grpc://h:1", what)).toContain(" --level 0 --layer 1 --output run42-speed-7-a1-l0.npy");
    expect(pythonCommand("grpc://h:1", what)).toContain("level=0, layer=1)");
  });

  it("reaches the program as it was meant, whatever the names", () => {
    for (const name of ["a b", "it's", "$(touch x)", "`id`", "a;b", "a\"b", "\\", "*", "ü☃", "-x", "~", "a\nb"]) {
      expect(execFileSync("/bin/sh", ["-c", `printf %s ${shellWord(name)}`]).toString()).toBe(name);
    }
    const line = getCommand("grpc://h:1", { selection: { dataset: "../it's", field: "$x", step: 0 }, box: kBox, level: 0 });
    expect(execFileSync("/bin/sh", ["-c", `quarry() { printf '%s|' "$@"; }; ${line}`]).toString())
      .toBe("get|grpc://h:1/../it's|--field|$x|--step|0|--box|0:100,10:42,20:21|--level|0|--output|it_s-_x-0-l0.npy|");
  });

  it("names the machine of the page", () => {
    expect(grpcAddress({ protocol: "http:", hostname: "cluster" }, null)).toBe("grpc://cluster:50051");
    expect(grpcAddress({ protocol: "https:", hostname: "data.example.org" }, null)).toBe("grpcs://data.example.org:50051");
  });

  it("names the port that the server has got", () => {
    const server = grpcAddress({ protocol: "http:", hostname: "[::1]" }, 41234);
    const what = { selection: { dataset: "run42", field: "speed", step: 7 }, box: kBox, level: 1 };

    expect(server).toBe("grpc://[::1]:41234");
    expect(getCommand(server, what)).toContain("quarry get 'grpc://[::1]:41234/run42' ");
    expect(pythonCommand(server, what)).toContain('quarry.open("grpc://[::1]:41234/run42")');
  });
});

describe("a line for Python", () => {
  it("reads the box on screen, z first", () => {
    const what = { selection: { dataset: "it's \"run\"", field: "speed", step: 7 }, box: kBox, level: 1 };

    expect(pythonCommand("grpc://cluster:50051", what)).toBe(
      'import quarry; answer = quarry.open("grpc://cluster:50051/it\'s \\"run\\"")["speed"]' +
      ".read(step=7, box=((20, 21), (10, 42), (0, 100)), level=1)");
  });
});
