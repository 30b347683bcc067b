/**
 * Datasets, a server and a browser for the tests of the page as it is served. Environment:
 *
 *     QUARRY_BIN     the folder of the programs
 *     QUARRY_PAGE    the folder of the built page; default: build/viewer of the repository
 *     QUARRY_PYTHON  the folder of the Python package; default: python beside QUARRY_BIN
 *     PYTHON         the interpreter that it was built for; default: that of build/python-environment
 *     CHROMIUM       the browser; default: Debian's
 */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { get, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { type Browser, chromium, type Page } from "playwright-core";

const kBin = process.env["QUARRY_BIN"] ?? "";
export const kPage = process.env["QUARRY_PAGE"] ?? join(import.meta.dirname, "../../../../build/viewer");
const kPackage = process.env["QUARRY_PYTHON"] ?? join(kBin, "../python");
const kPython = process.env["PYTHON"] ?? join(import.meta.dirname, "../../../../build/python-environment/bin/python");
const kFlags = ["--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export function run(program: string, ...words: (string | number)[]): string {
  return execFileSync(join(kBin, program), words.map(String), { encoding: "utf8" });
}

/** Runs a line as a user pastes it into a shell. */
export function runLine(line: string, folder: string): void {
  execFileSync("/bin/sh", ["-c", line], { cwd: folder, env: { ...process.env, PATH: `${kBin}:${process.env["PATH"]}` } });
}

export const hasPython = existsSync(join(kPackage, "quarry/__init__.py")) && existsSync(kPython);

export function runPython(lines: readonly string[], folder: string): void {
  execFileSync(kPython, ["-c", lines.join("\n")], { cwd: folder, env: { ...process.env, PYTHONPATH: kPackage } });
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
  /** The gRPC port. */
  address = "";
  private metricsAddress = "";
  private process: ChildProcess | null = null;

  constructor(private readonly root: string, private readonly options: readonly string[] = []) {}

  /** @param address  as before, after a stop; otherwise a free port */
  async start(address = "127.0.0.1:0"): Promise<void> {
    const server = spawn(join(kBin, "quarry-server"), [this.root, "--listen", "127.0.0.1:0", "--http", address, "--http-page", kPage, "--quiet", "--watch", "0.05",
      "--metrics", "127.0.0.1:0", ...this.options], { stdio: ["ignore", "pipe", "inherit"] });
    this.process = server;
    for await (const line of createInterface({ input: server.stdout })) {
      if (line.startsWith("http on ")) this.http = line.slice(8);
      if (line.startsWith("metrics on ")) this.metricsAddress = line.slice(11);
      if (!line.startsWith("listening on ")) continue;
      this.address = line.slice(13);
      return;
    }
    throw new Error("the server ended before it was ready");
  }

  /** Requests of a method that are answered: all, or those with a result such as "CANCELLED". */
  async answered(method: string, result = ""): Promise<number> {
    const lines = (await this.metrics()).filter((line) => line.startsWith("quarry_requests_total{") && line.includes(`"${method}"`) && line.includes(result));
    return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }

  /** Requests that are being answered. */
  async running(): Promise<number> { return this.metric("quarry_requests_running"); }

  async metric(name: string): Promise<number> {
    return Number((await this.metrics()).find((line) => line.startsWith(`${name} `))?.split(" ")[1]);
  }

  /** Over a connection of its own: the server ends one that waits for a while, at the moment when it is used again. */
  private async metrics(): Promise<string[]> {
    const answer = new Promise<IncomingMessage>((resolve, reject) => {
      get(`http://${this.metricsAddress}/metrics`, { agent: false }, resolve).once("error", reject);
    });
    return (await text(await answer)).split("\n");
  }

  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const server = this.process;
    if (server?.exitCode !== null) return;
    const ended = new Promise((resolve) => { server.once("exit", resolve); });
    server.kill(signal);
    await ended;
  }
}

/** A way to a server over which answers can be made slow: road.py. */
export class Road {
  http = "";
  private process: ChildProcess | null = null;

