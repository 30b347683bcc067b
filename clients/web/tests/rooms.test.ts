/** The rooms of src import what docs/viewer.md says, and no files import each other in a circle. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { cruise, type ICruiseResult } from "dependency-cruiser";
import { ESLint, Linter } from "eslint";
import tseslint from "typescript-eslint";
import { describe, expect, it } from "vitest";

const kWeb = join(import.meta.dirname, "..");

/** The table in the document: rooms, and what each may import. Folders end with "/". */
function documented(): ReadonlyMap<string, readonly string[]> {
  const text = readFileSync(join(kWeb, "../../docs/viewer.md"), "utf8");
  const [, section] = text.split("\n## The source\n");
  const rows = section!.split("\n").filter((line) => line.startsWith("| `"));
  return new Map(rows.map((row) => {
    const [, room, , imports] = row.split("|").map((cell) => [...cell.matchAll(/`([^`]*)`/g)].map(([, name]) => name!));
    return [room![0]!, imports!];
  }));
}

const kRooms = documented();
const kFiles = readdirSync(join(kWeb, "src"), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts")).map((file) => file.replace(/\.ts$/, "")).sort();

function roomOf(file: string): string {
  return file.includes("/") ? `${file.split("/")[0]!}/` : `${file}.ts`;
}

function mayImport(room: string, target: string): boolean {
  if (target === "ui/app") return room === "main.ts";
  return room === roomOf(target) || kRooms.get(room)!.some((name) => name === roomOf(target) || name === target);
}

/** The imports of a file that eslint refuses, as far as rooms are concerned. */
async function refused(file: string, imports: readonly string[]): Promise<readonly string[]> {
  const config = await new ESLint({ cwd: kWeb }).calculateConfigForFile(`src/${file}.ts`) as Linter.Config;
  const rule = config.rules!["no-restricted-imports"]!;
  const parser = tseslint.parser as Linter.Parser;
  const lines = imports.map((target) => `import type {} from "${target}";`);
  const rules = { "no-restricted-imports": rule };
  const found = new Linter().verify(lines.join("\n"), { files: ["**/*.ts"], languageOptions: { parser }, rules }, `${file}.ts`);
  expect(found.filter((one) => one.ruleId !== "no-restricted-imports")).toEqual([]);
  return found.map((one) => imports[one.line - 1]!);
}

function pathTo(file: string, target: string): string {
  const path = posix.relative(posix.dirname(file), target);
  return path.startsWith(".") ? path : `./${path}`;
}

async function circles(folder: string): Promise<readonly string[]> {
  const rule = { name: "circle", severity: "error" as const, from: {}, to: { circular: true } };
  const { output } = await cruise(["."], {
    ruleSet: { forbidden: [rule] }, validate: true, tsPreCompilationDeps: true, doNotFollow: { path: "node_modules" },
    baseDir: folder,
  });
  const { summary, modules } = output as ICruiseResult;
  expect(modules.length).toBeGreaterThan(1);
  return summary.violations.map(({ from, cycle }) => [from, ...(cycle ?? []).map((step) => step.name)].join(" > "));
}

describe("the rooms of the source", () => {
  it("hold every file", () => {
    expect(kFiles.length).toBeGreaterThan(90);
    expect([...new Set(kFiles.map(roomOf))].sort()).toEqual([...kRooms.keys()].sort());
  });

  it.each([...kRooms.keys()])("%s imports what the document says, and nothing else", async (room) => {
    const file = room.endsWith("/") ? `${room}new` : room.replace(/\.ts$/, "");
    const others = kFiles.filter((each) => each !== file);
    const paths = others.map((target) => pathTo(file, target));
    const allowed = others.filter((target) => mayImport(room, target));
    const found = await refused(file, paths);
    expect(others.filter((target) => !found.includes(pathTo(file, target)))).toEqual(allowed);
  });

  it("know no other libraries, but for net", async () => {
    const messages = "../../build/proto/quarry/v1/service_pb";
    const libraries = ["@connectrpc/connect", "@bufbuild/protobuf/wire", messages, "node:fs", "vite"];
    expect(await refused("net/new", libraries)).toEqual(["node:fs", "vite"]);
    for (const file of ["decode/new", "store/new", "state/new", "render/new", "ui/new", "source", "main"])
      expect(await refused(file, libraries)).toEqual(libraries);
  });

  it("do not import around the table, and a new room is in it", async () => {
    const detours = ["../render/../net/token", "./panels/../app", "../ui/app", "../../src/net/token"];
    expect(await refused("ui/new", detours)).toEqual(detours);
    expect(await refused("other/new", ["../model"])).toEqual(["../model"]);
  });
});

describe("circles", () => {
  it("are not in the source, types included", async () => {
    expect(await circles(join(kWeb, "src"))).toEqual([]);
  });

  it("are found, also where only types are imported", async () => {
    const folder = mkdtempSync(join(tmpdir(), "quarry-circles-"));
    const write = (name: string, content: string): void => {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), content);
    };
    write("a.ts", 'import type { B } from "./rooms/b";\nexport type A = B;\n');
    write("rooms/b.ts", 'import type { C } from "../c";\nexport type B = C | 1;\n');
    write("c.ts", 'import type { A } from "./a";\nexport type C = A | 2;\n');
    const found = await circles(folder);
    rmSync(folder, { recursive: true });
    expect(found).toEqual(["a.ts > rooms/b.ts > c.ts > a.ts"]);
  });
});
