/**
 * Datasets, a server and a browser for the tests of the page as it is served. Environment:
 *
 *     QUARRY_BIN    the folder of the programs
 *     QUARRY_PAGE   the folder of the built page; default: build/viewer of the repository
 *     CHROMIUM      the browser; default: Debian's
 */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Browser, chromium, type Page } from "playwright-core";

const kBin = process.env["QUARRY_BIN"] ?? "";
const kPage = process.env["QUARRY_PAGE"] ?? join(import.meta.dirname, "../../../../build/viewer");
const kFlags = ["--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export function run(program: string, ...words: (string | number)[]): string {
  return execFileSync(join(kBin, program), words.map(String), { encoding: "utf8" });
}

export class Folder {
  readonly path = mkdtempSync(join(tmpdir(), "quarry-web-"));
  remove(): void { rmSync(this.path, { recursive: true, force: true }); }
  at(name: string): string { return join(this.path, name); }

  /** Writes a dataset, or adds to it, from samples x fastest. */
  write(dataset: string, field: string, dims: readonly [number, number, number], samples: NodeJS.ArrayBufferView, type: string, ...options: (string | number)[]): void {
    const raw = this.at("samples.raw");
    writeFileSync(raw, samples);
    run("quarry-write-single", raw, "--dims", dims.join("x"), "--type", type, "--field", field, "--output", this.at(`data/${dataset}.quarry`), ...options);
  }

  /** One sample as the command decodes it. */
  sample(dataset: string, field: string, at: readonly [number, number, number], step = 0): Buffer {
    const output = this.at("sample.raw");
    run("quarry", "get", this.at(`data/${dataset}.quarry`), "--field", field, "--step", step, "--box", at.map((i) => `${i}:${i + 1}`).join(","), "--output", output);
    return readFileSync(output);
  }
}

export class Server {
  http = "";
  private process: ChildProcess | null = null;

  constructor(private readonly root: string, private readonly options: readonly string[] = []) {}

  /** @param address  as before, after a stop; otherwise a free port */
  async start(address = "127.0.0.1:0"): Promise<void> {
    const server = spawn(join(kBin, "quarry-server"), [this.root, "--listen", "127.0.0.1:0", "--http", address, "--http-page", kPage, "--quiet", "--watch", "0.05",
      ...this.options], { stdio: ["ignore", "pipe", "inherit"] });
    this.process = server;
    for await (const line of createInterface({ input: server.stdout })) {
      if (line.startsWith("http on ")) this.http = line.slice(8);
      if (line.startsWith("listening on ")) return;
    }
    throw new Error("the server ended before it was ready");
  }

  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const server = this.process;
    if (server?.exitCode !== null) return;
    const ended = new Promise((resolve) => { server.once("exit", resolve); });
    server.kill(signal);
    await ended;
  }
}

export async function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: kFlags });
}

/** A page, with every error that it reports, and every state of loading that it showed. */
export class Viewer {
  readonly problems: string[] = [];

  private constructor(readonly page: Page, private readonly server: Server) {
    page.on("pageerror", (error) => { this.problems.push(error.message); });
    page.on("console", (message) => { if (message.type() === "error") this.problems.push(message.text()); });
  }

  /** @param decodes  false: the browser has no WebAssembly, and the server decodes */
  static async open(browser: Browser, server: Server, link: string, decodes = true): Promise<Viewer> {
    const viewer = new Viewer(await browser.newPage({ viewport: { width: 900, height: 640 } }), server);
    if (!decodes) await viewer.page.addInitScript("delete globalThis.WebAssembly");
    await viewer.page.addInitScript(() => {
      const seen: string[] = [];
      Object.assign(window, { seen });
      new MutationObserver(() => {
        const text = document.querySelector(".load")?.textContent ?? "";
        if (text !== "" && seen.at(-1) !== text) seen.push(text);
      }).observe(document, { subtree: true, childList: true, characterData: true });
    });
    await viewer.go(link);
    return viewer;
  }

  /** Opens a link, `d=name&f=field`, anew. */
  async go(link: string): Promise<void> {
    await this.page.goto("about:blank");
    await this.page.goto(`http://${this.server.http}/#v=1&${link}`);
  }

  async settled(): Promise<void> { await this.state("settled"); }
  async state(name: string): Promise<void> { await this.page.waitForSelector(`.load-state[data-state="${name}"]`, { timeout: 60_000 }); }
  async seen(): Promise<string[]> { return this.page.evaluate(() => (window as unknown as { seen: string[] }).seen); }
  async text(selector: string): Promise<string> { return (await this.page.textContent(selector)) ?? ""; }
  /** The pictures, without text around them. */
  async picture(): Promise<Buffer> { return this.page.locator(".stage").screenshot(); }
  async hash(): Promise<string> { return this.page.evaluate(() => location.hash); }
  async close(): Promise<void> { await this.page.close(); }
}