  constructor(private readonly server: Server) {}

  async open(): Promise<void> {
    const road = spawn("python3", [join(import.meta.dirname, "road.py"), this.server.http], { stdio: ["pipe", "pipe", "inherit"] });
    this.process = road;
    const [line] = await once(createInterface({ input: road.stdout }), "line") as [string];
    this.http = `127.0.0.1:${line.split(" ")[1]}`;
  }

  /** Bytes a second from the server, on each connection. */
  set limit(limit: number) { this.process?.stdin?.write(`${limit === Infinity ? "inf" : limit}\n`); }

  close(): void { this.process?.kill(); }
}

export async function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: kFlags });
}

/** A page, with every error that it reports, and every state of loading that it showed. */
export class Viewer {
  readonly problems: string[] = [];

  private constructor(readonly page: Page, private readonly server: { readonly http: string }) {
    page.on("pageerror", (error) => { this.problems.push(error.message); });
    page.on("console", (message) => { if (message.type() === "error") this.problems.push(message.text()); });
  }

  /**
   * @param server   the server, or a road to it
   * @param decodes  false: the browser has no WebAssembly, and the server decodes
   */
  static async open(browser: Browser, server: { readonly http: string }, link: string, decodes = true): Promise<Viewer> {
    const viewer = new Viewer(await browser.newPage({ viewport: { width: 900, height: 640 } }), server);
    viewer.page.setDefaultTimeout(600_000);  // a longer wait is a hang
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
  async state(name: string): Promise<void> { await this.page.waitForSelector(`.load-state[data-state="${name}"]`, { timeout: 600_000 }); }
  async seen(): Promise<string[]> { return this.page.evaluate(() => (window as unknown as { seen: string[] }).seen); }
  /** The value at the cursor in the footer, once it is a sample as stored. */
  async value(): Promise<string> {
    await this.page.waitForFunction(() => !(document.querySelector(".quality")?.textContent ?? "coded").includes("coded"), null, { timeout: 600_000 });
    return (await this.text(".value")).replaceAll("−", "-");
  }
  async text(selector: string): Promise<string> { return (await this.page.textContent(selector)) ?? ""; }
  /** The pictures, without text around them. */
  async picture(): Promise<Buffer> { return this.page.locator(".stage").screenshot(); }
  /**
   * The share of pixels that differ between two pictures by more than the next colours do, as coded slices may, and the
   * colours of the second.
   */
  async compared(first: Buffer, second: Buffer): Promise<{ readonly different: number; readonly colours: number }> {
    return this.page.evaluate(async (files) => {
      const [one, other] = await Promise.all(files.map(async (file) => {
        const image = new Image();
        image.src = `data:image/png;base64,${file}`;
        await image.decode();
        const context = new OffscreenCanvas(image.width, image.height).getContext("2d")!;
        context.drawImage(image, 0, 0);
        return new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
      }));
      const channel = (pixel: number, shift: number): number => (pixel >>> shift) & 255;
      const far = (a: number, b: number): boolean => [0, 8, 16].some((shift) => Math.abs(channel(a, shift) - channel(b, shift)) > 8);
      const different = one!.reduce((sum, pixel, i) => sum + (far(pixel, other![i]!) ? 1 : 0), 0) / one!.length;
      return { different, colours: new Set(other).size };
    }, [first.toString("base64"), second.toString("base64")]);
  }

  /** The link that the page copies. In the address bar it is only a moment after the page has settled. */
  async link(): Promise<string> {
    await this.page.click("#copy-button");
    await this.page.click("text=Link to this view");
    return this.page.evaluate(() => location.hash);
  }
  /** The text that an entry of the menu copies. */
  async copied(entry: string): Promise<string> {
    await this.page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await this.page.click("#copy-button");
    await this.page.click(`text=${entry}`);
    await this.page.waitForSelector(".toast:has-text('Copied: ')");
    return this.page.evaluate(() => navigator.clipboard.readText());
  }
  async close(): Promise<void> { await this.page.close(); }
}
